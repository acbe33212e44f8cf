"""The query interface to bounded trips: sums, distinct counts by brute force, summaries by words.

The exact Euler histogram and shared faces against plain sets of cells and pairs of cells.
"""

import os
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from tests.unit.engine.conftest import every_rectangle

from shoal.engine import trip_queries
from shoal.engine.trip_queries import (
    CUTS,
    SHAPES,
    TripQueries,
    distinct_counts,
    exact_euler,
    shared_faces,
    sum_parts,
    summaries,
)
from shoal.errors import GuaranteeError, PlanError
from shoal.space.cells import Rectangles, random_rectangles

PATHS = [[(0, 0), (1, 0)], [(2, 2)], [(0, 1), (0, 2), (1, 2)]]


@dataclass
class LeftColumn:
    """Bins by the first column; `shift` and `short` plant mistakes."""

    count: int = 3
    shift: int = 0
    short: int = 0

    def index(self, x0, x1, y0, y1, shape):
        return (x0 + self.shift)[self.short :]


@pytest.fixture
def queries(trips_of):
    return TripQueries(replace(trips_of(3, 3, PATHS), per_unit=2, all_trips=9, cap=5))


def test_what_it_tells(queries):
    assert (queries.count(), queries.all_trips(), queries.per_unit, queries.cap) == (3, 9, 2, 5)
    assert (queries.grid.columns, queries.grid.rows) == (3, 3)
    assert queries.distinct(Rectangles.of([(0, 1, 0, 3), (1, 3, 1, 3), (2, 3, 0, 1)])).tolist() == [2, 2, 0]
    assert queries.shared_faces(6).tolist() == [[3, 3, 0], [2, 0, 0], [2, 2, 6]]
    assert queries.binned(LeftColumn()).tolist() == [2, 0, 1]
    assert queries.binned(LeftColumn(count=5)).tolist() == [2, 0, 1, 0, 0]


def test_counts_are_made_once_and_keep_their_answers_to_themselves(queries, monkeypatch):
    """An object made where another was may have its id."""
    expected = {0: 2, 1: 2, 2: 1}
    for i in range(300):
        x = i % 3
        assert queries.distinct(Rectangles.of([(x, x + 1, 0, 3)])).tolist() == [expected[x]]
    calls = []
    count = trip_queries.distinct_counts
    monkeypatch.setattr(trip_queries, "distinct_counts", lambda *given: calls.append(1) or count(*given))
    asked = Rectangles.of([(0, 3, 0, 3)])
    queries.distinct(asked)[0] = 99
    assert queries.distinct(asked).tolist() == [3]
    assert len(calls) == 1


@pytest.mark.parametrize("wrong", [{"shift": 1}, {"shift": -1}, {"short": 1}, {"count": 2}])
def test_a_trip_in_no_bin_is_refused(queries, wrong):
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        queries.binned(LeftColumn(**wrong))


def test_no_trips_give_zeros(trips_of):
    queries = TripQueries(trips_of(2, 2, []))
    assert queries.count() == 0
    assert queries.binned(LeftColumn(count=4)).tolist() == [0, 0, 0, 0]
    assert queries.distinct(Rectangles.of([(0, 2, 0, 2)])).tolist() == [0]
    assert not queries.shared_faces(3).any()
    assert [part.size for part in summaries(trips_of(3, 3, []))] == [0] * 5
    found = exact_euler(trips_of(3, 2, []), blocks=True)
    assert not found.faces.any()
    assert found.blocks.shape == (1, 2)
    assert not shared_faces(trips_of(3, 2, []), 5).any()


def test_paths_are_not_shown_and_bins_cannot_change_them(queries):
    queries.distinct(Rectangles.of([(0, 3, 0, 3)]))
    assert repr(queries) == "TripQueries()"
    assert "array" not in repr(queries.trips)

    class Greedy(LeftColumn):
        def index(self, x0, x1, y0, y1, shape):
            x0[:] = 0
            return x0

    before = queries.binned(LeftColumn()).tolist()
    with pytest.raises(ValueError, match="read-only"):
        queries.binned(Greedy())
    assert queries.binned(LeftColumn()).tolist() == before == [2, 0, 1]


def by_hand(paths, rectangles):
    sets = [set(path) for path in paths]
    return [
        sum(any(x0 <= x < x1 and y0 <= y < y1 for x, y in cells) for cells in sets)
        for x0, x1, y0, y1 in rectangles
    ]


