"""Query interface of mechanisms to bounded trips: `UserTrips` over paths in memory, and its exact sums.

Euler histogram and shared faces; exact distinct counts; and one summary per trip: the bounding box of its
cells and one of 12 shapes.

Shapes. Which diagonal of the box the path follows (2), to which of the other two corners it bulges (2), how
far (3). How far a path reaches into a corner is the largest, over its cells, of the lesser of the two
distances from the opposite sides, in units of the box: 1 in the corner itself, at least 1/2 somewhere for a
straight line.

Distinct counts. How many trips crossed each of many rectangles, each trip once: trip by trip against all
rectangles. Most pairs are settled by the trip's bounding box, without a branch: apart; or the rectangle spans
the box in one direction and meets it in the other (a path has no gaps). The rest asks prefix sums over the
box, made for the trip at hand; or, where the box is large and few ask, the cells themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from shoal.engine.engine import passed_on, sum_parts
from shoal.errors import GuaranteeError
from shoal.space.cells import Rectangles
from shoal.stages.trips import BinsLike, ExactEuler, GridTrips


def exact_euler(trips: GridTrips, *, blocks: bool = False) -> ExactEuler:
    """Trips per face and inner edge they crossed, each trip once.

    `blocks`: of the set of a trip's cells instead, with every adjacent pair as an edge and full 2 x 2 blocks
    counted back in, so that answers err by holes and by coming back alone.
    """
    return euler_of(euler_counts(trips, blocks), blocks)


def euler_counts(trips: GridTrips, blocks: bool) -> np.ndarray:
    """int64 [4, rows, columns]: faces, edges to the east and north, full blocks; sums over trips."""
    grid = trips.grid
    shape = grid.rows, grid.columns

    def part(begin: int, end: int) -> np.ndarray:
        counts = np.zeros((4, *shape), np.int64)
        count = _covered if blocks else _crossed
        count(trips.first, trips.cells, begin, end, grid.columns, counts)
        return counts

    return sum_parts(trips.count, part)


def euler_of(counts: np.ndarray, blocks: bool) -> ExactEuler:
    faces, east, north, full = counts
    return ExactEuler(
        faces=faces,
        east=np.ascontiguousarray(east[:, :-1]),
        north=np.ascontiguousarray(north[:-1]),
        blocks=np.ascontiguousarray(full[:-1, :-1]) if blocks else None,
    )


def shared_faces(trips: GridTrips, lattice: int) -> np.ndarray:
    """int64 [rows, columns]: `lattice` units of each trip shared equally over its cells, rounded down."""
    grid = trips.grid

    def part(begin: int, end: int) -> np.ndarray:
        units = np.zeros(grid.count, np.int64)
        _share(trips.first, trips.cells, begin, end, lattice, units)
        return units

    return sum_parts(trips.count, part).reshape(grid.rows, grid.columns)


@njit(cache=True, nogil=True)
def _crossed(first, cells, begin, end, columns, counts):
    """Faces and crossed edges; the last trip at each is stored, so that a trip counts once."""
    rows = counts.shape[1]
    last_trip = np.full((3, rows * columns), -1, np.int64)
    flat = counts.reshape(4, rows * columns)
    for trip in range(begin, end):
        for at in range(first[trip], first[trip + 1]):
            cell = cells[at]
            if last_trip[0, cell] != trip:
                last_trip[0, cell] = trip
                flat[0, cell] += 1
            if at > first[trip]:
                low = min(cell, cells[at - 1])
                kind = 1 if abs(cell - cells[at - 1]) == 1 and columns > 1 else 2
                if last_trip[kind, low] != trip:
                    last_trip[kind, low] = trip
                    flat[kind, low] += 1


@njit(cache=True, nogil=True)
def _covered(first, cells, begin, end, columns, counts):
    """Faces, pairs of adjacent cells and full 2 x 2 blocks of the set of cells that a trip was in."""
    rows = counts.shape[1]
    last_trip = np.full(rows * columns, -1, np.int64)
    done = np.full(rows * columns, -1, np.int64)
    flat = counts.reshape(4, rows * columns)
    for trip in range(begin, end):
        for at in range(first[trip], first[trip + 1]):
            last_trip[cells[at]] = trip
        for at in range(first[trip], first[trip + 1]):
            cell = cells[at]
            if done[cell] == trip:
                continue
            done[cell] = trip
            flat[0, cell] += 1
            east = cell % columns + 1 < columns and last_trip[cell + 1] == trip
            north = cell // columns + 1 < rows and last_trip[cell + columns] == trip
            flat[1, cell] += east
            flat[2, cell] += north
            flat[3, cell] += east and north and last_trip[cell + columns + 1] == trip


@njit(cache=True, nogil=True)
def _share(first, cells, begin, end, lattice, units):
    last_trip = np.full(units.size, -1, np.int64)
    for trip in range(begin, end):
        size = 0
        for at in range(first[trip], first[trip + 1]):
            if last_trip[cells[at]] != trip:
                last_trip[cells[at]] = trip
                size += 1
        each = lattice // size
        for at in range(first[trip], first[trip + 1]):
            if last_trip[cells[at]] == trip:
                last_trip[cells[at]] = -1
                units[cells[at]] += each


@dataclass(frozen=True, eq=False)
class DistinctOnce:
    """Caches the distinct counts of a set of rectangles, since every round needs them again."""

    _kept: dict[int, tuple[Rectangles, np.ndarray]] = field(default_factory=dict, init=False, repr=False)

    def distinct(self, rectangles: Rectangles) -> np.ndarray:
        stored = self._kept.get(id(rectangles))
        if stored is None:  # the rectangles are kept too, so that their id stays theirs
            stored = self._kept[id(rectangles)] = rectangles, self.count_distinct(rectangles)
        return stored[1].copy()

    def count_distinct(self, rectangles: Rectangles) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class TripQueries(DistinctOnce):
    """Sums over trips, nothing else."""

    trips: GridTrips = field(repr=False)

    grid = passed_on("trips.grid")
    per_unit = passed_on("trips.per_unit")
    cap = passed_on("trips.cap")
    each_trip = passed_on("trips.each_trip")

    def count(self) -> int:
        return self.trips.count

    def all_trips(self) -> int:
        return self.trips.all_trips

    def count_distinct(self, rectangles: Rectangles) -> np.ndarray:
        return distinct_counts(self.trips, rectangles)

    def shared_faces(self, lattice: int) -> np.ndarray:
        return shared_faces(self.trips, lattice)

    def binned(self, bins: BinsLike) -> np.ndarray:
        index = bins.index(*self._summaries)
        if index.size != self.trips.count or (
            index.size and not 0 <= index.min() <= index.max() < bins.count
        ):
            raise GuaranteeError("bound-not-held", "a trip has no bin, or several.")
        return np.bincount(index, minlength=bins.count).astype(np.int64)

    def euler_counts(self, blocks: bool) -> np.ndarray:
        """The exact Euler histogram as one array: for the owner alone, not for mechanisms."""
        return euler_counts(self.trips, blocks)

    @cached_property
    def _summaries(self) -> tuple[np.ndarray, ...]:
        parts = summaries(self.trips)
        for part in parts:
            part.flags.writeable = False  # shared by all bins
        return parts


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
        left, right, bottom, top = _box(cells[first[trip] : first[trip + 1]], columns)
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


def distinct_counts(trips: GridTrips, rectangles: Rectangles) -> np.ndarray:
    """int64 [rectangles]: trips with a cell in each."""
    rectangles.check(trips.grid)
    # The four sides one after the other, in 16 bits (a grid has at most 2^12 columns): fast to compare.
    sides: Any = np.stack([rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1]).astype(np.int16)
    columns = trips.grid.columns

    def part(begin: int, end: int) -> np.ndarray:
        counts = np.zeros(rectangles.count, np.int64)
        _count(trips.first, trips.cells, begin, end, columns, sides, counts)
        return counts

    return sum_parts(trips.count, part, at_least=256)


@njit(cache=True, nogil=True)
def _count(first, cells, begin, end, columns, sides, counts):
    """Half-open rectangles."""
    settled, unsettled = np.zeros(counts.size, np.int32), np.empty(counts.size, np.uint8)
    asking = np.empty(counts.size + 1, np.int32)
    sums = np.empty(1024, np.int32)
    for trip in range(begin, end):
        path = cells[first[trip] : first[trip + 1]]
        left, right, bottom, top = _box(path, columns)
        _settle(sides[0], sides[1], sides[2], sides[3], left, right, bottom, top, settled, unsettled)
        open_count = 0
        for q in range(counts.size):
            asking[open_count] = q
            open_count += unsettled[q]
        wide, high = right - left + 1, top - bottom + 1
        if wide * high <= open_count * path.size:
            if sums.size < (wide + 1) * (high + 1):
                sums = np.empty(2 * (wide + 1) * (high + 1), np.int32)
            _sum_up(path, columns, left, bottom, wide, high, sums)
            _ask_sums(asking[:open_count], sides, left, bottom, wide, high, sums, counts)
        else:
            _ask_cells(asking[:open_count], sides, path, columns, counts)
    for q in range(counts.size):
        counts[q] += settled[q]


@njit(cache=True, nogil=True)
def _box(path, columns):
    """First and last column, first and last row."""
    left, right, bottom, top = columns, -1, 1 << 30, -1
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
