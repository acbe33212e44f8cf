"""Attacks on released boxes, whatever made them: a few points known, or all of a window of time.

points   p samples of a person are known, drawn at random, exactly or as blocks of space and time. Candidates
         are the records that have, for each, a box which meets it. One candidate singles a record out; if it
         is the person's own, the person is linked.
window   all samples of a person within tau are known. The adversary picks the record that holds most of them,
         among those the one with the smallest boxes around them, then at random; and reads off its other
         boxes where the person was. `learned` is the share of the person's other samples that they hold;
         `by_chance` is the same share for a record picked at random. Only the difference was learned.

Known samples that were suppressed meet no box of the own record: that person is not linked. Records count
from 0, record j is user j's; boxes of a record are disjoint in time. Plain arrays only: nothing is shared
with the methods under attack.

Which records have boxes that meet known places and times: the compiled part of the attacks on boxes.

`samples` are start, t, x, y and `boxes` start, t0, t1, x0, x1, y0, y1, both sorted by owner and time, int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.errors import PlanError


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """Raw samples and released boxes side by side, in plain arrays with offsets by user and by record."""

    samples: tuple[np.ndarray, ...] = field(repr=False)  # start, t, x, y
    boxes: tuple[np.ndarray, ...] = field(repr=False)  # start, t0, t1, x0, x1, y0, y1

    @classmethod
    def of(cls, user, t, x, y, record, t0, t1, x0, x1, y0, y1, *, users: int) -> Known:
        """Columns in any order; sorted here."""
        return cls(
            samples=_sorted(user, (t, x, y), users),
            boxes=_sorted(record, (t0, t1, x0, x1, y0, y1), users),
        )

    @property
    def users(self) -> int:
        return len(self.samples[0]) - 1


@dataclass(frozen=True, kw_only=True)
class PointsKnown:
    """People with so many samples; how many a single record fits, and for how many it is their own."""

    points: int
    people: int
    unique: int
    linked: int

    @property
    def unique_share(self) -> float:
        return self.unique / self.people if self.people else float("nan")

    @property
    def linked_share(self) -> float:
        return self.linked / self.people if self.people else float("nan")


@dataclass(frozen=True, kw_only=True)
class WindowKnown:
    """Means over people: the pick is their own record; shares of their other samples that it gives away."""

    people: int
    right: float
    learned: float
    by_chance: float
    pinned: float  # by small boxes only
    pinned_by_chance: float


def attack_points(
    known: Known,
    points: Sequence[int] = (1, 2, 3, 4),
    *,
    block_steps: int = 1,
    block_cells: int = 1,
    seed: int = 1,
    targets: int | None = None,
) -> list[PointsKnown]:
    """People whom p random samples single out, known as blocks of so many steps and cells.

    >>> samples = [0, 1], [3, 3], [7, 8], [5, 5]
    >>> known = Known.of(*samples, [0, 1], [3, 3], [4, 4], [7, 7], [7, 8], [5, 5], [5, 5], users=2)
    >>> [(found.unique, found.linked) for found in attack_points(known, (1,))]
    [(1, 1)]
    """
    if not points or min(points) < 1 or block_steps < 1 or block_cells < 1:
        raise PlanError("attack-points", "points and blocks must be 1 or more.")
    rng = np.random.default_rng(seed)
    most = max(points)
    start = known.samples[0]
    who = _targets(known, rng, targets)
    drawn = np.full((len(who), most), -1, np.int64)
    for row, user in enumerate(who):
        count = start[user + 1] - start[user]
        taken = rng.permutation(count)[:most]
        drawn[row, : len(taken)] = start[user] + taken
    candidates, own = count_candidates(known.samples, known.boxes, who, drawn, block_steps, block_cells)
    results = []
    for p in points:
        has = drawn[:, p - 1] >= 0
        one = has & (candidates[:, p - 1] == 1)
        linked = one & own[:, p - 1]
        results.append(
            PointsKnown(points=p, people=int(has.sum()), unique=int(one.sum()), linked=int(linked.sum()))
        )
    return results


def attack_window(
    known: Known,
    tau: int,
    *,
    small_steps: int,
    small_cells: int,
    seed: int = 1,
    targets: int | None = None,
) -> WindowKnown:
    """Attacks each person with a window of tau steps around a random sample of theirs.

    Small boxes last at most `small_steps`, with Dx + Dy at most `small_cells`.
    """
    if tau < 1:
        raise PlanError("attack-tau", f"tau must be 1 step or more; got {tau}.")
    rng = np.random.default_rng(seed)
    start, t = known.samples[0], known.samples[1]
    who = _targets(known, rng, targets)
    counts = start[who + 1] - start[who]
    known_sample = start[who] + (rng.random(len(who)) * counts).astype(np.int64)
    begins = t[known_sample] - (rng.random(len(who)) * tau).astype(np.int64)
    draws, blind = rng.random(len(who)), rng.integers(0, max(known.users, 1), len(who))
    picks = pick(known.samples, known.boxes, who, begins, tau, draws)
    small = (small_steps, small_cells)
    figures = given_away(known.samples, known.boxes, who, begins, tau, picks, *small)
    baseline = given_away(known.samples, known.boxes, who, begins, tau, blind, *small)
    rest = figures[:, 0] > 0
    shares, by_chance = (each[rest, 1:] / figures[rest, :1] for each in (figures, baseline))
    return WindowKnown(
        people=int(rest.sum()),
        right=_mean((picks == who)[rest]),
        learned=_mean(shares[:, 0]),
        by_chance=_mean(by_chance[:, 0]),
        pinned=_mean(shares[:, 1]),
        pinned_by_chance=_mean(by_chance[:, 1]),
    )


def _mean(values: np.ndarray) -> float:
    """NaN where there are none."""
    return float(values.mean()) if values.size else float("nan")


def draw_people(users: int, most: int, *, seed: int) -> np.ndarray:
    """Sorted numbers of at most so many of the users: a sample to compare methods on.

    >>> len(draw_people(10, 4, seed=1)), draw_people(3, 4, seed=1).tolist()
    (4, [0, 1, 2])
    """
    if users <= most:
        return np.arange(users)
    return np.sort(np.random.default_rng(seed).choice(users, most, replace=False))


def _sorted(owner, columns, count: int) -> tuple[np.ndarray, ...]:
    owner = np.asarray(owner, np.int64)
    if len(owner) and not 0 <= owner.min() <= owner.max() < count:
        raise PlanError("attack-users", "users and records must be numbered from 0, one record each.")
    order = np.lexsort((np.asarray(columns[0]), owner))
    start = np.searchsorted(owner[order], np.arange(count + 1)).astype(np.int64)
    return (start, *(np.asarray(column, np.int64)[order] for column in columns))


def _targets(known: Known, rng: np.random.Generator, most: int | None) -> np.ndarray:
    who = np.flatnonzero(np.diff(known.samples[0]) > 0)
    return who if most is None or len(who) <= most else np.sort(rng.choice(who, most, replace=False))


@njit(cache=True, nogil=True, inline="always")
def _last_before(begin, end, t0, t):
    """The last of boxes begin .. end - 1 with t0 <= t; begin - 1 if there is none."""
    return begin + np.searchsorted(t0[begin:end], t, side="right") - 1


@njit(cache=True, nogil=True)
def _meets(boxes, record, low, high):
    """The last box of the record that meets the block from `low` to `high`, each t, x, y; or -1."""
    start, t0, t1, x0, x1, y0, y1 = boxes
    at = _last_before(start[record], start[record + 1], t0, high[0])
    while at >= start[record] and t1[at] >= low[0]:
        if x0[at] <= high[1] and low[1] <= x1[at] and y0[at] <= high[2] and low[2] <= y1[at]:
            return at
        at -= 1
    return -1


@njit(cache=True, nogil=True)
def count_candidates(samples, boxes, who, drawn, steps, cells):
    """[people, points]: records that meet the first p blocks, and whether the own one does."""
    _, t, x, y = samples
    records = len(boxes[0]) - 1
    candidates = np.zeros(drawn.shape, np.int64)
    own = np.zeros(drawn.shape, np.bool_)
    alive = np.empty(records, np.int64)
    for person in range(len(who)):
        count = records
        alive[:] = np.arange(records)
        for p in range(drawn.shape[1]):
            row = drawn[person, p]
            if row < 0:
                break
            low = t[row] // steps * steps, x[row] // cells * cells, y[row] // cells * cells
            high = low[0] + steps - 1, low[1] + cells - 1, low[2] + cells - 1
            remaining = 0
            for record in alive[:count]:
                if _meets(boxes, record, low, high) >= 0:
                    alive[remaining] = record
                    remaining += 1
                    own[person, p] |= record == who[person]
            count = remaining
            candidates[person, p] = count
    return candidates, own


@njit(cache=True, nogil=True)
def pick(samples, boxes, who, begins, tau, draws):
    """The record an adversary picks for each person; -1 where none holds any known sample."""
    start, t, x, y = samples
    _, t0, t1, x0, x1, y0, y1 = boxes
    records = len(boxes[0]) - 1
    picks = np.full(len(who), -1, np.int64)
    ties = np.empty(records, np.int64)
    for person in range(len(who)):
        first = _last_before(start[who[person]], start[who[person] + 1], t, begins[person] - 1) + 1
        stop = _last_before(start[who[person]], start[who[person] + 1], t, begins[person] + tau - 1) + 1
        most, least, tied = 0, np.inf, 0
        for record in range(records):
            holds, size, before = 0, 0.0, -1
            for row in range(first, stop):
                if holds + stop - row < most:
                    break
                here = t[row], x[row], y[row]
                at = _meets(boxes, record, here, here)
                if at >= 0:
                    holds += 1
                    if at != before:
                        across = x1[at] - x0[at] + y1[at] - y0[at] + 2
                        size += float(t1[at] - t0[at] + 1) * across
                    before = at
            if holds == 0 or holds < most or (holds == most and size > least):
                continue
            if holds > most or size < least:
                tied = 0
            most, least = holds, size
            ties[tied] = record
            tied += 1
        if tied:
            picks[person] = ties[min(int(draws[person] * tied), tied - 1)]
    return picks


@njit(cache=True, nogil=True)
def given_away(samples, boxes, who, begins, tau, picks, small_steps, small_cells):
    """[people, 3]: samples outside the window, those in a box of the pick, those in a small one."""
    start, t, x, y = samples
    _, t0, t1, x0, x1, y0, y1 = boxes
    out = np.zeros((len(who), 3))
    for person in range(len(who)):
        for row in range(start[who[person]], start[who[person] + 1]):
            if begins[person] <= t[row] < begins[person] + tau:
                continue
            out[person, 0] += 1
            if picks[person] < 0:
                continue
            here = t[row], x[row], y[row]
            at = _meets(boxes, picks[person], here, here)
            if at >= 0:
                out[person, 1] += 1
                small = x1[at] - x0[at] + y1[at] - y0[at] + 2 <= small_cells
                if small and t1[at] - t0[at] + 1 <= small_steps:
                    out[person, 2] += 1
    return out
