"""Trips on several grids, each twice as coarse as the one before: a step is encoded on the grid of its speed.

A step leads from the place at one tick to the place at the next. It is encoded on the finest grid on which it
goes to a touching cell at most: fast parts of a trip on coarse grids, slow parts on fine ones. States are the
cells of all grids, the finest first. Symbols: 8 directions, a step within a coarse cell, a step stayed, up to
the coarser grid, down to the finer one, the end.

>>> steps = SpeedSteps(CellGrid(box=(0, 0, 8, 8), columns=8, rows=8, planar=True))
>>> steps.states, steps.grids
(85, ((8, 8, 0), (4, 4, 64), (2, 2, 80), (1, 1, 84)))
>>> trip = CellPaths.of(steps.grid, 60, [[(0, 0, 1), (1, 2, 0), (2, 3, 0), (3, 3, 0), (4, 4, 0)]])
>>> steps.sequences(trip).symbol.tolist()  # stay, east, up, two cells east, end
[9, 0, 0, 10, 0, 12]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid
from shoal_baselines.space.gram_tables import MOST_STAY, Sequences, neighbours

WITHIN, STAYED, UP, DOWN, STOP = 8, 9, 10, 11, 12
SPEED_SYMBOLS = 13
GRIDS = 4


@dataclass(frozen=True)
class SpeedSteps:
    """States are cells of grids of 1, 2, 4 and 8 cells."""

    grid: CellGrid
    symbols = SPEED_SYMBOLS

    @property
    def grids(self) -> tuple[tuple[int, int, int], ...]:
        """Columns, rows and the first state of each."""
        grids, first = [], 0
        for k in range(GRIDS):
            columns, rows = -(-self.grid.columns // 2**k), -(-self.grid.rows // 2**k)
            grids.append((columns, rows, first))
            first += columns * rows
        return tuple(grids)

    @property
    def states(self) -> int:
        columns, rows, first = self.grids[-1]
        return first + columns * rows

    def sequences(self, paths: CellPaths) -> Sequences:
        """Encoded twice: for the number of symbols, then to be stored."""
        shape = np.array(self.grids, np.int64)
        given = paths.first, paths.cells, paths.tick, paths.stay, shape
        size = np.zeros(paths.count + 1, np.int64)
        none = np.empty(0, np.int64)
        _tell(*given, size, none, none, False)
        first = np.cumsum(size)
        state, symbol = np.empty(int(first[-1]), np.int64), np.empty(int(first[-1]), np.int64)
        _tell(*given, first, state, symbol, True)
        return Sequences(first, state, symbol)

    def follow(self) -> np.ndarray:
        """Down leads to one of four cells, so none of them is known."""
        states = np.full((self.states, SPEED_SYMBOLS), -1, np.int32)
        for k, (columns, rows, first) in enumerate(self.grids):
            cell = np.arange(columns * rows)
            here = slice(first, first + columns * rows)
            near = neighbours(CellGrid(box=(0, 0, 1, 1), columns=columns, rows=rows, planar=True))
            states[here, :8] = np.where(near >= 0, near + first, -1)
            states[here, STAYED] = cell + first
            if k > 0:
                states[here, WITHIN] = cell + first
            if k + 1 < GRIDS:
                above = self.grids[k + 1]
                states[here, UP] = above[2] + cell // columns // 2 * above[0] + cell % columns // 2
        return states

    def may(self) -> np.ndarray:
        may = self.follow() >= 0
        may[:, STOP] = True
        may[self.grids[1][2] :, DOWN] = True
        return may


@njit(cache=True, nogil=True)
def state_of(cell, k, shape):
    """The state of a fine cell on grid k."""
    columns = shape[0, 0]
    x, y = np.int64(cell) % columns, np.int64(cell) // columns
    return shape[k, 2] + (y >> k) * shape[k, 0] + (x >> k)


@njit(cache=True, nogil=True)
def grid_of(one, other, columns):
    """The finest grid on which a step leads to a touching cell at most; the last for all longer ones."""
    dx = abs(np.int64(one) % columns - np.int64(other) % columns)
    dy = abs(np.int64(one) // columns - np.int64(other) // columns)
    k = 0
    while k < GRIDS - 1 and max(dx, dy) > 1 << k:
        k += 1
    return k


@njit(cache=True, nogil=True)
def _next(i, last, tick):
    """The visit at which the next tick begins, the last at the latest."""
    j = i + 1
    while j < last and tick[j] == tick[i]:
        j += 1
    return j


@njit(cache=True, nogil=True)
def _tell(first, cells, tick, stay, shape, out, state, symbol, fill):
    columns = shape[0, 0]
    for trip in range(first.size - 1):
        i, last = first[trip], first[trip + 1] - 1
        k = grid_of(cells[i], cells[_next(i, last, tick)], columns) if i < last else 0
        at = out[trip] if fill else np.int64(0)
        while True:
            j = _next(i, last, tick) if i < last else i + 1
            stayed = np.int64(0)
            for visit in range(i, j):
                stayed += stay[visit]
            for _ in range(min(stayed, MOST_STAY)):
                at = _say(state_of(cells[i], k, shape), STAYED, at, state, symbol, fill)
            if i == last:
                break
            if cells[i] != cells[j]:
                goal = grid_of(cells[i], cells[j], columns)
                while k != goal:
                    at = _say(state_of(cells[i], k, shape), UP if k < goal else DOWN, at, state, symbol, fill)
                    k += 1 if k < goal else -1
                way = _way(cells[i], cells[j], k, columns)
                at = _say(state_of(cells[i], k, shape), way, at, state, symbol, fill)
            i = j
        at = _say(state_of(cells[i], k, shape), STOP, at, state, symbol, fill)
        if not fill:
            out[trip + 1] = at


@njit(cache=True, nogil=True)
def _say(here, what, at, state, symbol, fill):
    if fill:
        state[at], symbol[at] = here, what
    return at + 1


@njit(cache=True, nogil=True)
def _way(one, other, k, columns):
    """The direction on grid k, or a step within its cell."""
    dx = (np.int64(other) % columns >> k) - (np.int64(one) % columns >> k)
    dy = (np.int64(other) // columns >> k) - (np.int64(one) // columns >> k)
    if dx == 0 and dy == 0:
        return WITHIN
    if dy > 0:
        return 2 - np.sign(dx)
    if dy < 0:
        return 6 + np.sign(dx)
    return 0 if dx > 0 else 4
