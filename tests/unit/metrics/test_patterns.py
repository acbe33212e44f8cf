"""Frequent patterns against counting in plain Python, and matches against all ways to pair points up."""

import math
from collections import Counter

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.metrics.patterns import dtw_f1, exact_f1, frechet_f1, top_patterns
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

GRID = CellGrid(box=(0.0, 0.0, 7.0, 5.0), columns=7, rows=5, planar=True)


def paths_of(*trips, grid=GRID):
    return CellPaths.of(grid, 60, [[(cell, i, 0) for i, cell in enumerate(trip)] for trip in trips])


def random_walks(seed, trips, grid=GRID, longest=9):
    """Neighbour to neighbour, now and then a jump."""
    generator = np.random.default_rng(seed)
    lists = []
    for _ in range(trips):
        x, y = int(generator.integers(grid.columns)), int(generator.integers(grid.rows))
        walk = [(x, y)]
        for _ in range(int(generator.integers(0, longest))):
            if generator.random() < 0.05:
                step = (int(generator.integers(grid.columns)), int(generator.integers(grid.rows)))
            else:
                dx, dy = generator.integers(-1, 2, 2)
                step = (
                    min(max(walk[-1][0] + int(dx), 0), grid.columns - 1),
                    min(max(walk[-1][1] + int(dy), 0), grid.rows - 1),
                )
            if step != walk[-1]:
                walk.append(step)
        lists.append([column + row * grid.columns for column, row in walk])
    return lists


def counted(trips, shortest, longest, count):
    tally = Counter(
        tuple(trip[i : i + length])
        for trip in trips
        for length in range(shortest, longest + 1)
        for i in range(len(trip) - length + 1)
    )
    return sorted(tally.items(), key=lambda item: (-item[1], len(item[0]), item[0]))[:count]


@for_each(("shortest", "longest"), [(2, 5), (3, 5), (2, 2), (4, 6)])
@for_each("count", [1, 10, 60, 100_000])
def test_top_patterns_against_counting(shortest, longest, count):
    for seed in range(4):
        trips = random_walks(seed, 150)
        expected = counted(trips, shortest, longest, count)
        assert top_patterns(paths_of(*trips), shortest, longest, count) == expected


def test_patterns_end_with_their_trip_also_on_the_largest_grid():
    assert top_patterns(paths_of([0, 1], [2, 3])) == [((0, 1), 1), ((2, 3), 1)]
    assert top_patterns(paths_of()) == []
    assert top_patterns(paths_of([3], [4])) == []
    assert top_patterns(paths_of([3, 4]), 3, 5) == []
    grid = CellGrid(box=(0.0, 0.0, 1.0, 1.0), columns=4096, rows=4096, planar=True)
    corner = grid.count - 1
    trips = [[corner, corner - 1, corner, corner - 4096, corner - 4097], [corner - 1, corner, corner - 4096]]
    assert top_patterns(paths_of(*trips, grid=grid), 2, 5, 50) == counted(trips, 2, 5, 50)


@pytest.mark.parametrize("bad", [(1, 5, 10), (3, 2, 10), (2, 5, 0)])
def test_bad_ranges_are_refused(bad):
    with pytest.raises(PlanError, match="shortest"):
        top_patterns(paths_of([0, 1]), *bad)


def test_exact_and_near_matches_by_hand():
    real, synthetic = [(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (1, 2), (9, 8)]
    assert exact_f1(real, synthetic) == pytest.approx(2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3))
    assert exact_f1(real, real) == 1
    assert exact_f1(real, [(8, 9)]) == 0
    assert (exact_f1(real, []), exact_f1([], real), exact_f1([], [])) == (0, 0, 1)
    row = [(0, 1, 2)]
    assert frechet_f1(row, [(7, 8, 9)], GRID) == 1  # one row north
    assert frechet_f1(row, [(14, 15, 16)], GRID) == dtw_f1(row, [(14, 15, 16)], GRID) == 0  # two rows north
    one_off = [(7, 15, 9)]  # the middle one is two rows north of every cell it can pair with
    assert (frechet_f1(row, one_off, GRID), dtw_f1(row, one_off, GRID)) == (0, 1)
    beside = [(2, 10, 18)]  # near only if both go on at once
    assert frechet_f1([(8, 16, 24)], beside, GRID) == 1
    assert frechet_f1([(0, 1)], [(0, 8, 1, 2)], GRID) == 1  # a point pairs with several
    assert frechet_f1(row, [], GRID) == dtw_f1([], row, GRID) == 0
    assert frechet_f1([], [], GRID) == dtw_f1([], [], GRID) == 1


def all_pairings(n, m):
    """Every walk from (0, 0) to (n - 1, m - 1) that goes on in one list or in both."""
    ways = [[(0, 0)]]
    while ways:
        way = ways.pop()
        i, j = way[-1]
        if (i, j) == (n - 1, m - 1):
            yield way
        for a, b in ((i + 1, j), (i, j + 1), (i + 1, j + 1)):
            if a < n and b < m:
                ways.append([*way, (a, b)])


def matches(one, other, kind):
    def place(cell):
        return cell % GRID.columns, cell // GRID.columns

    def cost(a, b):
        (x, y), (other_x, other_y) = place(a), place(b)
        near = max(abs(x - other_x), abs(y - other_y)) <= 1
        return 0.0 if near else math.dist((x, y), (other_x, other_y))

    costs = [[cost(one[i], other[j]) for i, j in pairing] for pairing in all_pairings(len(one), len(other))]
    if kind == "frechet":
        return min(max(each) for each in costs) == 0
    return min(sum(each) for each in costs) < max(len(one), len(other))


@pytest.mark.parametrize(("kind", "function"), [("frechet", frechet_f1), ("dtw", dtw_f1)])
def test_near_matches_against_all_pairings(kind, function):
    values = set()
    for seed in range(12):
        real = [cells for cells, _ in counted(random_walks(seed, 6), 2, 5, 8)]
        synthetic = [cells for cells, _ in counted(random_walks(seed + 100, 6), 3, 5, 6)]
        recall = np.mean([any(matches(a, b, kind) for b in synthetic) for a in real])
        precision = np.mean([any(matches(a, b, kind) for a in real) for b in synthetic])
        expected = 2 * recall * precision / (recall + precision) if recall + precision else 0.0
        assert function(real, synthetic, GRID) == pytest.approx(expected)
        values.add(round(expected, 6))
    assert len(values) > 3  # neither all nor none match
