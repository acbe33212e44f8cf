"""Frequent patterns of trips: the most frequent runs of cells, and how well two lists of them agree.

    pattern     cells of 2 or more visits of one trip, one after the other; every place where it occurs counts
    F1          harmonic mean of precision (share of synthetic patterns that match some real one) and recall
                (share of real patterns that match some synthetic one)
    exact       match: the same cells
    Frechet     match: the points of both, walked in order (a point may pair with several), pair up so that
                every pair is in the same cell or in cells that touch. The worst pair decides.
    DTW         match: a pair in the same cell or in cells that touch costs 0, any other the distance of its
                cell centres in cells; the least sum over all ways to pair up is below 1 per point of the
                longer pattern. The mean decides.

Frechet and DTW are the approximate matches of Ghane's thesis, section 5.6.1, which gives the distances and
when two points match but not when two patterns do. Equal patterns match under Frechet, and Frechet matches
under DTW, so the three F1 never fall in this order.

>>> grid = CellGrid(box=(0, 0, 3, 2), columns=3, rows=2, planar=True)
>>> paths = CellPaths.of(grid, 60, [[(0, 0, 0), (1, 1, 0), (2, 2, 0)], [(0, 0, 0), (1, 1, 0)]])
>>> top_patterns(paths, 2, 5, 1000)
[((0, 1), 2), ((1, 2), 1), ((0, 1, 2), 1)]

Histograms of trips that figures compare and a report draws: distance, moves, stays, visits, ends.

>>> from shoal.space.cells import CellGrid
>>> grid = CellGrid(box=(0, 0, 6000, 6000), columns=6, rows=6, planar=True)
>>> paths = CellPaths.of(grid, 60, [[(0, 0, 2), (1, 3, 0), (2, 4, 1)]])
>>> int(distance_histogram(paths).argmax()), int(length_histogram(paths).argmax())
(2, 2)
>>> int(stay_histogram(paths).argmax()), int(duration_histogram(paths).argmax())
(3, 5)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from shoal.errors import PlanError
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid, Rectangles

TOP = 1_000
Pattern = tuple[int, ...]


def top_patterns(
    paths: CellPaths, shortest: int = 2, longest: int = 5, count: int = TOP
) -> list[tuple[Pattern, int]]:
    """The most frequent patterns and how often they occur; fewer than `count` where there are fewer.

    Order: most frequent first, then the shorter, then by cell numbers.
    """
    if not 2 <= shortest <= longest or count < 1:
        raise PlanError(
            "pattern-range",
            "patterns need 2 <= shortest <= longest and a count of at least 1; "
            f"got {shortest}, {longest} and {count}.",
        )
    patterns = [(np.empty((0, 2), np.int64), np.empty(0, np.int64))]
    patterns += list(_frequent(paths, shortest, longest, count))
    tally = np.concatenate([times for _, times in patterns])
    table = np.concatenate([_padded(cells, longest) for cells, _ in patterns])
    length = (table >= 0).sum(axis=1)
    best = np.lexsort((*table.T[::-1], length, -tally))[:count]
    rows, sizes, times = table[best].tolist(), length[best].tolist(), tally[best].tolist()
    return [(tuple(row[:size]), many) for row, size, many in zip(rows, sizes, times, strict=True)]


def exact_f1(real: Sequence[Pattern], synthetic: Sequence[Pattern]) -> float:
    """F1 of two sets; 1 if both are empty, 0 if one is."""
    both = len(set(real) & set(synthetic))
    return _f1(both, len(real), both, len(synthetic))


def frechet_f1(real: Sequence[Pattern], synthetic: Sequence[Pattern], grid: CellGrid) -> float:
    """F1 with patterns that match by discrete Frechet distance."""
    return _near_f1(real, synthetic, grid, False)


def dtw_f1(real: Sequence[Pattern], synthetic: Sequence[Pattern], grid: CellGrid) -> float:
    """F1 with patterns that match by dynamic time warping."""
    return _near_f1(real, synthetic, grid, True)


def _frequent(paths: CellPaths, shortest: int, longest: int, count: int):
    """Cells [patterns, length] and tallies, per length; among them all that can be in the top.

    A pattern is not more frequent than its parts. So once `count` patterns of `floor` or more are known, a
    run is followed on only where its head and its tail, one cell shorter, reach the floor.
    """
    cells, side = paths.cells.astype(np.int64), paths.grid.count
    rank = cells.copy()  # of the run that begins here, among those kept; -1: not kept
    at = paths.move_at
    frequent = np.empty(0, np.int64)
    runs = np.empty((0, 1), np.int64)
    known, floor = np.empty(0, np.int64), 1
    for length in range(2, longest + 1):
        key = rank[at] * side + cells[at + length - 1]
        frequent, times = np.unique(key, return_counts=True)
        if length >= shortest:
            known = np.concatenate([known, times])
            floor = int(np.partition(known, -count)[-count]) if known.size >= count else 1
        frequent, times = frequent[times >= floor], times[times >= floor]
        head = (frequent // side)[:, None] if length == 2 else runs[frequent // side]
        runs = np.concatenate([head, (frequent % side)[:, None]], axis=1)
        if length >= shortest:
            yield runs, times
        if not frequent.size:
            return
        place = np.minimum(np.searchsorted(frequent, key), frequent.size - 1)
        rank[:] = -1
        rank[at] = np.where(frequent[place] == key, place, -1)
        at = np.flatnonzero((rank[:-1] >= 0) & (rank[1:] >= 0))


def _padded(cells: np.ndarray, width: int) -> np.ndarray:
    return np.pad(cells, ((0, 0), (0, width - cells.shape[1])), constant_values=-1)


def _near_f1(real: Sequence[Pattern], synthetic: Sequence[Pattern], grid: CellGrid, mean: bool) -> float:
    if not real or not synthetic:
        return _f1(0, len(real), 0, len(synthetic))
    x, y, size = _points(real, grid)
    other_x, other_y, other_size = _points(synthetic, grid)
    hit, other_hit = np.zeros(size.size, bool), np.zeros(other_size.size, bool)
    _match(x, y, size, other_x, other_y, other_size, mean, hit, other_hit)
    return _f1(int(hit.sum()), hit.size, int(other_hit.sum()), other_hit.size)


def _points(patterns: Sequence[Pattern], grid: CellGrid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns and rows [patterns, longest], and the number of cells of each pattern."""
    size = np.array([len(pattern) for pattern in patterns])
    cells = np.full((size.size, size.max()), -1)
    cells[np.arange(cells.shape[1]) < size[:, None]] = np.concatenate(patterns)
    return cells % grid.columns, cells // grid.columns, size


