"""Exact sums over paths: the Euler histogram, normalised faces, and one summary per trip."""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.engine.engine import sum_parts
from shoal.stages.trips import ExactEuler, GridTrips


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
    """Faces and the edges that were crossed; the last trip seen at each, so that a trip counts once."""
    rows = counts.shape[1]
    seen = np.full((3, rows * columns), -1, np.int64)
    flat = counts.reshape(4, rows * columns)
    for trip in range(begin, end):
        for at in range(first[trip], first[trip + 1]):
            cell = cells[at]
            if seen[0, cell] != trip:
                seen[0, cell] = trip
                flat[0, cell] += 1
            if at > first[trip]:
                low = min(cell, cells[at - 1])
                kind = 1 if abs(cell - cells[at - 1]) == 1 and columns > 1 else 2
                if seen[kind, low] != trip:
                    seen[kind, low] = trip
                    flat[kind, low] += 1


@njit(cache=True, nogil=True)
def _covered(first, cells, begin, end, columns, counts):
    """Faces, pairs of adjacent cells and full 2 x 2 blocks of the set of cells that a trip was in."""
    rows = counts.shape[1]
    seen = np.full(rows * columns, -1, np.int64)
    done = np.full(rows * columns, -1, np.int64)
    flat = counts.reshape(4, rows * columns)
    for trip in range(begin, end):
        for at in range(first[trip], first[trip + 1]):
            seen[cells[at]] = trip
        for at in range(first[trip], first[trip + 1]):
            cell = cells[at]
            if done[cell] == trip:
                continue
            done[cell] = trip
            flat[0, cell] += 1
            east = cell % columns + 1 < columns and seen[cell + 1] == trip
            north = cell // columns + 1 < rows and seen[cell + columns] == trip
            flat[1, cell] += east
            flat[2, cell] += north
            flat[3, cell] += east and north and seen[cell + columns + 1] == trip


@njit(cache=True, nogil=True)
def _share(first, cells, begin, end, lattice, units):
    seen = np.full(units.size, -1, np.int64)
    for trip in range(begin, end):
        size = 0
        for at in range(first[trip], first[trip + 1]):
            if seen[cells[at]] != trip:
                seen[cells[at]] = trip
                size += 1
        each = lattice // size
        for at in range(first[trip], first[trip + 1]):
            if seen[cells[at]] == trip:
                seen[cells[at]] = -1
                units[cells[at]] += each
