"""A window in which too few records fit, in plain words: who, when, and what rules the nearest others out.

For the owner's eyes: it names a person's window and places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from shoal.attacks.tracker.fits import ABSENT, holds_from, last_before, shows
from shoal.attacks.tracker.tables import Tables

NEAREST = 3
MISSING, WRONG_PLACE, TOO_MUCH, STRAY = range(4)
WORDS = {
    MISSING: "it has no box at step {t}, where the person's sample is published",
    WRONG_PLACE: "its box at step {t} does not hold the person's sample",
    TOO_MUCH: "it has a box at step {t}, where the person's sample was suppressed",
    STRAY: "its box from step {t} holds no published sample of the person",
}


@dataclass(frozen=True, kw_only=True)
class NearMiss:
    """A record that does not fit: how many pieces of evidence speak against it, and the first of them."""

    record: int
    faults: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Example:
    """User and start of a window in which only `fits` records fit."""

    user: int
    start: int
    fits: int
    near: tuple[NearMiss, ...]

    def to_plain(self) -> dict[str, Any]:
        near = [{"record": each.record, "faults": each.faults, "why": each.why} for each in self.near]
        return {"user": self.user, "start": self.start, "fits": self.fits, "near_misses": near}


def explain(tables: Tables, user: int, start: int, tau: int) -> Example:
    """The nearest records that do not fit, those with the fewest faults first.

    A window that sticks out is moved inside, where as many records fit or fewer.
    """
    start = max(0, min(start, tables.steps - tau))
    faults, kind, at = all_faults(tables.samples, tables.boxes, user, start, tau)
    fits = int((faults == 0).sum())
    nearest = [r for r in np.argsort(faults, kind="stable")[: fits + NEAREST] if faults[r]][:NEAREST]
    near = tuple(
        NearMiss(record=int(r), faults=int(faults[r]), why=WORDS[int(kind[r])].format(t=int(at[r])))
        for r in nearest
    )
    return Example(user=user, start=start, fits=fits, near=near)


@njit(cache=True, nogil=True)
def all_faults(samples, boxes, i, w, tau):
    """For every record: pieces of evidence against it in W = [w, w + tau), kind and step of the first."""
    sample_start, t, x, y, own = samples
    box_start, box, _, reach = boxes
    records = len(box_start) - 1
    faults = np.zeros(records, np.int64)
    kind, at = np.zeros(records, np.int64), np.zeros(records, np.int64)
    begins = sample_start[i] + np.searchsorted(t[sample_start[i] : sample_start[i + 1]], w)
    for r in range(records):
        first, end = box_start[r], box_start[r + 1]
        n = begins
        while n < sample_start[i + 1] and t[n] < w + tau:
            found = shows(box, reach, first, last_before(box, first, end, t[n]), t[n], x[n], y[n])
            if found != (own[n] >= 0):
                if not faults[r]:
                    at[r] = t[n]
                    kind[r] = TOO_MUCH if own[n] < 0 else MISSING if found == ABSENT else WRONG_PLACE
                faults[r] += 1
            n += 1
        p = last_before(box, first, end, w + tau - 1)
        while p >= first and reach[p] >= w:
            if box[p, 0] >= w and box[p, 1] < w + tau and not holds_from(samples, box, i, begins, p):
                if not faults[r]:
                    at[r], kind[r] = box[p, 0], STRAY
                faults[r] += 1
            p -= 1
    return faults, kind, at
