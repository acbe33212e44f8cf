"""Trips as paths of cells with times: the shape that encoded trips and synthetic ones share.

A path is a list of visits. One after the other their cells are different and touch, also at a corner; a visit
begins at a tick (whole steps of `step_s` seconds since the trip's start) and stays for some steps. A path is
quick where several visits begin at one tick, and slow where more than one tick lies between the end of a
visit and the next.

>>> grid = CellGrid(box=(0, 0, 3, 2), columns=3, rows=2, planar=True)
>>> path = CellPaths.of(grid, 60, [[(0, 0, 2), (4, 3, 0), (5, 4, 1)]])
>>> path.moves.tolist(), path.directions.tolist(), path.duration.tolist(), path.total_stay.tolist()
([2], [1, 0], [5], [3])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shoal.space.cells import CellGrid

# Counter-clockwise from the east, so that a turn is (out - in) mod 8.
DX = np.array([1, 1, 0, -1, -1, -1, 0, 1], np.int32)
DY = np.array([0, 1, 1, 1, 0, -1, -1, -1], np.int32)
DIRECTIONS = 8
_DIRECTION_OF = np.array([5, 6, 7, 4, -1, 0, 3, 2, 1], np.int8)  # by 3 (dy + 1) + dx + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class CellPaths:
    """Visits of trip i are first[i] to first[i + 1]; a cell is row * columns + column."""

    grid: CellGrid
    step_s: float
    first: np.ndarray = field(repr=False)  # int64 [trips + 1]
    cells: np.ndarray = field(repr=False)  # int32
    tick: np.ndarray = field(repr=False)  # int32: when the visit begins, in steps since the start
    stay: np.ndarray = field(repr=False)  # int32: steps stayed
    start_us: np.ndarray = field(repr=False)  # int64 [trips]

    @property
    def count(self) -> int:
        return self.first.size - 1

    @property
    def moves(self) -> np.ndarray:
        """int64 [trips]: moves from cell to cell."""
        return np.diff(self.first) - 1

    @property
    def starts(self) -> np.ndarray:
        return self.cells[self.first[:-1]]

    @property
    def ends(self) -> np.ndarray:
        return self.cells[self.first[1:] - 1]

    @property
    def duration(self) -> np.ndarray:
        """int64 [trips]: steps from the start to the end of the last stay."""
        last = self.first[1:] - 1
        return self.tick[last].astype(np.int64) + self.stay[last]

    @cached_property
    def total_stay(self) -> np.ndarray:
        """int64 [trips]: steps stayed anywhere."""
        return np.add.reduceat(self.stay.astype(np.int64), self.first[:-1]) if self.count else self.moves

    @cached_property
    def trip_of_visit(self) -> np.ndarray:
        return np.repeat(np.arange(self.count), np.diff(self.first))

    @cached_property
    def move_at(self) -> np.ndarray:
        """int64: the visits that a move leaves from, in order."""
        leaves = np.ones(self.cells.size, bool)
        leaves[self.first[1:] - 1] = False
        return np.flatnonzero(leaves)

    @cached_property
    def move_first(self) -> np.ndarray:
        """int64 [trips + 1]: where each trip's moves begin in `move_at` and `directions`."""
        return self.first - np.arange(self.count + 1)

    @cached_property
    def directions(self) -> np.ndarray:
        """int8: the direction of every move, -1 where two cells do not touch."""
        return direction_between(self.cells[self.move_at], self.cells[self.move_at + 1], self.grid.columns)

    @classmethod
    def of(cls, grid: CellGrid, step_s: float, trips: Iterable[Sequence[tuple[int, int, int]]]) -> CellPaths:
        """From lists of (cell, tick, stay)."""
        lists = [list(trip) for trip in trips]
        rows = np.array([visit for trip in lists for visit in trip], np.int32).reshape(-1, 3)
        first = np.concatenate([[0], np.cumsum([len(trip) for trip in lists])]).astype(np.int64)
        return cls(
            grid=grid,
            step_s=step_s,
            first=first,
            cells=np.ascontiguousarray(rows[:, 0]),
            tick=np.ascontiguousarray(rows[:, 1]),
            stay=np.ascontiguousarray(rows[:, 2]),
            start_us=np.zeros(len(lists), np.int64),
        )


def direction_between(here: np.ndarray, there: np.ndarray, columns: int) -> np.ndarray:
    """int8: the direction from cells to cells that touch them, -1 elsewhere."""
    dx = (there % columns).astype(np.int32) - here % columns
    dy = (there // columns).astype(np.int32) - here // columns
    touch = (np.abs(dx) <= 1) & (np.abs(dy) <= 1)
    return np.where(touch, _DIRECTION_OF[np.where(touch, 3 * (dy + 1) + dx + 1, 4)], -1).astype(np.int8)


def chebyshev(one: np.ndarray, other: np.ndarray, columns: int) -> np.ndarray:
    """Moves that two cells are apart at least."""
    dx = np.abs((one % columns).astype(np.int64) - other % columns)
    dy = np.abs((one // columns).astype(np.int64) - other // columns)
    return np.maximum(dx, dy)
