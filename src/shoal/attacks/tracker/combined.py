"""What is left of k where records of several releases are linked: measured on random windows, never promised.

A tracker saw one person in a window and holds this release and earlier ones. A record of this release remains
a candidate if it fits the window and the record linked to it in each earlier release fits it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from shoal.attacks.tracker.fits import HOLDS, holds_from, last_before, shows
from shoal.attacks.tracker.index import build_index
from shoal.attacks.tracker.leakage import WINDOWS
from shoal.attacks.tracker.tables import Tables
from shoal.attacks.tracker.windows import WindowDraw, all_fitting


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
    index = build_index(tables).arrays
    alone = np.zeros(len(drawn), np.bool_)
    counts = np.zeros(len(drawn), np.int64)
    for row in range(len(drawn)):
        found = _fitting(tables, index, drawn.user[row], drawn.first[row], drawn.start[row], tau)
        for each in earlier:
            at = (begins[row] - each.start_us) // each.step_us, max(tau * step_us // each.step_us, 1)
            them = each.tables.samples, each.tables.boxes, each.user[drawn.user[row]]
            linked = each.record[found]
            fits = [r < 0 or fits_window(*them, r, *at) for r in linked]
            found = found[np.array(fits, np.bool_)]
        counts[row] = len(found)
        alone[row] = len(found) == 1 and found[0] == drawn.user[row]
    measured = len(drawn) > 0
    return {
        "windows": len(drawn),
        "fewer_than_k_share": float((counts < k).mean()) if measured else None,
        "own_record_alone_share": float(alone.mean()) if measured else None,
    }


def _fitting(tables: Tables, index: tuple, user, first, start, tau: int) -> np.ndarray:
    seen, found = np.zeros(tables.users, np.uint8), np.empty(tables.users, np.int64)
    count = all_fitting(tables.samples, tables.boxes, index, user, first, start, tau, seen, found)
    return found[:count]


@njit(cache=True, nogil=True)
def fits_window(samples, boxes, i, r, w, tau):
    """Whether record r shows what a tracker saw of user i in [w, w + tau): the rule of fits.py."""
    sample_start, t, x, y, own = samples
    box_start, box, _, reach = boxes
    first, end = box_start[r], box_start[r + 1]
    n = sample_start[i]
    while n < sample_start[i + 1] and t[n] < w:
        n += 1
    begin = n
    while n < sample_start[i + 1] and t[n] < w + tau:
        p = last_before(box, first, end, t[n])
        if shows(box, reach, first, p, t[n], x[n], y[n]) != (HOLDS if own[n] >= 0 else 0):
            return False
        n += 1
    for q in range(first, end):
        inside = box[q, 0] >= w and box[q, 1] < w + tau
        if inside and not holds_from(samples, box, i, begin, q):
            return False
    return True