def _f1(real_hits: int, real: int, synthetic_hits: int, synthetic: int) -> float:
    if not real or not synthetic:
        return float(real == synthetic)
    recall, precision = real_hits / real, synthetic_hits / synthetic
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


@njit(cache=True, nogil=True)
def _match(x, y, size, other_x, other_y, other_size, mean, hit, other_hit):
    """Marks patterns of both lists that match one of the other list."""
    cost = np.empty((x.shape[1], other_x.shape[1]))
    for a in range(size.size):
        for b in range(other_size.size):
            if hit[a] and other_hit[b]:
                continue
            n, m = size[a], other_size[b]
            limit = float(max(n, m)) if mean else 0.5  # a pair that is not near costs 2 at least
            first = _apart(x[a, 0], y[a, 0], other_x[b, 0], other_y[b, 0])
            last = _apart(x[a, n - 1], y[a, n - 1], other_x[b, m - 1], other_y[b, m - 1])
            if max(first, last) >= limit:  # both pairs are on every way
                continue
            for i in range(n):
                for j in range(m):
                    here = _apart(x[a, i], y[a, i], other_x[b, j], other_y[b, j])
                    before = 0.0 if i == 0 and j == 0 else np.inf
                    if i > 0:
                        before = min(before, cost[i - 1, j])
                    if j > 0:
                        before = min(before, cost[i, j - 1])
                    if i > 0 and j > 0:
                        before = min(before, cost[i - 1, j - 1])
                    cost[i, j] = before + here
            if cost[n - 1, m - 1] < limit:
                hit[a], other_hit[b] = True, True


@njit(cache=True, inline="always")
def _apart(x, y, other_x, other_y):
    """0 for cells that are the same or touch, else the distance of their centres in cells."""
    dx, dy = abs(x - other_x), abs(y - other_y)
    return 0.0 if dx <= 1 and dy <= 1 else np.sqrt(float(dx * dx + dy * dy))


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
    for begin in range(0, rectangles.count, 64):  # each cell knows by bits in which of 64 rectangles it lies
        bits = np.arange(min(64, rectangles.count - begin), dtype=np.uint64)
        inside = np.zeros((paths.grid.rows, paths.grid.columns), np.uint64)
        for r, bit in enumerate(np.uint64(1) << bits, begin):
            inside[rectangles.y0[r] : rectangles.y1[r], rectangles.x0[r] : rectangles.x1[r]] |= bit
        crossed = np.bitwise_or.reduceat(inside.ravel()[paths.cells], paths.first[:-1])
        out[begin : begin + 64] = (crossed[:, None] >> bits & np.uint64(1)).sum(axis=0)
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
