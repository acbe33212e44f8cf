"""Windows drawn at random, and all records that fit a window: what the measured figures are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.attacks.tracker.fits import good_starts
from shoal.attacks.tracker.index import bucket_of
from shoal.attacks.tracker.tables import Tables


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """Windows [start, start + tau) of users, with the first retained sample in each."""

    user: np.ndarray = field(repr=False)  # int64
    first: np.ndarray = field(repr=False)  # int64, a row of samples
    start: np.ndarray = field(repr=False)  # int64

    def __len__(self) -> int:
        return len(self.user)

    def __getitem__(self, rows) -> Windows:
        return Windows(user=self.user[rows], first=self.first[rows], start=self.start[rows])


class WindowDraw:
    """Draws (user, start) evenly among all whose window has a retained sample."""

    def __init__(self, tables: Tables, tau: int) -> None:
        self.tables = tables
        lengths = starts_by_first(tables.samples, tau)
        self.total = np.concatenate([[0], np.cumsum(lengths)])  # before each sample

    def anywhere(self, rng: np.random.Generator, count: int) -> Windows:
        if not self.total[-1]:
            return self._at(np.empty(0, np.int64))
        return self._at(rng.integers(self.total[-1], size=count))

    def of_users(self, rng: np.random.Generator, users: np.ndarray) -> Windows:
        """One window for each of these users, who must have one."""
        low = self.total[self.tables.sample_start[users]]
        high = self.total[self.tables.sample_start[np.asarray(users) + 1]]
        return self._at(low + (rng.random(len(low)) * (high - low)).astype(np.int64))

    def count_by_user(self) -> np.ndarray:
        """int64 [users]: windows with a retained sample."""
        return np.diff(self.total[self.tables.sample_start])

    def _at(self, number: np.ndarray) -> Windows:
        first = np.searchsorted(self.total, number, "right") - 1
        user = np.searchsorted(self.tables.sample_start, first, "right") - 1
        start = self.tables.t[first].astype(np.int64) - (number - self.total[first])
        return Windows(user=user, first=first, start=start)


@njit(cache=True, nogil=True)
def starts_by_first(samples, tau):
    """int64 [samples]: starts of windows whose first retained sample this is; 0 for suppressed ones."""
    sample_start, t, _, _, own = samples
    starts = np.zeros(len(t), np.int64)
    for i in range(len(sample_start) - 1):
        before = -1
        for n in range(sample_start[i], sample_start[i + 1]):
            if own[n] >= 0:
                starts[n] = tau if before < 0 else min(tau, t[n] - t[before])
                before = n
    return starts


@njit(cache=True, nogil=True)
def all_fitting(samples, boxes, index, i, j, w, tau, seen, found):
    """Write every record that fits user i on [w, w + tau) to `found`, and give their number.

    j is the first retained sample in the window. `seen` holds a mark per record: 0 before and after.
    """
    t, x, y = samples[1], samples[2], samples[3]
    box_start, box, owner, _ = boxes
    shape, offset, listed = index[3], index[4], index[5]
    count, looked = 0, 0
    rows = np.empty(16, np.int64)
    for level in range(len(shape)):
        bucket = bucket_of(index, t[j], x[j], y[j], level)
        for place in range(offset[bucket], offset[bucket + 1]):
            p = listed[place]
            if box[p, 0] > t[j] or box[p, 1] < t[j] or box[p, 2] > x[j] or box[p, 3] < x[j]:
                continue
            r = owner[p]
            if box[p, 4] > y[j] or box[p, 5] < y[j] or seen[r]:
                continue
            seen[r] = 1
            if looked == len(rows):
                rows = np.concatenate((rows, np.empty(len(rows), np.int64)))
            rows[looked] = r
            looked += 1
            while p + 1 < box_start[r + 1] and box[p + 1, 0] <= t[j]:
                p += 1
            low, high = good_starts(samples, boxes, i, j, w - 1, r, p, tau)
            if low == w and high >= w:
                found[count] = r
                count += 1
    for place in range(looked):
        seen[rows[place]] = 0
    return count


@njit(cache=True, nogil=True)
def count_fitting(samples, boxes, index, user, first, start, tau):
    """int64 [windows]: how many records fit each."""
    records = len(boxes[0]) - 1
    seen, found = np.zeros(records, np.uint8), np.empty(records, np.int64)
    counts = np.empty(len(user), np.int64)
    for row in range(len(user)):
        counts[row] = all_fitting(samples, boxes, index, user[row], first[row], start[row], tau, seen, found)
    return counts
