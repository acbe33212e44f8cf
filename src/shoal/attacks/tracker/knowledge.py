"""What more knowledge than one window does to the number of records that fit: measured, never promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from shoal.attacks.tracker.tables import Tables
from shoal.attacks.tracker.windows import WindowDraw, Windows, all_fitting, count_fitting

TWO_APART = "two windows of tau apart"
LENGTHS = (2, 3, 4)  # times tau, without a break
TRIES = 20  # for a second window that does not touch the first


@dataclass(frozen=True, kw_only=True)
class Known:
    """Windows tried with this knowledge; in how many fewer than k records fit, in how many only one."""

    knows: str
    windows: int
    fewer_than_k: int
    only_one: int
    quartiles: tuple[float, float, float] | None  # of records that fit

    @classmethod
    def of(cls, knows: str, counts: np.ndarray, k: int) -> Known:
        quartiles = None
        if len(counts):
            low, middle, high = (float(q) for q in np.quantile(counts, (0.25, 0.5, 0.75)))
            quartiles = low, middle, high
        return cls(
            knows=knows,
            windows=len(counts),
            fewer_than_k=int((counts < k).sum()),
            only_one=int((counts <= 1).sum()),
            quartiles=quartiles,
        )

    def to_plain(self) -> dict[str, Any]:
        tried = max(self.windows, 1)
        return {
            "knows": self.knows,
            "windows": self.windows,
            "fewer_than_k": self.fewer_than_k,
            "fewer_than_k_share": self.fewer_than_k / tried if self.windows else None,
            "only_one": self.only_one,
            "only_one_share": self.only_one / tried if self.windows else None,
            "quartiles": self.quartiles,
        }


def more_knowledge(
    tables: Tables, index: tuple, draw: WindowDraw, windows: Windows, *, k: int, tau: int, rng
) -> list[Known]:
    """One window, two that do not touch, and 2, 3, 4 tau without a break."""
    one = count_fitting(tables.samples, tables.boxes, index, *_columns(windows), tau)
    known = [Known.of("one window of tau", one, k)]
    first, second = windows_apart(draw, windows, tau, rng)
    both = count_both(tables.samples, tables.boxes, index, *_columns(first), *_columns(second), tau)
    known.append(Known.of(TWO_APART, both, k))
    for times in LENGTHS:
        whole = windows[(windows.start >= 0) & (windows.start + times * tau <= tables.steps)]
        counts = count_fitting(tables.samples, tables.boxes, index, *_columns(whole), times * tau)
        known.append(Known.of(f"{times} tau without a break", counts, k))
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
    seen, one = np.zeros(records, np.uint8), np.empty(records, np.int64)
    two, in_one = np.empty(records, np.int64), np.zeros(records, np.bool_)
    counts = np.zeros(len(user), np.int64)
    for row in range(len(user)):
        i = user[row]
        fit = all_fitting(samples, boxes, index, i, first[row], start[row], tau, seen, one)
        in_one[one[:fit]] = True
        also = all_fitting(samples, boxes, index, i, first_2[row], start_2[row], tau, seen, two)
        counts[row] = in_one[two[:also]].sum()
        in_one[one[:fit]] = False
    return counts
