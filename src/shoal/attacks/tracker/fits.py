"""When a record could be a tracked person's: the starts of windows in which it shows what the tracker saw.

The tracker of user i saw all of i in W = [w, w + tau): the samples, and that there were no others. Record r
fits i on W (is evidence-equal) iff
(a) for every raw sample s of i in W: r has a box spanning s's time iff s is retained, and that box holds s;
(b) every box of r wholly inside W holds a retained sample of i.
A sample is retained iff i's own record has a box that holds it. Where boxes of a record overlap in time
(which fails anyway), every box spanning s's time must hold s.

Fitting is monotone: if r fits on W it fits on every V inside W. (a) asks about fewer samples; a box wholly
inside V is wholly inside W, so it holds a retained sample of i, whose time is the box's, hence inside V.
So windows that stick out of the lattice's steps can only fit more records; they are counted all the same.
Around one retained sample, taken as the first in W, the fitting starts of a record are an interval: what is
wrong before the sample bounds starts from below, what is wrong after it from above.

`WindowDraw` draws windows at random and `all_fitting` lists the records that fit one: the measured figures
(leakage.py) are computed from these.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.attacks.tracker.index import bucket_of
from shoal.attacks.tracker.tables import MOST_STEPS, Tables

ABSENT, HOLDS, ELSEWHERE = 0, 1, 2  # what a record shows at a sample's time


@njit(cache=True, nogil=True, inline="always")
def shows(box, reach, first, p, t, x, y):
    """ABSENT, HOLDS or ELSEWHERE; p is the last box of the record with t0 <= t, boxes begin at `first`."""
    shown = ABSENT
    while p >= first and reach[p] >= t:
        if box[p, 1] >= t:
            if x < box[p, 2] or x > box[p, 3] or y < box[p, 4] or y > box[p, 5]:
                return ELSEWHERE
            shown = HOLDS
        p -= 1
    return shown


@njit(cache=True, nogil=True)
def last_before(box, first, end, t):
    """The last of boxes first .. end - 1 with t0 <= t; first - 1 if there is none."""
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if box[middle, 0] <= t:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(cache=True, nogil=True)
def good_starts(samples, boxes, i, j, after, r, p, tau):
    """First and last start w in (after, t_j] for which record r fits user i; first > last if none.

    j is a retained sample of i and the first such in [w, w + tau) for all these w: `after` is not before the
    retained sample before j, nor before t_j - tau. p is the last box of r with t0 <= t_j.
    """
    sample_start, t, x, y, own = samples
    box_start, box, _, reach = boxes
    first, end = box_start[r], box_start[r + 1]
    low, high = after + 1, t[j]
    if shows(box, reach, first, p, t[j], x[j], y[j]) != HOLDS:
        return high + 1, high
    n, q = j - 1, p
    while n >= sample_start[i] and t[n] >= low:  # suppressed ones, or of the same step
        while q >= first and box[q, 0] > t[n]:
            q -= 1
        if shows(box, reach, first, q, t[n], x[n], y[n]) != (own[n] >= 0):
            low = t[n] + 1
            break
        n -= 1
    q = p
    while q >= first and reach[q] >= low:
        # Before t_j nothing of i is retained in W, so any box there is one too many.
        if box[q, 0] >= low and box[q, 1] < t[j]:
            low = box[q, 0] + 1
        q -= 1
    if low > high:
        return low, high
    n, q = j + 1, p
    while n < sample_start[i + 1] and t[n] < high + tau:
        while q + 1 < end and box[q + 1, 0] <= t[n]:
            q += 1
        if shows(box, reach, first, q, t[n], x[n], y[n]) != (own[n] >= 0):
            high = t[n] - tau
            break
        n += 1
    return low, _ends_before_stray_box(samples, box, i, j, p + 1, end, high, tau)


@njit(cache=True, nogil=True)
def _ends_before_stray_box(samples, box, i, j, q, end, high, tau):
    """The last start up to `high` whose window has no box from q on, wholly inside, without a sample of i."""
    n = j
    while q < end and box[q, 0] < high + tau:
        while n < samples[0][i + 1] and samples[1][n] < box[q, 0]:
            n += 1
        if box[q, 1] < high + tau and not holds_from(samples, box, i, n, q):
            high = box[q, 1] - tau
        q += 1
    return high


@njit(cache=True, nogil=True)
def holds_from(samples, box, i, n, q):
    """Whether box q holds a retained sample of i; n is a sample of i not after the first at t0."""
    sample_start, t, x, y, own = samples
    while n < sample_start[i + 1] and t[n] <= box[q, 1]:
        inside = box[q, 0] <= t[n] and box[q, 2] <= x[n] <= box[q, 3] and box[q, 4] <= y[n] <= box[q, 5]
        if inside and own[n] >= 0:
            return True
        n += 1
    return False


def running_reach(owner: np.ndarray, box: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int32: the latest t1 of the record's boxes up to each; and which begin before the latest end."""
    apart = owner.astype(np.int64) * (MOST_STEPS + 1)
    reach = (np.maximum.accumulate(box[:, 1] + apart) - apart).astype(np.int32)
    overlaps = np.zeros(len(box), np.bool_)
    overlaps[1:] = (owner[1:] == owner[:-1]) & (box[1:, 0] <= reach[:-1])
    return reach, overlaps


@njit(cache=True, nogil=True)
def own_boxes(sample_start, t, x, y, box_start, box, reach):
    """For every sample, a box of the own record that holds it or -1, and whether an own box has its time but
    not its place; for every box, whether it holds an own sample."""
    own = np.full(len(t), -1, np.int32)
    outside = np.zeros(len(t), np.bool_)
    used = np.zeros(len(box), np.bool_)
    for i in range(len(sample_start) - 1):
        first, end, last = box_start[i], box_start[i + 1], box_start[i] - 1
        for n in range(sample_start[i], sample_start[i + 1]):
            while last + 1 < end and box[last + 1, 0] <= t[n]:
                last += 1
            p = last
            while p >= first and reach[p] >= t[n]:
                if box[p, 1] >= t[n]:
                    if box[p, 2] <= x[n] <= box[p, 3] and box[p, 4] <= y[n] <= box[p, 5]:
                        own[n] = p
                        used[p] = True
                    else:
                        outside[n] = True
                p -= 1
    return own, outside, used


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
def all_fitting(samples, boxes, index, i, j, w, tau, marked, fitting):
    """Writes every record that fits user i on [w, w + tau) to `fitting`, and returns their number.

    j is the first retained sample in the window. `marked` has a mark per record: 0 before and after.
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
            if box[p, 4] > y[j] or box[p, 5] < y[j] or marked[r]:
                continue
            marked[r] = 1
            if looked == len(rows):
                rows = np.concatenate((rows, np.empty(len(rows), np.int64)))
            rows[looked] = r
            looked += 1
            while p + 1 < box_start[r + 1] and box[p + 1, 0] <= t[j]:
                p += 1
            low, high = good_starts(samples, boxes, i, j, w - 1, r, p, tau)
            if low == w and high >= w:
                fitting[count] = r
                count += 1
    for place in range(looked):
        marked[rows[place]] = 0
    return count


@njit(cache=True, nogil=True)
def count_fitting(samples, boxes, index, user, first, start, tau):
    """int64 [windows]: how many records fit each."""
    records = len(boxes[0]) - 1
    marked, fitting = np.zeros(records, np.uint8), np.empty(records, np.int64)
    counts = np.empty(len(user), np.int64)
    for row in range(len(user)):
        counts[row] = all_fitting(
            samples, boxes, index, user[row], first[row], start[row], tau, marked, fitting
        )
    return counts
