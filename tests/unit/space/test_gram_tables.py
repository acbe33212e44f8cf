"""Sequences of symbols, contexts and what follows them, against plain counting."""

from itertools import pairwise

import numpy as np
from tests.loops import for_each

from shoal.space.cell_paths import DX, DY, CellPaths
from shoal.space.cells import CellGrid
from shoal_baselines.space.gram_tables import (
    END,
    MOST_STAY,
    STAY,
    CellSteps,
    Grams,
    MoveSteps,
    Prefixes,
    Starts,
    Trie,
)
from shoal_baselines.space.speed_steps import DOWN, STAYED, STOP, UP, WITHIN, SpeedSteps

GRID = CellGrid(box=(0, 0, 5, 3), columns=5, rows=3, planar=True)
TRIPS = [[(0, 0, 2), (6, 3, 0), (1, 4, 1)], [(7, 0, 0)], [(4, 0, MOST_STAY + 5), (3, MOST_STAY + 6, 0)]]
PATHS = CellPaths.of(GRID, 60, TRIPS)


def lists(first, *columns):
    return [list(zip(*(c[a:b].tolist() for c in columns), strict=True)) for a, b in pairwise(first)]


def test_sequences_hold_stays_moves_and_the_end_or_moves_alone():
    told = CellSteps(GRID).sequences(PATHS)
    assert lists(told.first, told.state, told.symbol) == [
        [(0, STAY), (0, STAY), (0, 1), (6, 6), (1, STAY), (1, END)],
        [(7, END)],
        [*[(4, STAY)] * MOST_STAY, (4, 4), (3, END)],  # longer stays are not told
    ]
    told = MoveSteps(GRID).sequences(PATHS)
    assert lists(told.first, told.symbol) == [[(1,), (6,), (END,)], [(END,)], [(4,), (END,)]]
    assert not MoveSteps(GRID).may()[:, STAY].any()


def test_follow_is_the_cell_in_the_direction():
    follow = CellSteps(GRID).follow()
    for cell in range(GRID.count):
        for way in range(8):
            x, y = cell % 5 + DX[way], cell // 5 + DY[way]
            assert follow[cell, way] == (y * 5 + x if 0 <= x < 5 and 0 <= y < 3 else -1)
    assert (follow[:, STAY] == np.arange(15)).all()
    assert (follow[:, END] == -1).all()


def test_a_trie_grows_where_counts_pass_and_trips_can_go_on():
    trie = Trie.of(CellSteps(GRID))
    counts = np.zeros((15, 10))
    counts[0, [1, 4, STAY, END]] = 5.0  # 4 leads off the grid, the end to nowhere
    counts[6, 6] = 2.0
    grown = trie.grown(counts, 2.0)
    assert grown.levels == 2
    assert grown.size == 20
    assert grown.child[0, 1] == 15
    assert grown.child[0, STAY] == 16
    assert (grown.child >= 0).sum() == 2  # 2.0 does not pass 2.0
    assert grown.state[15:].tolist() == [6, 0]


def test_grams_and_prefixes_follow_contexts_of_their_own_trip():
    counts = np.zeros((15, 10))
    counts[0, 1] = counts[6, 6] = counts[0, STAY] = 1.0
    trie = Trie.of(CellSteps(GRID)).grown(counts, 0.5)  # nodes: 0 by 1, 0 by stay, 6 by 6
    grams = Grams(trie).entries(PATHS)
    assert lists(grams.first, grams.index) == [
        [(1 * 10 + STAY,), (1 * 10 + 1,), (0 * 10 + 6,), (28,)],
        [],
        [],
    ]
    prefixes = Prefixes(trie).entries(PATHS)
    assert lists(prefixes.first, prefixes.index) == [[(10 + STAY,)], [], []]
    assert Starts(trie.steps).entries(PATHS).index.tolist() == [0, 7, 4]


def test_fast_steps_are_told_on_coarse_grids():
    grid = CellGrid(box=(0, 0, 9, 8), columns=9, rows=8, planar=True)
    steps = SpeedSteps(grid)
    # east by one; a tick of 3 cells east (same cell of 4, then the next); a stay; back by one
    trip = [(0, 0, 0), (1, 1, 0), (2, 1, 0), (3, 1, 0), (4, 2, 2), (3, 5, 0)]
    told = steps.sequences(CellPaths.of(grid, 60, [trip, [(10, 0, 1)]]))
    first = [steps.grids[k][2] for k in range(4)]
    assert lists(told.first, told.state, told.symbol) == [
        [
            (0, 0),
            (1, UP),
            (first[1], UP),
            (first[2], 0),
            (first[2] + 1, STAYED),
            (first[2] + 1, STAYED),
            (first[2] + 1, DOWN),
            (first[1] + 2, DOWN),
            (4, 4),
            (3, STOP),
        ],
        [(10, STAYED), (10, STOP)],
    ]


@for_each(("columns", "rows"), [(9, 8), (4, 4), (1, 1), (34, 35)])
def test_grids_cover_all_cells_and_every_told_symbol_may_be(columns, rows):
    grid = CellGrid(box=(0, 0, columns, rows), columns=columns, rows=rows, planar=True)
    steps = SpeedSteps(grid)
    rng = np.random.default_rng(3)
    # any cells at all, joined by straight lines in one tick each
    trips = []
    for _ in range(40):
        x, y = rng.integers(columns), rng.integers(rows)
        trip = [(int(y * columns + x), 0, 0)]
        for tick in range(1, 6):
            far, goal = 1, (rng.integers(columns), rng.integers(rows))
            far = max(abs(goal[0] - x), abs(goal[1] - y))
            for j in range(1, far + 1):
                at = round(x + (goal[0] - x) * j / far), round(y + (goal[1] - y) * j / far)
                trip.append((int(at[1] * columns + at[0]), tick - 1 + j // far, 0))
            x, y = goal
        trips.append(trip)
    told = steps.sequences(CellPaths.of(grid, 60, trips))
    may, follow = steps.may(), steps.follow()
    assert may[told.state, told.symbol].all()
    near = np.append(told.state[1:], -1)
    inner = ~np.isin(told.symbol, (STOP, DOWN))
    # beyond 8 cells in a tick, a direction is all that is told
    exact = inner & (np.isin(told.symbol, (UP, STAYED, WITHIN)) | (max(columns, rows) <= 9))
    assert (follow[told.state, told.symbol][exact] == near[exact]).all()
