"""Histograms of trips that figures compare and a report draws: distance, moves, stays, visits, ends.

>>> from shoal.space.cells import CellGrid
>>> grid = CellGrid(box=(0, 0, 6000, 6000), columns=6, rows=6, planar=True)
>>> paths = CellPaths.of(grid, 60, [[(0, 0, 2), (1, 3, 0), (2, 4, 1)]])
>>> int(distance_histogram(paths).argmax()), int(length_histogram(paths).argmax())
(2, 2)
>>> int(stay_histogram(paths).argmax()), int(duration_histogram(paths).argmax())
(3, 5)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.space.cell_paths import CellPaths
from shoal.space.rectangles import Rectangles

DISTANCE_BINS, DISTANCE_BIN_M = 20, 1_000.0
LENGTH_BINS, STAY_BINS, DURATION_BINS = 41, 20, 61  # the last one open
ZONE_SIDE = 6


def distance_histogram(paths: CellPaths) -> np.ndarray:
    """int64 [20]: trips by the largest distance between two of their cell centres, in km."""
    reach_m = np.zeros(paths.count)
    width_m, height_m = paths.grid.cell_m
    _reach(paths.first, paths.cells, paths.grid.columns, paths.grid.rows, width_m, height_m, reach_m)
    return _open_ended((reach_m // DISTANCE_BIN_M).astype(np.int64), DISTANCE_BINS)


def length_histogram(paths: CellPaths) -> np.ndarray:
    """int64 [41]: trips by moves."""
    return _open_ended(paths.moves, LENGTH_BINS)


def stay_histogram(paths: CellPaths) -> np.ndarray:
    """int64 [20]: trips by all steps stayed."""
    return _open_ended(paths.total_stay, STAY_BINS)


def duration_histogram(paths: CellPaths) -> np.ndarray:
    """int64 [61]: trips by steps from start to end."""
    return _open_ended(paths.duration, DURATION_BINS)


def visits_per_cell(paths: CellPaths) -> np.ndarray:
    """int64 [cells]."""
    return np.bincount(paths.cells, minlength=paths.grid.count)


def od_matrix(paths: CellPaths) -> np.ndarray:
    """int64 [36, 36]: trips by the zones of their start and end; zones are numbered as cells are."""
    zones = ZONE_SIDE * ZONE_SIDE
    return np.bincount(zone_pairs(paths, ZONE_SIDE), minlength=zones * zones).reshape(zones, zones)


def zone_pairs(paths: CellPaths, side: int) -> np.ndarray:
    """int64 [trips]: zone of the start * side^2 + zone of the end, among side x side zones."""
    start, end = (
        (cells // paths.grid.columns * side // paths.grid.rows) * side
        + cells % paths.grid.columns * side // paths.grid.columns
        for cells in (paths.starts.astype(np.int64), paths.ends.astype(np.int64))
    )
    return start * side * side + end


def crossing_trips(paths: CellPaths, rectangles: Rectangles) -> np.ndarray:
    """int64 [rectangles]: trips with a visit inside."""
    rectangles.check(paths.grid)
    out = np.zeros(rectangles.count, np.int64)
    sides = rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1
    _crossing(paths.first, paths.cells, paths.grid.columns, paths.grid.rows, *sides, out)
    return out


def _open_ended(values: np.ndarray, bins: int) -> np.ndarray:
    return np.bincount(np.minimum(values, bins - 1), minlength=bins)


@njit(cache=True, nogil=True)
def _reach(first, cells, columns, rows, width_m, height_m, out):
    """Largest distance per trip. In each row only the westmost and the eastmost cell can be farthest."""
    west, east = np.full(rows, columns), np.full(rows, -1)
    for trip in range(first.size - 1):
        south, north = rows, -1
        for i in range(first[trip], first[trip + 1]):
            x, y = cells[i] % columns, cells[i] // columns
            west[y], east[y] = min(west[y], x), max(east[y], x)
            south, north = min(south, y), max(north, y)
        most = 0.0
        for a in range(south, north + 1):
            for b in range(a, north + 1):
                if east[a] < 0 or east[b] < 0:
                    continue
                dx = max(east[a] - west[b], east[b] - west[a]) * width_m
                dy = (b - a) * height_m
                most = max(most, dx * dx + dy * dy)
        out[trip] = np.sqrt(most)
        west[south : north + 1], east[south : north + 1] = columns, -1


@njit(cache=True, nogil=True)
def _crossing(first, cells, columns, rows, x0, x1, y0, y1, out):
    """64 rectangles at a time: each cell knows by bits which of them it lies in."""
    one = np.uint64(1)
    inside = np.empty((rows, columns), np.uint64)
    for begin in range(0, out.size, 64):
        end = min(begin + 64, out.size)
        inside[:] = 0
        for r in range(begin, end):
            for y in range(y0[r], y1[r]):
                for x in range(x0[r], x1[r]):
                    inside[y, x] |= one << np.uint64(r - begin)
        flat = inside.ravel()
        for trip in range(first.size - 1):
            seen = np.uint64(0)
            for i in range(first[trip], first[trip + 1]):
                seen |= flat[cells[i]]
            for r in range(begin, end):
                out[r] += np.int64((seen >> np.uint64(r - begin)) & one)
