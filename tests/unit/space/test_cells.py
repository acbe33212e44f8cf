"""The public grid of cells: where points lie, what a cell measures, which boxes are refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from pyproj import Geod
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.cells import MOST_SIDE, STEPS, CellGrid

SF = (-122.52, 37.70, -122.36, 37.83)


def test_points_lie_where_fractions_say():
    grid = CellGrid(box=(0.0, -1.0, 4.0, 1.0), columns=32, rows=16, planar=True)  # exact in binary
    generator = np.random.default_rng(51)
    x, y = generator.uniform(-0.2, 4.2, 500), generator.uniform(-1.2, 1.2, 500)
    u, v, inside = grid.place(x, y)
    for i in range(500):
        assert inside[i] == (0 <= x[i] <= 4 and -1 <= y[i] <= 1)
        if inside[i]:
            assert u[i] == Fraction(float(x[i])) * 32 * STEPS // 4
            assert v[i] == (Fraction(float(y[i])) + 1) * 16 * STEPS // 2
    assert not u[~inside].any()
    assert not v[~inside].any()


def test_borders_belong_to_the_cell_east_and_north_and_the_outermost_to_the_last():
    grid = CellGrid(box=(0.0, 0.0, 4.0, 2.0), columns=4, rows=2, planar=True)
    u, v, inside = grid.place(np.array([0.0, 1.0, 4.0, 3.0]), np.array([0.0, 1.0, 2.0, 2.0]))
    assert inside.all()
    assert (u // STEPS).tolist() == [0, 1, 3, 3]
    assert (v // STEPS).tolist() == [0, 1, 1, 1]


def test_what_is_no_number_is_outside():
    grid = CellGrid(box=SF, columns=8, rows=8)
    bad = np.array([np.nan, np.inf, -np.inf, -122.4])
    _, _, inside = grid.place(bad, np.array([37.75, 37.75, 37.75, np.nan]))
    assert not inside.any()


def test_corners_are_inverse_to_placing():
    grid = CellGrid(box=SF, columns=256, rows=100)
    column, row = np.arange(0, 256, 5), np.arange(0, 100, 2)[:1].repeat(52)
    x, y = grid.corner(column, row)
    width, height = grid.cell_size
    u, v, inside = grid.place(x + width / 2, y + height / 2)
    assert inside.all()
    assert (u // STEPS).tolist() == column.tolist()
    assert (v // STEPS).tolist() == row.tolist()
    assert np.allclose(grid.corner(np.array([256]), np.array([100])), [[-122.36], [37.83]])


@pytest.mark.parametrize("box", [SF, (-8.70, 41.10, -8.52, 41.25), (24.0, 60.0, 24.5, 60.3)])
def test_metres_are_those_of_the_ellipsoid_within_one_percent(box):
    grid = CellGrid(box=box, columns=10, rows=10)
    west, south, east, north = box
    middle = (south + north) / 2
    geod = Geod(ellps="WGS84")
    across = geod.inv(west, middle, east, middle)[2] / 10
    along = geod.inv(west, south, west, north)[2] / 10
    assert grid.cell_m == pytest.approx((across, along), rel=0.01)


def test_planar_cells_are_in_metres_as_they_are():
    assert CellGrid(box=(0.0, 0.0, 1000.0, 300.0), columns=10, rows=10, planar=True).cell_m == (100.0, 30.0)


def test_it_describes_itself():
    grid = CellGrid(box=SF, columns=4, rows=3)
    assert grid.count == 12
    assert grid.describe() == {"box": list(SF), "columns": 4, "rows": 3, "planar": False}
    assert CellGrid(**{**grid.describe(), "box": tuple(grid.describe()["box"])}) == grid


@for_each(
    ("change", "code"),
    [
        ({"columns": 0}, "grid-size"),
        ({"rows": MOST_SIDE + 1}, "grid-size"),
        ({"box": (0.0, 0.0, 1.0)}, "box-range"),
        ({"box": (0.0, 0.0, float("nan"), 1.0)}, "box-range"),
        ({"box": (0.0, 0.0, float("inf"), 1.0), "planar": True}, "box-range"),
        ({"box": (0.0, 1.0, 1.0, 0.0)}, "box-range"),
        ({"box": (1.0, 0.0, 1.0, 1.0)}, "box-range"),
        ({"box": (1.0, 0.0, 0.0, 1.0), "planar": True}, "box-range"),
        ({"box": (0.0, 0.0, 1.0, 91.0)}, "box-range"),
        ({"box": (170.0, 0.0, 190.0, 1.0)}, "box-range"),
        ({"box": (170.0, 0.0, -170.0, 1.0)}, "box-antimeridian"),
    ],
)
def test_grids_that_cannot_be(change, code):
    with pytest.raises(PlanError, match=code):
        CellGrid(**{"box": SF, "columns": 4, "rows": 4, **change})


def test_the_largest_grid_and_a_single_cell():
    assert CellGrid(box=SF, columns=MOST_SIDE, rows=MOST_SIDE).count == 2**24
    u, v, inside = CellGrid(box=SF, columns=1, rows=1).place(np.array([-122.4]), np.array([37.8]))
    assert (u[0] // STEPS, v[0] // STEPS, inside[0]) == (0, 0, True)