@pytest.mark.parametrize(("columns", "rows"), [(5, 5), (4, 7), (7, 3), (1, 6), (6, 1), (1, 1), (2, 2)])
def test_every_rectangle_of_small_worlds(trips_of, random_paths, columns, rows):
    rectangles = every_rectangle(columns, rows)
    for seed in range(12):
        paths = random_paths(np.random.default_rng(seed), columns, rows, 12)
        found = distinct_counts(trips_of(columns, rows, paths), Rectangles.of(rectangles))
        assert found.tolist() == by_hand(paths, rectangles)
        assert found.dtype == np.int64


# A long way round in an 8 x 8 world: the box is columns 1 to 6, rows 1 to 6; corners and middle are empty.
ROUND = [
    *[(x, 2) for x in range(1, 5)],
    *[(4, 1), (5, 1), (5, 2), (5, 3), (6, 3), (6, 4)],
    *[(5, 4), (5, 5), (4, 5), (4, 6), (3, 6), (3, 5), (2, 5), (2, 4), (1, 4)],
]


@pytest.mark.parametrize(
    ("rectangle", "crossed"),
    [
        ((0, 8, 0, 8), True),  # all
        ((0, 1, 0, 8), False),  # apart, each side
        ((7, 8, 0, 8), False),
        ((0, 8, 0, 1), False),
        ((0, 8, 7, 8), False),
        ((3, 4, 0, 8), True),  # spans the box upwards
        ((0, 8, 3, 4), True),  # spans it across
        ((0, 3, 0, 2), False),  # its south-west corner, not reached
        ((0, 3, 0, 3), True),
        ((0, 2, 5, 8), False),  # north-west
        ((0, 3, 5, 8), True),
        ((6, 8, 0, 3), False),  # south-east
        ((5, 8, 0, 2), True),
        ((6, 8, 5, 8), False),  # north-east
        ((5, 8, 5, 8), True),
        ((0, 2, 3, 4), False),  # into a side: west, east, south, north
        ((0, 2, 2, 4), True),
        ((6, 8, 2, 3), False),
        ((6, 8, 4, 5), True),
        ((2, 4, 0, 2), False),
        ((3, 5, 0, 2), True),
        ((5, 6, 6, 8), False),
        ((2, 5, 6, 8), True),
        ((2, 4, 3, 4), False),  # inside the box, in the hole; then with a cell
        ((3, 5, 3, 5), False),
        ((3, 5, 3, 6), True),
    ],
)
def test_rectangles_of_every_kind(trips_of, rectangle, crossed):
    found = distinct_counts(trips_of(8, 8, [ROUND]), Rectangles.of([rectangle]))
    assert found.tolist() == [int(crossed)]
    assert by_hand([ROUND], [rectangle]) == [int(crossed)]


def test_larger_worlds_in_threads_and_nothing_to_count(trips_of, random_paths):
    generator = np.random.default_rng(31)
    paths = random_paths(generator, 16, 12, 1200)
    trips = trips_of(16, 12, paths)
    rectangles = random_rectangles(trips.grid, 200, 4)
    rows = list(zip(*(side.tolist() for side in vars(rectangles).values()), strict=True))
    assert distinct_counts(trips, rectangles).tolist() == by_hand(paths, rows)
    assert distinct_counts(trips_of(3, 3, []), Rectangles.of([(0, 3, 0, 3)])).tolist() == [0]
    assert distinct_counts(trips_of(3, 3, [[(0, 0)]]), Rectangles.of([])).size == 0


@pytest.mark.parametrize("rectangle", [(0, 4, 0, 1), (1, 1, 0, 1), (-1, 1, 0, 1), (0, 1, 2, 4)])
def test_rectangles_off_the_grid_are_refused(trips_of, rectangle):
    with pytest.raises(PlanError, match="rectangle-range"):
        distinct_counts(trips_of(3, 3, [[(0, 0)]]), Rectangles.of([rectangle]))


RISES, FALLS = 0, 6
NORTH_WEST, SOUTH_EAST = 0, 3  # where a rising path bulges to
SOUTH_WEST, NORTH_EAST = 0, 3  # a falling one
FLAT, CURVED, CORNER = 0, 1, 2


def staircase(n):
    """From one corner of an n x n box to the other, close to the diagonal."""
    return [cell for i in range(n - 1) for cell in ((i, i), (i + 1, i))] + [(n - 1, n - 1)]


def along(n):
    """East along the south side, then north along the east side."""
    return [(x, 0) for x in range(n)] + [(n - 1, y) for y in range(1, n)]


def turned(path, n, times):
    """A quarter turn to the left in an n x n box, several times."""
    for _ in range(times):
        path = [(n - 1 - y, x) for x, y in path]
    return path


