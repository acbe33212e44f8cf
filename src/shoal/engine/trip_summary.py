"""One summary per trip: the bounding box of its cells and one of 12 shapes.

Which diagonal of the box the path follows (2), to which of the other two corners it bulges (2), how far (3).
How far a path reaches into a corner is the largest, over its cells, of the lesser of the two distances from
the opposite sides, in units of the box: 1 in the corner itself, at least 1/2 somewhere for a straight line.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.engine.euler import sum_parts
from shoal.stages.trips import GridTrips

CUTS = (0.65, 0.85)  # between the three degrees of a bulge
SHAPES = 12  # diagonal * 6 + side * 3 + degree


def summaries(trips: GridTrips) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """First and last column, first and last row (inclusive, int32), shape (int8) of every trip."""
    out = np.empty((5, trips.count), np.int32)

    def part(begin: int, end: int) -> int:
        _summarise(trips.first, trips.cells, begin, end, trips.grid.columns, out)
        return 0

    sum_parts(trips.count, part)
    return out[0], out[1], out[2], out[3], out[4].astype(np.int8)


@njit(cache=True, nogil=True)
def _summarise(first, cells, begin, end, columns, out):
    for trip in range(begin, end):
        left, right, bottom, top = columns, -1, 1 << 30, -1
        for at in range(first[trip], first[trip + 1]):
            x, y = cells[at] % columns, cells[at] // columns
            left, right = min(left, x), max(right, x)
            bottom, top = min(bottom, y), max(top, y)
        out[0, trip], out[1, trip], out[2, trip], out[3, trip] = left, right, bottom, top
        out[4, trip] = _shape(first[trip], first[trip + 1], cells, columns, left, right, bottom, top)


@njit(cache=True, nogil=True)
def _shape(begin, end, cells, columns, left, right, bottom, top):
    wide, high = max(right - left, 1), max(top - bottom, 1)
    lower_left = lower_right = upper_left = upper_right = 0.0
    for at in range(begin, end):
        u = (cells[at] % columns - left) / wide
        v = (cells[at] // columns - bottom) / high
        lower_left = max(lower_left, min(1 - u, 1 - v))
        lower_right = max(lower_right, min(u, 1 - v))
        upper_left = max(upper_left, min(1 - u, v))
        upper_right = max(upper_right, min(u, v))
    falls = upper_left + lower_right > lower_left + upper_right
    one, other = (lower_left, upper_right) if falls else (upper_left, lower_right)
    side = 1 if other > one else 0
    bulge = max(one, other)
    degree = 0 if bulge < CUTS[0] else (1 if bulge < CUTS[1] else 2)
    return (6 if falls else 0) + 3 * side + degree
