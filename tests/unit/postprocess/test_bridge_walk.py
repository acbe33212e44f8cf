"""Bridges are exact: every walk comes as often as its weight says, arrives, and stays on the grid.
Moves of drawn trips, counted one by one.
"""

import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from tests.loops import for_each

from shoal.postprocess.synthetic import bridge_walk
from shoal.postprocess.synthetic.bridge_tables import counted_moves, on_grid
from shoal.postprocess.synthetic.bridge_walk import NEAR, possible_moves, walk
from shoal.space.cell_paths import DX, DY, chebyshev
from shoal.space.cells import CellGrid

ALARM = 1e-5
STEPS = list(zip(DX.tolist(), DY.tolist(), strict=True))


def weights(columns, rows, seed, low=0.05, high=3.0):
    """Any positive weights of moves that stay on the grid; rows do not sum to 1."""
    chance = np.random.default_rng(seed)
    inside = on_grid(CellGrid(box=(0, 0, 1, 1), columns=columns, rows=rows, planar=True))
    cells = columns * rows
    return (
        chance.uniform(low, high, (cells, 8, 8)) * inside[:, None, :],
        chance.uniform(low, high, (cells, 8)) * inside,
    )


def all_walks(probabilities, first_probabilities, columns, begin, end, moves):
    """{cells: weight} of every walk, one move after the other."""
    found = {(begin,): (1.0, -1)}
    for _ in range(moves):
        longer = {}
        for path, (weight, into) in found.items():
            for out, (dx, dy) in enumerate(STEPS):
                row = first_probabilities[path[-1]] if into < 0 else probabilities[path[-1], into]
                if row[out] > 0:
                    longer[(*path, path[-1] + dy * columns + dx)] = weight * row[out], out
        found = longer
    return {path: weight for path, (weight, _) in found.items() if path[-1] == end}


def p_value(expected, drawn):
    """Chi-square over walks [trips, moves + 1]; rare ones together."""
    paths = sorted(expected, key=expected.get, reverse=True)
    number = 9 ** np.arange(drawn.shape[1])
    place = {int(np.array(path) @ number): i for i, path in enumerate(paths)}
    keys, times = np.unique(drawn @ number, return_counts=True)
    seen = np.zeros(len(paths), np.int64)
    seen[[place[key] for key in keys.tolist()]] = times
    mean = np.array([expected[path] for path in paths])
    mean *= drawn.shape[0] / mean.sum()
    often = max(int((mean >= 8).sum()), 1)
    cuts = [*range(often), often] if often < len(paths) else [*range(often)]
    seen, mean = np.add.reduceat(seen, cuts), np.add.reduceat(mean, cuts)
    return stats.chisquare(seen, mean).pvalue if len(cuts) > 1 else 1.0


@for_each(("begin", "end", "moves"), [(0, 8, 2), (4, 4, 2), (0, 0, 3), (3, 5, 4), (8, 1, 5), (2, 2, 6)])
def test_walks_come_in_proportion_to_their_product_of_weights(begin, end, moves):
    count = 200_000
    probabilities, first_probabilities = weights(3, 3, seed=moves)
    ends = np.full(count, end)
    _, cells = walk(
        probabilities, first_probabilities, 3, np.full(count, begin), ends, np.full(count, moves), seed=5
    )
    expected = all_walks(probabilities, first_probabilities, 3, begin, end, moves)
    drawn = cells.reshape(count, moves + 1)
    assert len(expected) > 1 or moves == 2
    assert p_value(expected, drawn) > ALARM
    blind = all_walks(
        np.repeat(first_probabilities[:, None], 8, 1), first_probabilities, 3, begin, end, moves
    )
    assert len(expected) == 1 or p_value(blind, drawn) < ALARM  # without memory of the direction


