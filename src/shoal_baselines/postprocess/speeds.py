"""Movement on grids of several sizes, by speed: probabilities of the next step after a context of grams.

Walks over grids of several sizes, and the visits to fine cells that they make.

A walk is in a state (a cell of one of the grids) and always at one fine cell of it. A step to a touching
cell, or within a coarse one, goes to a fine cell of it that is as far away as the grid's speed says, drawn by
how much visited fine cells are. A step takes one tick; the cells on the straight line between are passed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from shoal.postprocess.synthetic.numbers import pick, stream, uniform, uniforms
from shoal.space.cell_paths import DIRECTIONS
from shoal.stages.synthetic import SyntheticPaths
from shoal_baselines.postprocess.grams import (
    MOST_SYMBOLS,
    START_PURPOSE,
    WALK_PURPOSE,
    GramModel,
    Visits,
    draw_symbol,
    shrunk_counts,
    start_weights,
    timed_paths,
)
from shoal_baselines.space.speed_steps import DOWN, GRIDS, STAYED, STOP, UP, SpeedSteps, grid_of, state_of


@dataclass(frozen=True, kw_only=True, eq=False)
class SpeedModel(GramModel):
    """Noisy counts of what follows the contexts of a trie, whose states are cells of several grids."""

    def generate(self, count: int, seed: int) -> SyntheticPaths:
        steps = self.trie.steps
        assert isinstance(steps, SpeedSteps)
        start = pick(start_weights(self.starts), uniforms(seed, START_PURPOSE, count))
        ends = np.cumsum(self.probabilities(), axis=1)
        child, follow, shape = self.trie.child, steps.follow(), np.array(steps.grids, np.int64)
        visits = walk_speeds(start, ends, child, follow, self.trie.levels, shape, self.visited(), seed)
        return timed_paths(visits, self.setting, self.hours, seed)

    def visited(self) -> np.ndarray:
        """float64 [cells]: how often slow steps begin in a cell, without what is added to leave a state."""
        table = self.levels[0]
        total = shrunk_counts(table, self.trie.steps).sum(axis=1)[: self.setting.grid.count]
        return np.maximum(total - table.deviation, 0.0)


WINDOW = 3  # latest moves that the next one is weighed by
AHEAD = 1.4  # weight of a direction within 45 degrees of one of them; its inverse beyond 90
MOST_CELLS = 4 ** (GRIDS - 1)  # fine ones of a coarse cell


def walk_speeds(start, ends, child, follow, levels: int, shape, visited, seed: int) -> Visits:
    """Every walk is made twice: for the number of its visits, then to be stored."""
    model = start.astype(np.int64), ends, child, follow, levels, shape, visited, np.uint64(seed)
    size = np.zeros(start.size + 1, np.int64)
    none = np.empty(0, np.int32)
    _walk(*model, size, none, none, none, False)
    first = np.cumsum(size)
    cells, tick, stay = (np.zeros(int(first[-1]), np.int32) for _ in range(3))
    _walk(*model, first, cells, tick, stay, True)
    return first, cells, tick, stay


@njit(cache=True, nogil=True)
def _walk(start, ends, child, follow, levels, shape, visited, seed, first, cells, tick, stay, fill):
    context, latest = np.empty(levels, np.int64), np.empty(WINDOW, np.int64)
    work = np.empty(ends.shape[1]), np.empty(MOST_CELLS, np.int64), np.empty(MOST_CELLS)
    for trip in range(start.size):
        random_stream, draws = stream(seed, WALK_PURPOSE, trip), 1
        context[:], latest[:] = -1, -1
        context[0] = start[trip]
        k = _grid(start[trip], shape)
        here = _fine(np.int64(-1), start[trip], k, shape, visited, uniform(random_stream, 0), work)
        out, now = first[trip] if fill else np.int64(0), 0
        if fill:
            cells[out] = here
        for _ in range(MOST_SYMBOLS):
            symbol = _ahead(ends[_longest(context, ends)], latest, uniform(random_stream, draws), work[0])
            goal = follow[context[0], symbol]
            draws += 1
            if symbol == STOP:
                break
            if symbol == STAYED:
                now += 1
                if fill:
                    stay[out] += 1
            elif symbol in (UP, DOWN):
                k += 1 if symbol == UP else -1
                goal = state_of(here, k, shape)
            else:
                there = _fine(here, goal, k, shape, visited, uniform(random_stream, draws), work)
                out = _line(here, there, shape[0, 0], now, out, cells, tick, fill)
                here, now, draws = there, now + 1, draws + 1
            _remember(symbol, goal, context, latest, child)
        if not fill:
            first[trip + 1] = out + 1


@njit(cache=True, nogil=True)
def _longest(context, ends):
    """The longest context that there is anything of."""
    level = context.size - 1
    while level > 0 and (context[level] < 0 or ends[context[level], -1] <= 0.0):
        level -= 1
    return context[level]


@njit(cache=True, nogil=True)
def _remember(symbol, state, context, latest, child):
    for level in range(context.size - 1, 0, -1):
        context[level] = child[context[level - 1], symbol] if context[level - 1] >= 0 else -1
    context[0] = state
    if symbol < DIRECTIONS:
        for i in range(latest.size - 1, 0, -1):
            latest[i] = latest[i - 1]
        latest[0] = symbol


@njit(cache=True, nogil=True)
def _grid(state, shape):
    k = 0
    while k + 1 < GRIDS and state >= shape[k + 1, 2]:
        k += 1
    return k


@njit(cache=True, nogil=True)
def _ahead(ends, latest, uniform_number, weighed):
    """A symbol, where directions that go on as before weigh more."""
    total = 0.0
    for symbol in range(ends.size):
        weight = ends[symbol] - (ends[symbol - 1] if symbol > 0 else 0.0)
        if symbol < DIRECTIONS:
            for before in latest:
                turn = min((symbol - before) % DIRECTIONS, (before - symbol) % DIRECTIONS)
                if before >= 0 and turn <= 1:
                    weight *= AHEAD
                elif before >= 0 and turn >= 3:
                    weight /= AHEAD
        total += weight
        weighed[symbol] = total
    return draw_symbol(weighed, uniform_number)


@njit(cache=True, nogil=True)
def _fine(here, state, k, shape, visited, uniform_number, work):
    """A fine cell of a state: of those as far from `here` as the grid's speed says, by visits; if none is,
    any by visits; if none is visited, any but `here` if there is another."""
    _, fine_cells, weight = work
    columns, rows = shape[0, 0], shape[0, 1]
    cell = state - shape[k, 2]
    x, y = (cell % shape[k, 0]) << k, (cell // shape[k, 0]) << k
    count = 0
    for row in range(y, min(y + (1 << k), rows)):
        for column in range(x, min(x + (1 << k), columns)):
            fine_cells[count] = row * columns + column
            count += 1
    for rule in range(3):
        total = 0.0
        for i in range(count):
            fits = rule > 0 or here < 0 or grid_of(here, fine_cells[i], columns) == k
            if fits and (fine_cells[i] != here or count == 1):
                total += 1.0 if rule == 2 else visited[fine_cells[i]]
            weight[i] = total
        if total > 0.0:
            break
    return fine_cells[draw_symbol(weight[:count], uniform_number)]


@njit(cache=True, nogil=True)
def _line(here, there, columns, now, out, cells, tick, fill):
    """Cells from here to there, each the nearest to the straight line; the last begins at the next tick."""
    x, y = here % columns, here // columns
    dx, dy = there % columns - x, there // columns - y
    far = max(abs(dx), abs(dy))
    for j in range(1, far + 1):
        out += 1
        if fill:
            cells[out] = (y + (2 * dy * j + far) // (2 * far)) * columns + x + (2 * dx * j + far) // (2 * far)
            tick[out] = now + j // far
    return out
