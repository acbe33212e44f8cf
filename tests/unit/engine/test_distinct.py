"""Distinct counts of rectangles against brute force over sets of cells."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.engine.trip_queries import distinct_counts
from shoal.errors import PlanError
from shoal.space.rectangles import Rectangles, random_rectangles


def every_rectangle(columns, rows):
    return [
        (x0, x1, y0, y1)
        for x0 in range(columns)
        for x1 in range(x0 + 1, columns + 1)
        for y0 in range(rows)
        for y1 in range(y0 + 1, rows + 1)
    ]


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


def test_a_larger_world_in_threads(trips_of, random_paths):
    generator = np.random.default_rng(31)
    paths = random_paths(generator, 16, 12, 1200)
    trips = trips_of(16, 12, paths)
    rectangles = random_rectangles(trips.grid, 200, 4)
    rows = list(zip(*(side.tolist() for side in vars(rectangles).values()), strict=True))
    assert distinct_counts(trips, rectangles).tolist() == by_hand(paths, rows)


def test_nothing_to_count(trips_of):
    assert distinct_counts(trips_of(3, 3, []), Rectangles.of([(0, 3, 0, 3)])).tolist() == [0]
    assert distinct_counts(trips_of(3, 3, [[(0, 0)]]), Rectangles.of([])).size == 0


@pytest.mark.parametrize("rectangle", [(0, 4, 0, 1), (1, 1, 0, 1), (-1, 1, 0, 1), (0, 1, 2, 4)])
def test_rectangles_off_the_grid_are_refused(trips_of, rectangle):
    with pytest.raises(PlanError, match="rectangle-range"):
        distinct_counts(trips_of(3, 3, [[(0, 0)]]), Rectangles.of([rectangle]))
