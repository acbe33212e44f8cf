"""What a histogram mechanism may know: bounds that make sense, rectangles on the grid."""

from __future__ import annotations

import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.cells import CellGrid
from shoal.space.rectangles import Rectangles
from shoal.space.trip_setting import TripSetting

GRID = CellGrid(box=(0.0, 0.0, 8.0, 4.0), columns=8, rows=4, planar=True)
GIVEN = Rectangles.of([(0, 8, 0, 4)])


def setting(**more):
    return TripSetting(**{"grid": GRID, "given": GIVEN, **more})


def test_defaults():
    plain = setting()
    assert (plain.per_unit, plain.cap, plain.trips) == (1, None, None)
    assert plain.expected_cells == 3.0  # a quarter of 8 + 4
    assert setting(mean_cells=40.0).expected_cells == 40.0


@for_each(
    ("wrong", "code"),
    [
        ({"per_unit": 0}, "trip-bound"),
        ({"per_unit": 5, "cap": 4}, "trip-bound"),
        ({"trips": 0}, "trip-bound"),
        ({"trips": -3}, "trip-bound"),
        ({"given": Rectangles.of([(0, 9, 0, 4)])}, "rectangle-range"),
        ({"given": Rectangles.of([(0, 8, 3, 3)])}, "rectangle-range"),
    ],
)
def test_settings_that_make_no_sense(wrong, code):
    with pytest.raises(PlanError, match=code):
        setting(**wrong)


def test_bounds_may_be_equal():
    assert setting(per_unit=5, cap=5, trips=1).cap == 5