def shape_of(trips_of, path, n=11):
    return int(summaries(trips_of(n, n, [path]))[4][0])


def test_boxes_are_those_of_the_cells(trips_of, random_paths):
    paths = random_paths(np.random.default_rng(41), 9, 7, 200)
    left, right, bottom, top, shape = summaries(trips_of(9, 7, paths))
    for i, path in enumerate(paths):
        xs, ys = zip(*path, strict=True)
        assert (left[i], right[i], bottom[i], top[i]) == (min(xs), max(xs), min(ys), max(ys))
    assert left.dtype == np.int32
    assert shape.dtype == np.int8
    assert 0 <= shape.min() <= shape.max() < SHAPES


@pytest.mark.parametrize(
    ("turns", "diagonal", "side"),
    [(0, RISES, SOUTH_EAST), (1, FALLS, NORTH_EAST), (2, RISES, NORTH_WEST), (3, FALLS, SOUTH_WEST)],
)
def test_a_way_round_a_corner(trips_of, turns, diagonal, side):
    path = turned(along(11), 11, turns)
    assert shape_of(trips_of, path) == diagonal + side + CORNER
    assert shape_of(trips_of, path[::-1]) == diagonal + side + CORNER


@pytest.mark.parametrize(("turns", "diagonal"), [(0, RISES), (1, FALLS), (2, RISES), (3, FALLS)])
def test_a_way_along_the_diagonal_hardly_bulges(trips_of, turns, diagonal):
    found = shape_of(trips_of, turned(staircase(11), 11, turns))
    assert found in (diagonal + FLAT, diagonal + 3 + FLAT)


def test_a_bulge_of_middle_size_and_shapes_of_one_cell_or_row(trips_of):
    """Round a corner that is cut off: the path reaches (0.8, 0.2) of the box."""
    path = [(x, 0) for x in range(7)] + [(x, y) for x in (6, 7, 8) for y in (x - 6, x - 5)]
    path += [(8, y) for y in range(4, 9)] + [(9, 8), (10, 8), (10, 9), (10, 10)]
    assert shape_of(trips_of, path) == RISES + SOUTH_EAST + CURVED
    left, right, bottom, top, shape = summaries(trips_of(5, 5, [[(2, 3)], [(0, 1), (1, 1), (2, 1)]]))
    assert list(zip(left, right, bottom, top, strict=True)) == [(2, 2, 3, 3), (0, 2, 1, 1)]
    assert ((shape >= 0) & (shape < SHAPES)).all()


def reach(path, corner):
    """How far a path goes into a corner of its box, by the definition."""
    xs, ys = np.array(path, float).T
    u = (xs - xs.min()) / max(np.ptp(xs), 1)
    v = (ys - ys.min()) / max(np.ptp(ys), 1)
    u, v = (u if corner[0] else 1 - u), (v if corner[1] else 1 - v)
    return np.minimum(u, v).max()


def test_shapes_follow_the_definition(trips_of, random_paths):
    paths = random_paths(np.random.default_rng(42), 12, 12, 300)
    shapes = summaries(trips_of(12, 12, paths))[4]
    seen = set()
    for path, shape in zip(paths, shapes.tolist(), strict=True):
        south_west, south_east, north_west, north_east = (
            reach(path, corner) for corner in ((0, 0), (1, 0), (0, 1), (1, 1))
        )
        falls = north_west + south_east > south_west + north_east
        one, other = (south_west, north_east) if falls else (north_west, south_east)
        degree = int(np.searchsorted(CUTS, max(one, other), "right"))
        assert shape == 6 * falls + 3 * (other > one) + degree, path
        seen.add(shape)
    assert seen == set(range(SHAPES))


EULER_SHAPES = [(5, 4), (1, 6), (6, 1), (1, 1), (2, 2), (2, 5), (3, 7)]
RING = [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (1, 2), (0, 2), (0, 1), (0, 0)]


def euler_by_hand(columns, rows, paths, crossed):
    """Faces, east edges, north edges, full blocks as dictionaries of counts from sets of each trip."""
    faces, east, north, blocks = (
        np.zeros(shape, int)
        for shape in ((rows, columns), (rows, columns - 1), (rows - 1, columns), (rows - 1, columns - 1))
    )
    for path in paths:
        cells = set(path)
        moves = {frozenset(step) for step in pairwise(path)}
        for x, y in cells:
            faces[y, x] += 1
            for edge, other in ((east, (x + 1, y)), (north, (x, y + 1))):
                pair = frozenset({(x, y), other})
                if pair in moves if crossed else other in cells:
                    edge[y, x] += 1
            if {(x + 1, y), (x, y + 1), (x + 1, y + 1)} <= cells:
                blocks[y, x] += 1
    return faces, east, north, blocks


