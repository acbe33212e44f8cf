"""Links the records of two releases of boxes about the same people, with no other knowledge.

Same time    A box says that its person was in these places at some moment of its time, and nowhere else in
             that time. So where a box lies within the time of a box of the other release and their places are
             disjoint, the records belong to different people. The best of the remaining pairs have many
             small boxes in common and few that the other record lacks.
Habits       Records of any time are compared by where their boxes lie at which time of the day, rare places
             weighing more (cosine similarity of tf-idf vectors).

Pairs are then matched one to one, the most similar first. Only published columns are read. Records must come
in an order that says nothing about people: that of their random ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import scipy.sparse
from numba import njit

from shoal.attacks.tracker.evidence import in_threads

CANDIDATES = 24  # pairs kept for each record
PIECES = 64
LACKING = 0.5  # taken off for every box at whose time the other record has none
APART = 2.0  # taken off for boxes that share part of their time and no place
SIDE = 64  # cells along a side of the map of habits
SLOTS = 8  # of the day; and one for places at whatever time, which weighs less
ANY_TIME = 0.3
DAY = 86_400_000_000
ROWS = 256  # records compared with all others at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Published:
    """The boxes of a release, by record and time: microseconds since 1970 and coordinates, ends excluded."""

    ids: np.ndarray = field(repr=False)  # of the records that have boxes, sorted
    start: np.ndarray = field(repr=False)  # int64 [records + 1]
    box: np.ndarray = field(repr=False)  # float64 [boxes, 6]: t0, t1, x0, x1, y0, y1

    @classmethod
    def of(cls, record, t0, t1, x0, x1, y0, y1, *, start_us: int, step_us: int, origin, cell) -> Published:
        """Published columns in any order; cell: a step of the lattice in the units of its origin."""
        record = np.asarray(record)
        order = np.lexsort((t0, record))
        scales = ((start_us, step_us), (origin[0], cell[0]), (origin[1], cell[1]))
        columns = []
        for (low, high), (zero, size) in zip(((t0, t1), (x0, x1), (y0, y1)), scales, strict=True):
            for cells in (np.asarray(low, np.int64), np.asarray(high, np.int64) + 1):
                columns.append(zero + cells[order] * size)
        ids, first = np.unique(record[order], return_index=True)
        start = np.append(first, len(record)).astype(np.int64)
        return cls(ids=ids, start=start, box=np.stack(columns, axis=1).astype(float))

    def during(self, low: float, high: float) -> Published:
        """The same records with the boxes of this time only; some may have none."""
        inside = (self.box[:, 0] < high) & (self.box[:, 1] > low)
        before = np.concatenate([[0], np.cumsum(inside)])
        return Published(ids=self.ids, start=before[self.start], box=self.box[inside])


def link_records(one: Published, other: Published, *, same_time: bool) -> np.ndarray:
    """int64 [records of one]: the row of the linked record in `other`, or -1.

    >>> def release(ids, x):
    ...     lattice = {"start_us": 0, "step_us": 60, "origin": (0, 0), "cell": (1, 1)}
    ...     return Published.of(ids, [0, 0], [9, 9], x, x, [0, 0], [0, 0], **lattice)
    >>> link_records(release([4, 7], [5, 8]), release([1, 2], [8, 5]), same_time=True).tolist()
    [1, 0]
    """
    linked = np.full(len(one.ids), -1, np.int64)
    if len(one.ids) and len(other.ids):
        pairs = _at_the_same_time(one, other) if same_time else _by_habits(one, other)
        _match(pairs[0], pairs[1], linked, np.zeros(len(other.ids), np.bool_))
    return linked


def _at_the_same_time(one: Published, other: Published) -> tuple[np.ndarray, ...]:
    """Rows of compatible pairs, the best first; only the time that both releases cover is looked at."""
    low, high = (
        max(one.box[:, 0].min(), other.box[:, 0].min()),
        min(one.box[:, 1].max(), other.box[:, 1].max()),
    )
    one, other = one.during(low, high), other.during(low, high)
    if not len(one.box) or not len(other.box):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low, high = np.quantile(np.concatenate([one.box, other.box]), (0.02, 0.98), axis=0)
    area = max((high[3] - low[2]) * (high[5] - low[4]), 1e-12)
    order = np.argsort(other.box[:, 0], kind="stable")
    owner = np.repeat(np.arange(len(other.ids), dtype=np.int32), np.diff(other.start))[order]
    by_time = other.box[order], owner, (other.box[:, 1] - other.box[:, 0]).max()
    cuts = np.linspace(0, len(one.ids), min(PIECES, len(one.ids)) + 1).astype(np.int64)
    pieces = [
        lambda a=a, b=b: _compatible(
            one.start, one.box, other.start, other.box, by_time, a, b, area, CANDIDATES
        )
        for a, b in pairwise(cuts)
    ]
    rows, others, scores = (np.concatenate(part) for part in zip(*in_threads(pieces), strict=True))
    order = np.argsort(-scores, kind="stable")
    return rows[order], others[order]


@njit(cache=True, nogil=True)
def _compatible(start_1, box_1, start_2, box_2, by_time, begin, end, area, most):
    """The best `most` compatible records of the other release for each of the rows begin .. end - 1."""
    size = (end - begin) * most
    rows, others = np.empty(size, np.int64), np.empty(size, np.int64)
    scores = np.empty(size, np.float64)
    count = 0
    alive = np.empty(len(start_2) - 1, np.bool_)
    for i in range(begin, end):
        first = count
        _rule_out(box_1, start_1[i], start_1[i + 1], by_time, alive)
        for j in np.flatnonzero(alive):
            if _impossible(box_1, start_1[i], start_1[i + 1], box_2, start_2[j], start_2[j + 1]):
                continue
            score = _score(box_1, start_1[i], start_1[i + 1], box_2, start_2[j], start_2[j + 1], area)
            if score == -np.inf or (count - first == most and score <= scores[count - 1]):
                continue
            at = count if count - first < most else count - 1  # the last is the worst
            while at > first and scores[at - 1] < score:
                others[at], scores[at] = others[at - 1], scores[at - 1]
                at -= 1
            others[at], scores[at] = j, score
            count += count - first < most
        rows[first:count] = i
    return rows[:count], others[:count], scores[:count]


@njit(cache=True, nogil=True)
def _rule_out(box_1, p, end_1, by_time, alive):
    """Rules out most records of the other release, box after box; the rest is left to _impossible."""
    box_2, owner, longest = by_time
    alive[:] = True
    left = len(alive)
    while p < end_1 and left > len(alive) // 50:
        low = np.searchsorted(box_2[:, 0], box_1[p, 0] - longest)
        high = np.searchsorted(box_2[:, 0], box_1[p, 1])
        for q in range(low, high):
            if alive[owner[q]] and _within(box_1, p, box_2, q) and _apart(box_1, p, box_2, q):
                alive[owner[q]] = False
                left -= 1
        p += 1


@njit(cache=True, nogil=True)
def _impossible(box_1, p, end_1, box_2, q, end_2):
    """Whether a box of one record lies within the time of a box of the other, and nowhere near it."""
    while p < end_1 and q < end_2:
        if box_1[p, 1] <= box_2[q, 0]:
            p += 1
        elif box_2[q, 1] <= box_1[p, 0]:
            q += 1
        else:
            if _within(box_1, p, box_2, q) and _apart(box_1, p, box_2, q):
                return True
            if box_1[p, 1] <= box_2[q, 1]:
                p += 1
            else:
                q += 1
    return False


@njit(cache=True, nogil=True, inline="always")
def _within(box_1, p, box_2, q):
    """Whether the time of one box lies within that of the other."""
    first = box_2[q, 0] <= box_1[p, 0] and box_1[p, 1] <= box_2[q, 1]
    return first or (box_1[p, 0] <= box_2[q, 0] and box_2[q, 1] <= box_1[p, 1])


@njit(cache=True, nogil=True, inline="always")
def _apart(box_1, p, box_2, q):
    across = box_1[p, 3] <= box_2[q, 2] or box_2[q, 3] <= box_1[p, 2]
    return across or box_1[p, 5] <= box_2[q, 4] or box_2[q, 5] <= box_1[p, 4]


@njit(cache=True, nogil=True)
def _score(box_1, p, end_1, box_2, q, end_2, area):
    """Agreement of two records that may be the same person's; -inf where they share no time."""
    score, lacking, met = 0.0, 0.0, False
    touched_p, touched_q = False, False
    while p < end_1 and q < end_2:
        a, b = box_1[p], box_2[q]
        shared = min(a[1], b[1]) - max(a[0], b[0])
        if shared > 0:
            touched_p = touched_q = met = True
            share = shared / (max(a[1], b[1]) - min(a[0], b[0]))
            if _apart(box_1, p, box_2, q):
                score -= APART * share
            else:  # unrelated boxes of these sizes meet with about this probability
                meeting = (a[3] - a[2] + b[3] - b[2]) * (a[5] - a[4] + b[5] - b[4]) / area
                score += share * max(-np.log(meeting), 0.05)
        if a[1] <= b[1]:
            lacking += not touched_p
            touched_p, p = False, p + 1
        else:
            lacking += not touched_q
            touched_q, q = False, q + 1
    rest = (end_1 - p - touched_p) + (end_2 - q - touched_q)
    return score - LACKING * (lacking + rest) if met else -np.inf


