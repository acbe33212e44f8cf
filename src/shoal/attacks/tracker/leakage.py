"""What a tracker learns beyond the proven claim, measured on random windows and never promised.

All records that fit a window are candidates. Where every candidate covers a later sample of the person, the
tracker learns where the person was then without knowing which record is whose. `more_knowledge` measures how
many records fit what is known of more than one window. `measure_combined` measures what is left of k where a
tracker also holds earlier releases: a record remains a candidate if it fits the window and the record linked
to it in each earlier release fits it too.

People who are hidden by the same other record again and again: a pair that hides each other hides badly.

Every user is looked at. A few windows are drawn for each; the records that fit most of them are then followed
over all windows of the user. A record that fits in every window is among them for sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from shoal.attacks.tracker.evidence import Progress, in_threads, make_tables
from shoal.attacks.tracker.fits import (
    WindowDraw,
    Windows,
    all_fitting,
    count_fitting,
    good_starts,
    last_before,
    starts_by_first,
)
from shoal.attacks.tracker.index import build_index
from shoal.attacks.tracker.quiet import faults_of
from shoal.attacks.tracker.tables import Tables, check_claim
from shoal.errors import PlanError

WINDOWS = 5000
LAGS = 32  # bins of lags: 0 to 1 epoch, 1 to 2, 2 to 4, ...
LIMITS = "Measured, not promised: no composition, no protection beyond the stated adversary."


def measure(*columns, users: int, steps: int, **how: Any) -> dict[str, Any]:
    """Draw windows and follow them; columns as verify_arrays takes them, the rest as measure_tables."""
    return measure_tables(make_tables(columns[:4], columns[4:], users=users, steps=steps), **how)


def measure_tables(
    tables: Tables,
    index: tuple | None = None,
    *,
    epoch: int,
    k: int,
    tau: int,
    seed: int = 0,
    windows: int = WINDOWS,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The same, of arrays that are in order; epoch and tau in steps."""
    check_claim(k, tau, tables.users, tables.steps)
    if epoch < 1 or windows < 1:
        raise PlanError("measure-size", "an epoch must be 1 step or longer, and windows 1 or more.")
    index = build_index(tables) if index is None else index
    rng = np.random.default_rng(seed)
    if progress is not None:
        progress.stage("measure leakage", 3)
    tell = progress.advance if progress is not None else lambda amount: None
    draw = WindowDraw(tables, tau)
    drawn = draw.anywhere(rng, windows)
    counted = _covered(tables.samples, tables.boxes, index, drawn.user, drawn.first, drawn.start, tau, epoch)
    tell(1)
    known = more_knowledge(tables, index, draw, drawn, k=k, tau=tau, rng=rng)
    tell(1)
    pairs = same_record(tables, index, draw, tau=tau, rng=rng)
    tell(1)
    return {
        "seed": seed,
        "windows": len(drawn),
        "candidates_quartiles": known[0]["quartiles"],
        "leakage_by_lag": _lags(counted),
        "more_knowledge": known,
        "same_record": pairs,
        "limits": LIMITS,
    }


def _lags(counted: np.ndarray) -> list[dict[str, Any]]:
    """Samples so far from the window, in epochs, and how many of them all candidates cover."""
    used = np.flatnonzero(counted[:, :, 0].sum(axis=0))
    lags = []
    for bin_ in range(used[-1] + 1) if len(used) else ():
        samples, covered = counted[:, bin_].sum(axis=0)
        lag = {"from_epochs": 0 if bin_ == 0 else 2 ** (bin_ - 1), "to_epochs": 2**bin_}
        for side, name in enumerate(("before", "after")):
            lag[f"samples_{name}"], lag[f"covered_{name}"] = map(int, counted[side, bin_])
        lags.append({**lag, "share": float(covered / samples) if samples else None})
    return lags


@njit(cache=True, nogil=True)
def _covered(samples, boxes, index, user, first, start, tau, epoch):
    """int64 [before or after, lag, all or covered]: samples of the user, by all candidates of the window."""
    sample_start, t, x, y, _ = samples
    records = len(boxes[0]) - 1
    marked, fitting = np.zeros(records, np.uint8), np.empty(records, np.int64)
    counted = np.zeros((2, LAGS, 2), np.int64)
    for row in range(len(user)):
        i, w = user[row], start[row]
        count = all_fitting(samples, boxes, index, i, first[row], w, tau, marked, fitting)
        for n in range(sample_start[i], sample_start[i + 1]):
            if w <= t[n] < w + tau:
                continue
            side = 1 if t[n] >= w else 0
            steps = t[n] - (w + tau - 1) if side else w - t[n]
            lag, far = 0, (steps - 1) // epoch
            while far:
                lag, far = lag + 1, far >> 1
            counted[side, lag, 0] += 1
            every = count > 0
            for r in fitting[:count]:
                if not _covers(boxes, r, t[n], x[n], y[n]):
                    every = False
                    break
            counted[side, lag, 1] += every
    return counted


