"""Boxes by time and place: for a sample, the few boxes that could hold it.

Buckets are slots of time times strips of x times strips of y; strips are cut at quantiles of the samples, so
that towns have narrow ones. A box stands in every bucket it touches. One that touches more than a few stands
on a coarser level instead, whose buckets are twice as wide each way; the coarsest is one bucket for all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.attacks.tracker.tables import Tables

STRIPS = 16
MOST_BUCKETS = 2**21
MOST_TOUCHED = 8  # buckets a box may stand in


def build_index(tables: Tables) -> tuple:
    """Two passes over the boxes: count, then fill. Kernels take the index as a plain tuple:

    slot_steps          steps in a slot of the finest level
    edges_x, edges_y    int32, where strips but the first begin
    shape               int64 [levels, 4]: slots, strips of x, strips of y, first bucket
    offset, listed      listed[offset[b] : offset[b + 1]] are the boxes of bucket b, in order of their rows
    """
    slot_steps = 8
    if len(tables.box):
        some = tables.box[:: max(1, len(tables.box) // 100_000)]
        slot_steps = max(4, int(np.median(some[:, 1] - some[:, 0] + 1)))
    slot_steps = max(slot_steps, -(-tables.steps * STRIPS * STRIPS // MOST_BUCKETS))
    x, y = _strips(tables.x), _strips(tables.y)
    shape = _levels(-(-tables.steps // slot_steps), len(x) + 1, len(y) + 1)
    counts = np.zeros(int(shape[-1, 3]) + 2, np.int64)
    _list_boxes(tables.box, slot_steps, x, y, shape, counts, np.empty(0, np.int32), True)
    offset = np.cumsum(counts)
    listed = np.empty(int(offset[-1]), np.int32)
    _list_boxes(tables.box, slot_steps, x, y, shape, offset[:-1].copy(), listed, False)
    return np.int64(slot_steps), x, y, shape, offset, listed


def _strips(cells: np.ndarray) -> np.ndarray:
    """Where strips of about equally many samples begin."""
    some = cells[:: max(1, len(cells) // 100_000)]
    if not len(some):
        return np.empty(0, np.int32)
    cuts = np.quantile(some, np.arange(1, STRIPS) / STRIPS, method="lower")
    return np.unique(cuts).astype(np.int32)


def _levels(slots: int, strips_x: int, strips_y: int) -> np.ndarray:
    rows, first = [], 0
    while True:
        rows.append((slots, strips_x, strips_y, first))
        if slots == strips_x == strips_y == 1:
            return np.array(rows, np.int64)
        first += slots * strips_x * strips_y
        slots, strips_x, strips_y = -(-slots // 2), -(-strips_x // 2), -(-strips_y // 2)


@njit(cache=True, nogil=True, inline="always")
def strip_of(edges, cell):
    """How many edges are at most `cell`."""
    return np.searchsorted(edges, cell, side="right")


@njit(cache=True, nogil=True)
def _list_boxes(box, slot_steps, edges_x, edges_y, shape, place, listed, count):
    """Count the boxes of each bucket in place[bucket + 1], or write their rows from place[bucket] on."""
    for row in range(len(box)):
        a0, a1 = box[row, 0] // slot_steps, box[row, 1] // slot_steps
        b0, b1 = strip_of(edges_x, box[row, 2]), strip_of(edges_x, box[row, 3])
        c0, c1 = strip_of(edges_y, box[row, 4]), strip_of(edges_y, box[row, 5])
        level = 0
        while (a1 - a0 + 1) * (b1 - b0 + 1) * (c1 - c0 + 1) > MOST_TOUCHED:
            level += 1
            a0, a1, b0, b1, c0, c1 = a0 >> 1, a1 >> 1, b0 >> 1, b1 >> 1, c0 >> 1, c1 >> 1
        for a in range(a0, a1 + 1):
            for b in range(b0, b1 + 1):
                for c in range(c0, c1 + 1):
                    bucket = shape[level, 3] + (a * shape[level, 1] + b) * shape[level, 2] + c
                    if count:
                        place[bucket + 1] += 1
                    else:
                        listed[place[bucket]] = row
                        place[bucket] += 1


@njit(cache=True, nogil=True)
def bucket_of(index, t, x, y, level):
    """The bucket of a sample on a level."""
    slot_steps, edges_x, edges_y, shape, _, _ = index
    a, b, c = t // slot_steps, strip_of(edges_x, x), strip_of(edges_y, y)
    a, b, c = a >> level, b >> level, c >> level
    return shape[level, 3] + (a * shape[level, 1] + b) * shape[level, 2] + c


def by_bucket(index: tuple, tables: Tables) -> tuple[np.ndarray, np.ndarray]:
    """Retained samples in order of their finest bucket, and where each bucket's begin."""
    retained = np.flatnonzero(tables.own >= 0)
    bucket = bucket_of(index, tables.t[retained], tables.x[retained], tables.y[retained], 0)
    order = np.argsort(bucket, kind="stable")
    return retained[order], np.searchsorted(bucket[order], np.arange(index[3][0, :3].prod() + 1))


@njit(cache=True, nogil=True)
def boxes_near(index, box, t, x, y):
    """Rows of all boxes that touch the smallest cuboid around some samples of one bucket."""
    shape, offset, listed = index[3], index[4], index[5]
    low_t, high_t, low_x, high_x, low_y, high_y = t.min(), t.max(), x.min(), x.max(), y.min(), y.max()
    most = 0
    for level in range(len(shape)):
        bucket = bucket_of(index, t[0], x[0], y[0], level)
        most += offset[bucket + 1] - offset[bucket]
    near = np.empty(most, np.int64)
    count = 0
    for level in range(len(shape)):
        bucket = bucket_of(index, t[0], x[0], y[0], level)
        for place in range(offset[bucket], offset[bucket + 1]):
            p = listed[place]
            if box[p, 0] > high_t or box[p, 1] < low_t or box[p, 2] > high_x or box[p, 3] < low_x:
                continue
            if box[p, 4] <= high_y and box[p, 5] >= low_y:
                near[count] = p
                count += 1
    return near[:count]
