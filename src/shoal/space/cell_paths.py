"""Trips as paths of cells with times: the shape that encoded trips and synthetic ones share.

A path is a list of visits. One after the other their cells are different and touch, also at a corner; a visit
begins at a tick (whole steps of `step_s` seconds since the trip's start) and stays for some steps. A path is
quick where several visits begin at one tick, and slow where more than one tick lies between the end of a
visit and the next.

>>> grid = CellGrid(box=(0, 0, 3, 2), columns=3, rows=2, planar=True)
>>> path = CellPaths.of(grid, 60, [[(0, 0, 2), (4, 3, 0), (5, 4, 1)]])
>>> path.moves.tolist(), path.directions.tolist(), path.duration.tolist(), path.total_stay.tolist()
([2], [1, 0], [5], [3])

Public tables of movement, and what one path adds to each: the questions a generator pays for.

Moves       cell and direction of every move           Turns, Corners  direction in and out (and the cell)
Places      block of the first or last cell            Flows           regions of the first and last cell
Lengths     how far apart the ends are, and how many moves more than that
Stays       moves of the trip, and its steps stayed    StayPlaces      where, by steps
Days, Hours when it starts                             Durations       moves, and ticks per move
Tides       region of the first or last cell, and the part of the week it starts in
Paces       block of a move, and how quick it is

Every entry is a function of one path. A table says its size before any path is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from shoal.space.cells import CellGrid
from shoal.space.clock import HOUR_KINDS
from shoal.space.trip_setting import PART_OF_KIND, WEEK_PARTS, PathSetting

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


DETOURS = 20  # 0 .. 18 moves more than needed, 19 and more
STAY_BINS = 20  # 0 .. 18 steps, 19 and more
# Upper ends of classes of moves: 0, 1, 2, 3 to 4, ...
MOVE_CLASSES = np.array([0, 1, 2, 4, 6, 9, 13, 18, 25, 40], np.int64)
PACES = 4  # ticks that a move takes: 0 (several cells within a step), 1, 2, 3 and more
DURATION_BINS = np.array([0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0])  # ticks of movement per move


@dataclass(frozen=True, eq=False)
class Entries:
    """What each trip adds to a table: entries of trip i are first[i] to first[i + 1]."""

    first: np.ndarray = field(repr=False)  # int64 [trips + 1]
    index: np.ndarray = field(repr=False)  # int64: place in the table
    weight: np.ndarray | None = field(default=None, repr=False)  # int64, at least 1; None: 1 each


class PathTable(Protocol):
    """A public table of `size` places, and what one path adds to it."""

    @property
    def size(self) -> int: ...

    def entries(self, paths: CellPaths) -> Entries:
        """Entries of every path, each a function of that path alone."""
        ...


def class_of_moves(moves: np.ndarray) -> np.ndarray:
    """int64: 0 .. len(MOVE_CLASSES), the last open."""
    return np.searchsorted(MOVE_CLASSES, moves, side="left")


def _each(index: np.ndarray) -> Entries:
    """One entry per trip."""
    return Entries(np.arange(index.size + 1, dtype=np.int64), index.astype(np.int64))


def _some(index: np.ndarray, counted: np.ndarray) -> Entries:
    """One entry for the trips that are kept, none for others."""
    first = np.concatenate([[0], np.cumsum(counted)]).astype(np.int64)
    return Entries(first, index[counted].astype(np.int64))


@dataclass(frozen=True)
class Moves:
    """cell * 8 + direction."""

    grid: CellGrid

    @property
    def size(self) -> int:
        return self.grid.count * DIRECTIONS

    def entries(self, paths: CellPaths) -> Entries:
        at = paths.cells[paths.move_at].astype(np.int64) * DIRECTIONS + paths.directions
        return Entries(paths.move_first, at)


@dataclass(frozen=True)
class Turns:
    """in * 8 + out, anywhere."""

    @property
    def size(self) -> int:
        return DIRECTIONS**2

    def entries(self, paths: CellPaths) -> Entries:
        at, first = _pairs(paths)
        turn = paths.directions.astype(np.int64)
        return Entries(first, turn[at] * DIRECTIONS + turn[at + 1])


@dataclass(frozen=True)
class Corners:
    """cell * 64 + in * 8 + out."""

    grid: CellGrid

    @property
    def size(self) -> int:
        return self.grid.count * DIRECTIONS**2

    def entries(self, paths: CellPaths) -> Entries:
        at, first = _pairs(paths)
        turn = paths.directions.astype(np.int64)
        cell = paths.cells[paths.move_at[at + 1]].astype(np.int64)
        return Entries(first, (cell * DIRECTIONS + turn[at]) * DIRECTIONS + turn[at + 1])


def _pairs(paths: CellPaths) -> tuple[np.ndarray, np.ndarray]:
    """Moves that are followed by another of the same trip, and where each trip's begin."""
    goes_on = np.ones(paths.directions.size, bool)
    last = paths.move_first[1:][paths.moves > 0] - 1
    goes_on[last] = False
    first = np.concatenate([[0], np.cumsum(np.maximum(paths.moves - 1, 0))])
    return np.flatnonzero(goes_on), first.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Places:
    """The block of the first cell, or of the last."""

    block_of_cell: np.ndarray = field(repr=False)  # int64 [cells]
    size: int
    last: bool = False

    def entries(self, paths: CellPaths) -> Entries:
        return _each(self.block_of_cell[paths.ends if self.last else paths.starts])