@njit(cache=True, nogil=True)
def _covers(boxes, r, t, x, y):
    """Whether some box of record r holds the point."""
    box_start, box, _, reach = boxes
    p = last_before(box, box_start[r], box_start[r + 1], t)
    while p >= box_start[r] and reach[p] >= t:
        if box[p, 1] >= t and box[p, 2] <= x <= box[p, 3] and box[p, 4] <= y <= box[p, 5]:
            return True
        p -= 1
    return False


TWO_APART = "two windows of tau apart"
LENGTHS = (2, 3, 4)  # times tau, without a break
TRIES = 20  # for a second window that does not touch the first


def _known(knows: str, counts: np.ndarray, k: int) -> dict[str, Any]:
    """Windows tried with this knowledge: in how many fewer than k records fit, in how many only one."""
    few, one = int((counts < k).sum()), int((counts <= 1).sum())
    tried = len(counts)
    return {
        "knows": knows,
        "windows": tried,
        "fewer_than_k": few,
        "fewer_than_k_share": few / tried if tried else None,
        "only_one": one,
        "only_one_share": one / tried if tried else None,
        "quartiles": quartiles(counts),
    }


def more_knowledge(
    tables: Tables, index: tuple, draw: WindowDraw, windows: Windows, *, k: int, tau: int, rng
) -> list[dict[str, Any]]:
    """One window, two that do not touch, and 2, 3, 4 tau without a break."""
    one = count_fitting(tables.samples, tables.boxes, index, *_columns(windows), tau)
    known = [_known("one window of tau", one, k)]
    first, second = windows_apart(draw, windows, tau, rng)
    both = count_both(tables.samples, tables.boxes, index, *_columns(first), *_columns(second), tau)
    known.append(_known(TWO_APART, both, k))
    for times in LENGTHS:
        whole = windows[(windows.start >= 0) & (windows.start + times * tau <= tables.steps)]
        counts = count_fitting(tables.samples, tables.boxes, index, *_columns(whole), times * tau)
        known.append(_known(f"{times} tau without a break", counts, k))
    return known