def test_ends_that_few_trips_go_to_are_exact_too():
    """4000 islands of 3 x 3 cells in one long grid, a walk or two to an end of each."""
    islands, columns = 4000, 12_000
    one, one_first = weights(3, 3, seed=9)
    cell = np.arange(9) // 3 * columns + np.arange(9) % 3
    probabilities, first_probabilities = np.zeros((3 * columns, 8, 8)), np.zeros((3 * columns, 8))
    for island in range(islands):
        probabilities[cell + 3 * island], first_probabilities[cell + 3 * island] = one, one_first
    shift = np.repeat(3 * np.arange(islands), 2)
    begin, end = cell[1] + shift, cell[3] + shift
    _, cells = walk(probabilities, first_probabilities, columns, begin, end, np.full(end.size, 4), seed=3)
    home = 3 * (cells // columns) + cells % 3
    assert p_value(all_walks(one, one_first, 3, 1, 3, 4), home.reshape(-1, 5)) > ALARM


def check(columns, rows, begin, end, moves, first, cells):
    """The right number of moves, each to a cell that touches, from the start to the end."""
    assert np.array_equal(np.diff(first), moves + 1)
    assert np.array_equal(cells[first[:-1]], begin)
    assert np.array_equal(cells[first[1:] - 1], end)
    assert cells.min() >= 0
    assert cells.max() < columns * rows
    same_trip = np.ones(cells.size - 1, bool)
    same_trip[first[1:-1] - 1] = False
    assert (chebyshev(cells[:-1], cells[1:], columns)[same_trip] == 1).all()


@for_each("tiny", [1.0, 1e-6, 1e-30])
@for_each(("columns", "rows"), [(2, 2), (3, 3), (2, 40), (1, 30), (30, 1), (9, 7)])
def test_all_walks_arrive_and_none_leaves_the_grid(columns, rows, tiny):
    """Also where weights are so small that their products are beyond floats, and far beyond NEAR."""
    chance = np.random.default_rng(columns + rows)
    probabilities, first_probabilities = weights(columns, rows, seed=1)
    probabilities *= np.where(chance.random(probabilities.shape) < 0.6, tiny, 1.0)
    first_probabilities *= np.where(chance.random(first_probabilities.shape) < 0.6, tiny, 1.0)
    begin, end = chance.integers(0, columns * rows, (2, 400))
    more = chance.choice([0, 0, 1, 2, 3, NEAR, 90], 400)
    begin[:40] = end[:40]
    moves = possible_moves(begin, end, chebyshev(begin, end, columns) + more, columns, rows)
    first, cells = walk(probabilities, first_probabilities, columns, begin, end, moves, seed=2)
    check(columns, rows, begin, end, moves, first, cells)
    assert moves.max() >= 90
    assert (moves == 0).any()


def test_a_straight_way_of_just_the_distance():
    probabilities, first_probabilities = weights(50, 3, seed=4)
    first, cells = walk(
        probabilities, first_probabilities, 50, np.array([50]), np.array([99]), np.array([49]), seed=1
    )
    check(50, 3, np.array([50]), np.array([99]), np.array([49]), first, cells)
    assert (np.diff(cells % 50) == 1).all()


@for_each(("columns", "rows"), [(1, 1), (1, 2), (2, 1), (1, 4), (2, 2)])
def test_moves_are_raised_just_where_no_walk_has_so_many(columns, rows):
    probabilities, first_probabilities = weights(columns, rows, seed=1)
    for begin in range(columns * rows):
        for end in range(columns * rows):
            able = {
                m for m in range(7) if all_walks(probabilities, first_probabilities, columns, begin, end, m)
            }
            for wanted in range(4):
                found = possible_moves(*(np.array([n]) for n in (begin, end, wanted)), columns, rows)
                assert found == min((m for m in able if m >= wanted), default=max(able))


@pytest.mark.parametrize(("begin", "end", "moves"), [(0, 0, 1), (0, 8, 1)])
def test_impossible_walks_are_refused(begin, end, moves):
    with pytest.raises(ValueError, match="no walk"):
        walk(*weights(3, 3, seed=1), 3, np.array([begin]), np.array([end]), np.array([moves]), seed=1)


def test_threads_do_not_matter_the_seed_does_and_no_trips_are_no_walks(monkeypatch):
    chance = np.random.default_rng(8)
    tables = weights(9, 7, seed=8)
    begin, end = chance.integers(0, 63, (2, 3000))
    moves = possible_moves(begin, end, chebyshev(begin, end, 9) + chance.integers(0, 20, 3000), 9, 7)
    found = []
    for cores, seed in ((1, 1), (2, 1), (5, 1), (1, 2)):
        monkeypatch.setattr(bridge_walk.os, "cpu_count", lambda cores=cores: cores)
        found.append(walk(*tables, 9, begin, end, moves, seed=seed)[1])
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert (found[0] != found[3]).mean() > 0.3
    none = np.empty(0, np.int64)
    first, cells = walk(*weights(3, 3, seed=1), 3, none, none, none, seed=1)
    assert (first.tolist(), cells.size) == ([0], 0)


WIDE, HIGH = 4, 3
WAYS = [(1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)]


def noisy(norm, each_trip):
    """All that counting asks for."""
    grid = SimpleNamespace(columns=WIDE)
    return SimpleNamespace(norm=norm, setting=SimpleNamespace(grid=grid, each_trip=each_trip))


def random_trips(seed, count):
    """Walks that come back to where they were, also of one cell."""
    chance = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y, trip = int(chance.integers(WIDE)), int(chance.integers(HIGH)), []
        for _ in range(int(chance.integers(1, 20))):
            trip.append(y * WIDE + x)
            near = [(x + i, y + j) for i, j in WAYS[:5:2] if 0 <= x + i < WIDE and 0 <= y + j < HIGH]
            x, y = near[chance.integers(len(near))]
        trips.append(trip)
    return trips


def moves_of(trip):
    steps = itertools.pairwise(trip)
    return Counter((a, WAYS.index((b % WIDE - a % WIDE, b // WIDE - a // WIDE))) for a, b in steps)


@for_each(("norm", "each_trip"), [(1, True), (2, True), (1, False), (2, False)])
@for_each("seed", range(4))
def test_every_trip_has_its_norm(seed, norm, each_trip):
    trips = random_trips(seed, 60)
    expected = np.zeros((WIDE * HIGH, 8))
    for trip in trips:
        own = moves_of(trip)
        size = sum(times**norm for times in own.values()) ** (1 / norm) if each_trip else 1
        for place, times in own.items():
            expected[place] += times / size
    first = np.cumsum([0, *map(len, trips)])
    cells = np.concatenate(trips).astype(np.int32)
    found = counted_moves(first, cells, noisy(norm, each_trip), WIDE * HIGH)
    assert found == pytest.approx(expected)
    assert max(max(moves_of(trip).values(), default=0) for trip in trips) > 1  # some come again


def test_trips_that_do_not_move_count_nothing():
    still = np.array([3, 4, 3], np.int32)
    assert counted_moves(np.arange(4), still, noisy(1, True), 12).sum() == 0
    assert counted_moves(np.zeros(1, int), still[:0], noisy(2, True), 12).sum() == 0
