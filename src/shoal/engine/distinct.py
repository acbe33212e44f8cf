"""Exact distinct counts: how many trips crossed each of many rectangles, each trip once.

Trip by trip against all rectangles. Most pairs are settled by the trip's bounding box, without a branch:
apart; or the rectangle spans the box in one direction and meets it in the other (a path has no gaps). The
rest asks prefix sums over the box, made for the trip at hand; or, where the box is large and few ask, the
cells themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from shoal.engine.euler import sum_parts
from shoal.space.rectangles import Rectangles
from shoal.stages.trips import GridTrips


def distinct_counts(trips: GridTrips, rectangles: Rectangles) -> np.ndarray:
    """int64 [rectangles]: trips with a cell in each."""
    rectangles.check(trips.grid)
    # The four sides one after the other, in 16 bits (a grid has at most 2^12 columns): fast to compare.
    sides: Any = np.stack([rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1]).astype(np.int16)
    columns, rows = trips.grid.columns, trips.grid.rows

    def part(begin: int, end: int) -> np.ndarray:
        counts = np.zeros(rectangles.count, np.int64)
        _count(trips.first, trips.cells, begin, end, columns, rows, sides, counts)
        return counts

    return sum_parts(trips.count, part, at_least=256)


@njit(cache=True, nogil=True)
def _count(first, cells, begin, end, columns, rows, sides, counts):
    """Half-open rectangles."""
    settled, unsettled = np.zeros(counts.size, np.int32), np.empty(counts.size, np.uint8)
    asking = np.empty(counts.size + 1, np.int32)
    sums = np.empty(1024, np.int32)
    for trip in range(begin, end):
        path = cells[first[trip] : first[trip + 1]]
        left, right, bottom, top = _box(path, columns, rows)
        _settle(sides[0], sides[1], sides[2], sides[3], left, right, bottom, top, settled, unsettled)
        asked = 0
        for q in range(counts.size):
            asking[asked] = q
            asked += unsettled[q]
        wide, high = right - left + 1, top - bottom + 1
        if wide * high <= asked * path.size:
            if sums.size < (wide + 1) * (high + 1):
                sums = np.empty(2 * (wide + 1) * (high + 1), np.int32)
            _sum_up(path, columns, left, bottom, wide, high, sums)
            _ask_sums(asking[:asked], sides, left, bottom, wide, high, sums, counts)
        else:
            _ask_cells(asking[:asked], sides, path, columns, counts)
    for q in range(counts.size):
        counts[q] += settled[q]


@njit(cache=True, nogil=True)
def _box(path, columns, rows):
    """First and last column, first and last row."""
    left, right, bottom, top = columns, -1, rows, -1
    for cell in path:
        x, y = cell % columns, cell // columns
        left, right = min(left, x), max(right, x)
        bottom, top = min(bottom, y), max(top, y)
    return left, right, bottom, top


@njit(cache=True, nogil=True)
def _settle(x0, x1, y0, y1, left, right, bottom, top, settled, unsettled):
    """Count the rectangles that span the box; mark those that meet it otherwise. Compiles to vectors."""
    west, east, south, north = np.int16(left), np.int16(right), np.int16(bottom), np.int16(top)
    for q in range(x0.size):
        meets = (x0[q] <= east) & (x1[q] > west) & (y0[q] <= north) & (y1[q] > south)
        spans = ((x0[q] <= west) & (x1[q] > east)) | ((y0[q] <= south) & (y1[q] > north))
        settled[q] += meets & spans
        unsettled[q] = meets & (not spans)


@njit(cache=True, nogil=True)
def _sum_up(path, columns, left, bottom, wide, high, sums):
    """sums[y * (wide + 1) + x]: visits to cells of the box in columns below x and rows below y."""
    stride = wide + 1
    sums[: stride * (high + 1)] = 0
    for cell in path:
        sums[(cell // columns - bottom + 1) * stride + cell % columns - left + 1] += 1
    for y in range(1, high + 1):
        in_row = 0
        for x in range(1, stride):
            in_row += sums[y * stride + x]
            sums[y * stride + x] = in_row + sums[(y - 1) * stride + x]


@njit(cache=True, nogil=True)
def _ask_sums(asking, sides, left, bottom, wide, high, sums, counts):
    stride = wide + 1
    for q in asking:
        x0, x1 = max(sides[0, q] - left, 0), min(sides[1, q] - left, wide)
        y0, y1 = max(sides[2, q] - bottom, 0) * stride, min(sides[3, q] - bottom, high) * stride
        counts[q] += sums[y1 + x1] - sums[y1 + x0] - sums[y0 + x1] + sums[y0 + x0] > 0


@njit(cache=True, nogil=True)
def _ask_cells(asking, sides, path, columns, counts):
    for q in asking:
        for cell in path:
            x, y = cell % columns, cell // columns
            if sides[0, q] <= x < sides[1, q] and sides[2, q] <= y < sides[3, q]:
                counts[q] += 1
                break