def _by_habits(one: Published, other: Published) -> tuple[np.ndarray, ...]:
    """Rows of the most similar pairs, the best first."""
    both = np.concatenate([one.box, other.box])
    low, high = np.quantile(both[:, [2, 4]], 0.02, axis=0), np.quantile(both[:, [3, 5]], 0.98, axis=0)
    cell = np.maximum((high - low) / SIDE, 1e-12)
    counts = scipy.sparse.csr_array(scipy.sparse.vstack([_places(each, low, cell) for each in (one, other)]))
    records, columns = len(one.ids) + len(other.ids), SIDE * SIDE * (SLOTS + 1)
    records_there = np.maximum(np.bincount(counts.indices, minlength=columns), 1)
    counts.data = np.sqrt(counts.data) * np.log((1 + records) / records_there)[counts.indices]
    length = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    vectors = scipy.sparse.diags_array(1 / np.maximum(length, 1e-12)) @ counts
    mine, theirs = vectors[: len(one.ids)], scipy.sparse.csr_array(vectors[len(one.ids) :].T)
    rows, others, scores = [], [], []
    most = min(CANDIDATES, len(other.ids))
    for begin in range(0, len(one.ids), ROWS):
        alike = (mine[begin : begin + ROWS] @ theirs).toarray()
        best = np.argpartition(-alike, most - 1, axis=1)[:, :most]
        rows.append(np.repeat(np.arange(begin, begin + len(alike)), most))
        others.append(best.ravel())
        scores.append(np.take_along_axis(alike, best, axis=1).ravel())
    pairs = [np.concatenate(part) for part in (rows, others, scores)]
    order = np.argsort(-pairs[2], kind="stable")
    return pairs[0][order], pairs[1][order]