def _columns(windows: Windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return windows.user, windows.first, windows.start


def windows_apart(draw: WindowDraw, windows: Windows, tau: int, rng) -> tuple[Windows, Windows]:
    """Each window with another of its user that does not touch it; those without one are left out."""
    other = draw.of_users(rng, windows.user)
    for _ in range(TRIES):
        touching = np.flatnonzero(np.abs(other.start - windows.start) < tau)
        again = draw.of_users(rng, windows.user[touching])
        other.first[touching], other.start[touching] = again.first, again.start
    apart = np.abs(other.start - windows.start) >= tau
    return windows[apart], other[apart]


@njit(cache=True, nogil=True)
def count_both(samples, boxes, index, user, first, start, _, first_2, start_2, tau):
    """int64 [pairs of windows]: how many records fit both."""
    records = len(boxes[0]) - 1
    marked, one = np.zeros(records, np.uint8), np.empty(records, np.int64)
    two, in_one = np.empty(records, np.int64), np.zeros(records, np.bool_)
    counts = np.zeros(len(user), np.int64)
    for row in range(len(user)):
        i = user[row]
        fit = all_fitting(samples, boxes, index, i, first[row], start[row], tau, marked, one)
        in_one[one[:fit]] = True
        also = all_fitting(samples, boxes, index, i, first_2[row], start_2[row], tau, marked, two)
        counts[row] = in_one[two[:also]].sum()
        in_one[one[:fit]] = False
    return counts


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkedRelease:
    """An earlier release: its tables and clock, and how users and records of this release map to its own."""

    tables: Tables = field(repr=False)
    start_us: int
    step_us: int
    user: np.ndarray = field(repr=False)  # int64 [users]: number of the same user there, -1 if not there
    record: np.ndarray = field(repr=False)  # int64 [users]: number of the linked record there, -1 if none


def measure_combined(
    tables: Tables, earlier: Sequence[LinkedRelease], *, start_us: int, step_us: int, k: int, tau: int, seed=0
) -> dict[str, Any]:
    """Shares of windows of tau steps with fewer than k candidates, and with the person's own record alone.

    Windows have a retained sample in this release and lie within the time of every earlier one.
    """
    drawn = WindowDraw(tables, tau).anywhere(np.random.default_rng(seed), WINDOWS)
    begins = start_us + drawn.start * step_us
    inside = np.ones(len(drawn), np.bool_)
    for each in earlier:
        end = each.start_us + each.tables.steps * each.step_us
        inside &= (begins >= each.start_us) & (begins + tau * step_us <= end) & (each.user[drawn.user] >= 0)
    drawn, begins = drawn[inside], begins[inside]
    index = build_index(tables)
    alone = np.zeros(len(drawn), np.bool_)
    counts = np.zeros(len(drawn), np.int64)
    for row in range(len(drawn)):
        fitting = _fitting(tables, index, drawn.user[row], drawn.first[row], drawn.start[row], tau)
        for each in earlier:
            at = (begins[row] - each.start_us) // each.step_us, max(tau * step_us // each.step_us, 1)
            them = each.tables.samples, each.tables.boxes, each.user[drawn.user[row]]
            linked = each.record[fitting]
            fits = [r < 0 or faults_of(*them, r, *at)[0] == 0 for r in linked]
            fitting = fitting[np.array(fits, np.bool_)]
        counts[row] = len(fitting)
        alone[row] = len(fitting) == 1 and fitting[0] == drawn.user[row]
    measured = len(drawn) > 0
    return {
        "windows": len(drawn),
        "fewer_than_k_share": float((counts < k).mean()) if measured else None,
        "own_record_alone_share": float(alone.mean()) if measured else None,
    }


def _fitting(tables: Tables, index: tuple, user, first, start, tau: int) -> np.ndarray:
    marked, fitting = np.zeros(tables.users, np.uint8), np.empty(tables.users, np.int64)
    count = all_fitting(tables.samples, tables.boxes, index, user, first, start, tau, marked, fitting)
    return fitting[:count]


DRAWN = 4  # windows of each user
FOLLOWED = 8  # records of each user, where none fits all drawn windows
SHOWN = 10
BLOCKS = 32  # of users, for threads


def same_record(tables: Tables, index: tuple, draw: WindowDraw, *, tau: int, rng) -> dict[str, Any]:
    """For every user with samples further apart than tau, the largest share of windows one other record fits.

    `always_same` counts the users whom one other record fits in every window. In `worst`, the record fits
    `share` of the user's windows, and the user's record fits `back` of that record's.
    """
    starts = starts_by_first(tables.samples, tau)
    windows = draw.count_by_user()
    users = np.flatnonzero(windows > tau)  # else all windows share a sample, and one record may do
    drawn = [draw.of_users(rng, users) for _ in range(DRAWN)]
    first = np.stack([each.first for each in drawn], axis=1)
    start = np.stack([each.start for each in drawn], axis=1)
    pieces = [
        lambda a=rows: _closest(
            tables.samples, tables.boxes, index, starts, users[a], first[a], start[a], tau
        )
        for rows in np.array_split(np.arange(len(users)), BLOCKS)
    ]
    record, fitted = (np.concatenate(part) for part in zip(*in_threads(pieces), strict=True))
    share = fitted / windows[users]
    order = np.lexsort((users, -windows[users], -share))
    worst: list[dict[str, Any]] = []
    for row in order:
        i, r = int(users[row]), int(record[row])
        if len(worst) == SHOWN or r < 0:
            break
        if any((pair["user"], pair["record"]) == (r, i) for pair in worst):
            continue
        back = _fitted(tables.samples, tables.boxes, starts, r, i, tau) / max(int(windows[r]), 1)
        pair = {"user": i, "record": r, "windows": int(windows[i])}
        worst.append({**pair, "share": float(share[row]), "back": float(back)})
    always = int((share >= 1).sum())
    return {
        "users": len(users),
        "largest_share_quartiles": quartiles(share),
        "always_same": always,
        "always_same_share": always / len(users) if len(users) else None,
        "worst": worst,
    }


def quartiles(values: np.ndarray) -> tuple[float, float, float] | None:
    """None where there are no values."""
    if not len(values):
        return None
    low, middle, high = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    return low, middle, high


@njit(cache=True, nogil=True)
def _closest(samples, boxes, index, starts, users, first, start, tau):
    """For each user, the other record that fits most windows (-1: none) and how many it fits."""
    records = len(boxes[0]) - 1
    marked, fitting = np.zeros(records, np.uint8), np.empty(records, np.int64)
    tally = np.zeros(records, np.int64)
    best = np.full(len(users), -1, np.int64)
    fitted = np.zeros(len(users), np.int64)
    for row in range(len(users)):
        i = users[row]
        met = [np.int64(i)]
        for column in range(first.shape[1]):
            j, w = first[row, column], start[row, column]
            count = all_fitting(samples, boxes, index, i, j, w, tau, marked, fitting)
            for r in fitting[:count]:
                if r != i:
                    if tally[r] == 0:
                        met.append(r)
                    tally[r] += 1
        ranked = np.array(met)[1:]
        ranked = ranked[np.argsort(-tally[ranked], kind="mergesort")]
        for place in range(len(ranked)):
            r = ranked[place]
            if place >= FOLLOWED and tally[r] < first.shape[1]:
                break
            fits = _fitted(samples, boxes, starts, i, r, tau)
            if fits > fitted[row]:
                best[row], fitted[row] = r, fits
            if fits == starts[samples[0][i] : samples[0][i + 1]].sum():
                break
        tally[ranked] = 0
    return best, fitted


@njit(cache=True, nogil=True)
def _fitted(samples, boxes, starts, i, r, tau):
    """In how many windows of user i with a retained sample record r fits."""
    sample_start, t = samples[0], samples[1]
    box_start, box = boxes[0], boxes[1]
    fitted = 0
    for j in range(sample_start[i], sample_start[i + 1]):
        if starts[j]:
            p = last_before(box, box_start[r], box_start[r + 1], t[j])
            low, high = good_starts(samples, boxes, i, j, t[j] - starts[j], r, p, tau)
            fitted += max(0, high - low + 1)
    return fitted
