"""People who are hidden by the same other record again and again: a pair that hides each other hides badly.

Every user is looked at. A few windows are drawn for each; the records that fit most of them are then followed
over all windows of the user. A record that fits in every window is among them for sure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from shoal.attacks.tracker.evidence import in_threads
from shoal.attacks.tracker.fits import WindowDraw, all_fitting, good_starts, last_before, starts_by_first
from shoal.attacks.tracker.tables import Tables

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