def _places(release: Published, low: np.ndarray, cell: np.ndarray) -> scipy.sparse.csr_array:
    """[records, cells of the map and slots of the day]: weight of the boxes around there, small ones more."""
    box = release.box
    centre = (box[:, [2, 4]] + box[:, [3, 5]]) / 2
    place = np.clip((centre - low) / cell, 0, SIDE - 1.001)
    corner = place.astype(np.int64)
    part = place - corner
    slot = ((box[:, 0] + box[:, 1]) / 2 // (DAY // SLOTS)).astype(np.int64) % SLOTS
    size = np.maximum(box[:, [3, 5]] - box[:, [2, 4]], cell) / cell
    weight = 1 / size.prod(axis=1)
    record = np.repeat(np.arange(len(release.ids)), np.diff(release.start))
    weights = scipy.sparse.csr_array((len(release.ids), SIDE * SIDE * (SLOTS + 1)))
    for dx in (0, 1):
        for dy in (0, 1):
            share = weight * np.abs(1 - dx - part[:, 0]) * np.abs(1 - dy - part[:, 1])
            number = ((corner[:, 1] + dy) * SIDE + corner[:, 0] + dx) * (SLOTS + 1)
            for column, amount in ((number + slot, share), (number + SLOTS, ANY_TIME * share)):
                weights = weights + scipy.sparse.csr_array((amount, (record, column)), shape=weights.shape)
    return weights


@njit(cache=True)
def _match(rows, others, linked, taken):
    """Takes pairs in order, each record once."""
    for at in range(len(rows)):
        if linked[rows[at]] < 0 and not taken[others[at]]:
            linked[rows[at]] = others[at]
            taken[others[at]] = True