@dataclass(frozen=True, eq=False)
class Flows:
    """region of the first cell * regions + region of the last."""

    region_of_cell: np.ndarray = field(repr=False)
    regions: int

    @property
    def size(self) -> int:
        return self.regions**2

    def entries(self, paths: CellPaths) -> Entries:
        begin, end = self.region_of_cell[paths.starts], self.region_of_cell[paths.ends]
        return _each(begin * self.regions + end)


def distance_cuts(grid: CellGrid) -> np.ndarray:
    """Upper ends of classes of distance in cells, each by itself up to 8, then wider; the last is open."""
    cuts, longest = [*range(9)], max(grid.columns, grid.rows)
    while cuts[-1] * 1.2 < longest:
        cuts.append(int(cuts[-1] * 1.2 + 1))
    return np.array(cuts, np.int64)


@dataclass(frozen=True)
class Lengths:
    """Class of the distance of the ends * 20 + moves beyond that distance."""

    grid: CellGrid

    @property
    def size(self) -> int:
        return (distance_cuts(self.grid).size + 1) * DETOURS

    def entries(self, paths: CellPaths) -> Entries:
        apart = chebyshev(paths.starts, paths.ends, paths.grid.columns)
        detour = np.minimum(paths.moves - apart, DETOURS - 1)
        return _each(np.searchsorted(distance_cuts(self.grid), apart) * DETOURS + detour)


@dataclass(frozen=True)
class Stays:
    """Class of moves * 20 + steps stayed in all."""

    @property
    def size(self) -> int:
        return (MOVE_CLASSES.size + 1) * STAY_BINS

    def entries(self, paths: CellPaths) -> Entries:
        stay = np.minimum(paths.total_stay, STAY_BINS - 1)
        return _each(class_of_moves(paths.moves) * STAY_BINS + stay)


@dataclass(frozen=True)
class StayPlaces:
    """Steps stayed per cell."""

    grid: CellGrid

    @property
    def size(self) -> int:
        return self.grid.count

    def entries(self, paths: CellPaths) -> Entries:
        at = np.flatnonzero(paths.stay > 0)
        per_trip = np.bincount(paths.trip_of_visit[at], minlength=paths.count)
        first = np.concatenate([[0], np.cumsum(per_trip)]).astype(np.int64)
        return Entries(first, paths.cells[at].astype(np.int64), paths.stay[at].astype(np.int64))


@dataclass(frozen=True, eq=False)
class Days:
    """The day of the window on which a trip starts."""

    setting: PathSetting

    @property
    def size(self) -> int:
        return len(self.setting.clock.days)

    def entries(self, paths: CellPaths) -> Entries:
        slot = self.setting.clock.slot_of(paths.start_us)
        return _some(self.setting.clock.day_of_slot[slot], slot >= 0)


@dataclass(frozen=True, eq=False)
class Hours:
    """The hour of the start, apart for weekdays and weekends."""

    setting: PathSetting

    @property
    def size(self) -> int:
        return HOUR_KINDS

    def entries(self, paths: CellPaths) -> Entries:
        slot = self.setting.clock.slot_of(paths.start_us)
        return _some(self.setting.kind_of_slot[slot], slot >= 0)


@dataclass(frozen=True, eq=False)
class Tides:
    """Region of the first cell, or of the last, * 6 + the part of the week of the start."""

    setting: PathSetting
    region_of_cell: np.ndarray = field(repr=False)
    regions: int
    last: bool = False

    @property
    def size(self) -> int:
        return self.regions * WEEK_PARTS

    def entries(self, paths: CellPaths) -> Entries:
        slot = self.setting.clock.slot_of(paths.start_us)
        part = PART_OF_KIND[self.setting.kind_of_slot[slot]]
        region = self.region_of_cell[paths.ends if self.last else paths.starts]
        return _some(region * WEEK_PARTS + part, slot >= 0)


@dataclass(frozen=True)
class Durations:
    """Class of moves * 10 + ticks of movement per move; trips that move."""

    @property
    def size(self) -> int:
        return (MOVE_CLASSES.size + 1) * (DURATION_BINS.size + 1)

    def entries(self, paths: CellPaths) -> Entries:
        moves = paths.moves
        ratio = (paths.duration - paths.total_stay) / np.maximum(moves, 1)
        index = class_of_moves(moves) * (DURATION_BINS.size + 1) + np.searchsorted(DURATION_BINS, ratio)
        return _some(index, moves > 0)


@dataclass(frozen=True, eq=False)
class Paces:
    """Block of the cell that a move leaves * 4 + ticks that it takes."""

    block_of_cell: np.ndarray = field(repr=False)
    blocks: int

    @property
    def size(self) -> int:
        return self.blocks * PACES

    def entries(self, paths: CellPaths) -> Entries:
        at = paths.move_at
        ticks = paths.tick[at + 1] - paths.tick[at] - paths.stay[at]
        block = self.block_of_cell[paths.cells[at]]
        return Entries(paths.move_first, block * PACES + np.minimum(ticks, PACES - 1))
