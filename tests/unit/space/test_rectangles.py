"""Rectangles of cells: areas, checks, and random ones that are uniform over pairs of borders."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.cells import CellGrid
from shoal.space.rectangles import Rectangles, random_rectangles

GRID = CellGrid(box=(0.0, 0.0, 5.0, 3.0), columns=5, rows=3, planar=True)


def rows_of(rectangles):
    sides = rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1
    return list(zip(*(side.tolist() for side in sides), strict=True))


def test_from_rows_and_back():
    rows = [(0, 5, 0, 3), (1, 2, 1, 3)]
    some = Rectangles.of(rows)
    assert rows_of(some) == rows
    assert (some.count, some.areas.tolist(), some.areas.dtype) == (2, [15, 2], np.int64)
    assert rows_of(some.take(np.array([1, 1]))) == [rows[1], rows[1]]
    assert Rectangles.of([]).count == 0
    assert Rectangles.of([]).areas.size == 0


def test_areas_do_not_overflow():
    assert Rectangles.of([(0, 2**17, 0, 2**17)]).areas.tolist() == [2**34]


@for_each(
    "row",
    [(0, 6, 0, 1), (0, 1, 0, 4), (-1, 1, 0, 1), (0, 1, -1, 1), (2, 2, 0, 1), (0, 1, 2, 1), (3, 2, 0, 1)],
)
def test_empty_or_off_the_grid(row):
    with pytest.raises(PlanError, match="rectangle-range"):
        Rectangles.of([(0, 1, 0, 1), row]).check(GRID)


def test_all_on_the_grid_are_good():
    Rectangles.of([(0, 5, 0, 3), (4, 5, 2, 3), (0, 1, 0, 1)]).check(GRID)
    Rectangles.of([]).check(GRID)


def test_random_ones_are_uniform_over_pairs_of_borders():
    """15 pairs of columns times 6 of rows, as likely each: chi-square at the 99.9 % point."""
    drawn = random_rectangles(GRID, 45_000, seed=3)
    drawn.check(GRID)
    counts = {}
    for row in rows_of(drawn):
        counts[row] = counts.get(row, 0) + 1
    assert len(counts) == 90
    distance = sum((count - 500) ** 2 / 500 for count in counts.values())
    assert chi2.ppf(0.001, 89) < distance < chi2.ppf(0.999, 89)


def test_one_seed_one_set():
    one, same, other = (random_rectangles(GRID, 50, seed) for seed in (7, 7, 8))
    assert rows_of(one) == rows_of(same) != rows_of(other)
    assert one.x0.dtype == np.int32


def test_a_single_cell_has_one_rectangle():
    single = CellGrid(box=(0.0, 0.0, 1.0, 1.0), columns=1, rows=1, planar=True)
    assert set(rows_of(random_rectangles(single, 20, 1))) == {(0, 1, 0, 1)}


def test_none_asked_for():
    assert random_rectangles(GRID, 0, 1).count == 0