@pytest.mark.parametrize(("columns", "rows"), EULER_SHAPES)
@pytest.mark.parametrize("blocks", [False, True])
def test_counts_are_those_of_sets(trips_of, random_paths, columns, rows, blocks):
    generator = np.random.default_rng(21)
    paths = random_paths(generator, columns, rows, 40)
    found = exact_euler(trips_of(columns, rows, paths), blocks=blocks)
    faces, east, north, full = euler_by_hand(columns, rows, paths, crossed=not blocks)
    assert found.faces.tolist() == faces.tolist()
    assert found.east.tolist() == east.tolist()
    assert found.north.tolist() == north.tolist()
    assert found.blocks.tolist() == full.tolist() if blocks else found.blocks is None


@pytest.mark.parametrize(("columns", "rows"), EULER_SHAPES)
@pytest.mark.parametrize("blocks", [False, True])
def test_answers_by_prefix_sums_are_direct_sums(trips_of, random_paths, columns, rows, blocks):
    found = exact_euler(
        trips_of(columns, rows, random_paths(np.random.default_rng(22), columns, rows, 30)), blocks=blocks
    )
    rectangles = every_rectangle(columns, rows)
    direct = []
    for x0, x1, y0, y1 in rectangles:
        total = found.faces[y0:y1, x0:x1].sum()
        total -= found.east[y0:y1, x0 : x1 - 1].sum() + found.north[y0 : y1 - 1, x0:x1].sum()
        direct.append(total + (found.blocks[y0 : y1 - 1, x0 : x1 - 1].sum() if blocks else 0))
    answers = found.answers(Rectangles.of(rectangles))
    assert answers.tolist() == direct
    assert answers.dtype == np.int64


def test_blocks_mend_circles_and_count_edges_along_which_nobody_went(trips_of):
    def answer(path, rectangle, blocks):
        return int(exact_euler(trips_of(4, 3, [path]), blocks=blocks).answers(Rectangles.of([rectangle]))[0])

    whole, below = (0, 4, 0, 3), (0, 4, 0, 1)
    straight = [(0, 0), (1, 0), (1, 1)]
    assert answer(straight, whole, False) == answer(straight, whole, True) == 1
    comes_back = [(0, 0), (0, 1), (1, 1), (2, 1), (2, 0)]
    assert answer(comes_back, below, False) == answer(comes_back, below, True) == 2
    circle = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    assert answer(circle, whole, False) == 0
    assert answer(circle, whole, True) == 1  # the 2 x 2 block mends it
    assert answer(RING, whole, False) == answer(RING, whole, True) == 0  # a hole in its middle
    assert answer([*RING, (1, 0), (1, 1)], whole, True) == 1  # the middle filled
    beside = [(0, 0), (1, 0), (1, 1), (0, 1)]
    trips = trips_of(2, 2, [beside])
    assert exact_euler(trips).north.tolist() == [[0, 1]]
    assert exact_euler(trips, blocks=True).north.tolist() == [[1, 1]]


@pytest.mark.parametrize("lattice", [1, 7, 1000])
def test_shared_faces_are_shares_rounded_down(trips_of, random_paths, lattice):
    paths = random_paths(np.random.default_rng(23), 5, 4, 60)
    expected = np.zeros((4, 5), int)
    for path in paths:
        for x, y in set(path):
            expected[y, x] += lattice // len(set(path))
    found = shared_faces(trips_of(5, 4, paths), lattice)
    assert found.tolist() == expected.tolist()
    for path in paths:  # the sensitivity that mechanisms are promised
        assert 0 <= shared_faces(trips_of(5, 4, [path]), lattice).sum() <= lattice


def test_threads_change_nothing(trips_of, random_paths):
    """So many trips that they are split: the sum over parts is the sum over all."""
    paths = random_paths(np.random.default_rng(24), 6, 5, 9000)
    trips = trips_of(6, 5, paths)
    parts = []
    whole = sum_parts(trips.count, lambda begin, end: parts.append((begin, end)) or np.array([end - begin]))
    assert whole.tolist() == [9000]
    assert len(parts) > 1 or os.cpu_count() == 1
    assert sorted(parts)[0][0] == 0
    assert all(a[1] == b[0] for a, b in pairwise(sorted(parts)))
    assert exact_euler(trips).faces.tolist() == euler_by_hand(6, 5, paths, True)[0].tolist()
    assert shared_faces(trips, 1).sum() == sum(len(set(path)) == 1 for path in paths)
