"""Exact distinct counts: how many trips crossed each of many rectangles, each trip once.

Trip by trip against all rectangles. Most pairs are settled by the trip's bounding box: apart; inside; or
the rectangle spans the box in one direction and meets it in the other (a path has no gaps). A rectangle that
takes a corner of the box is settled by how far the path goes into that corner, column by column. Only the
rest looks at cells.
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
    sides: Any = [np.ascontiguousarray(side, np.int32) for side in vars(rectangles).values()]
    columns, rows = trips.grid.columns, trips.grid.rows

    def part(begin: int, end: int) -> np.ndarray:
        counts = np.zeros(rectangles.count, np.int64)
        _count(trips.first, trips.cells, begin, end, columns, rows, *sides, counts)  # pyright: ignore
        return counts

    return sum_parts(trips.count, part, at_least=256)


@njit(cache=True, nogil=True)
def _count(first, cells, begin, end, columns, rows, x0, x1, y0, y1, counts):
    """Half-open rectangles; `reach` holds the four corners' staircases of the trip at hand."""
    reach = np.empty((4, columns), np.int32)
    longest = 0
    for trip in range(begin, end):
        longest = max(longest, first[trip + 1] - first[trip])
    xs, ys = np.empty(longest, np.int32), np.empty(longest, np.int32)
    for trip in range(begin, end):
        size = first[trip + 1] - first[trip]
        left, right, bottom, top = columns, -1, rows, -1
        for i in range(size):
            cell = cells[first[trip] + i]
            xs[i], ys[i] = cell % columns, cell // columns
            left, right = min(left, xs[i]), max(right, xs[i])
            bottom, top = min(bottom, ys[i]), max(top, ys[i])
        _staircases(xs, ys, size, left, right, bottom, top, reach)
        for q in range(x0.size):
            if x0[q] > right or x1[q] <= left or y0[q] > top or y1[q] <= bottom:
                continue
            west, east = x0[q] <= left, x1[q] > right
            south, north = y0[q] <= bottom, y1[q] > top
            if (west and east) or (south and north):
                counts[q] += 1
            elif west and south:
                counts[q] += reach[0, x1[q] - 1] < y1[q]
            elif west and north:
                counts[q] += reach[1, x1[q] - 1] >= y0[q]
            elif east and south:
                counts[q] += reach[2, x0[q]] < y1[q]
            elif east and north:
                counts[q] += reach[3, x0[q]] >= y0[q]
            else:
                for i in range(size):
                    if x0[q] <= xs[i] < x1[q] and y0[q] <= ys[i] < y1[q]:
                        counts[q] += 1
                        break


@njit(cache=True, nogil=True)
def _staircases(xs, ys, size, left, right, bottom, top, reach):
    """Lowest and highest row at or west of a column, lowest and highest at or east of it."""
    for x in range(left, right + 1):
        reach[0, x] = reach[2, x] = top
        reach[1, x] = reach[3, x] = bottom
    for i in range(size):
        x, y = xs[i], ys[i]
        reach[0, x] = reach[2, x] = min(reach[0, x], y)
        reach[1, x] = reach[3, x] = max(reach[1, x], y)
    for x in range(left + 1, right + 1):
        reach[0, x] = min(reach[0, x], reach[0, x - 1])
        reach[1, x] = max(reach[1, x], reach[1, x - 1])
    for x in range(right - 1, left - 1, -1):
        reach[2, x] = min(reach[2, x], reach[2, x + 1])
        reach[3, x] = max(reach[3, x], reach[3, x + 1])
