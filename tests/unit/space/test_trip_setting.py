"""What a histogram mechanism may know: bounds that make sense, rectangles on the grid, bins of summaries."""

import itertools

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.cells import CellGrid, Rectangles
from shoal.space.trip_setting import TripBins, TripSetting

GRID = CellGrid(box=(0.0, 0.0, 8.0, 4.0), columns=8, rows=4, planar=True)
GIVEN = Rectangles.of([(0, 8, 0, 4)])


def setting(**more):
    return TripSetting(**{"grid": GRID, "given": GIVEN, **more})


def test_defaults_and_bounds_that_are_equal():
    plain = setting()
    assert (plain.per_unit, plain.cap, plain.trips) == (1, None, None)
    assert plain.expected_cells == 3.0  # a quarter of 8 + 4
    assert setting(mean_cells=40.0).expected_cells == 40.0
    assert setting(per_unit=5, cap=5, trips=1).cap == 5


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


X, Y = np.array([2.0, 5.0]), np.array([3.0])


def bins(kind, shapes=1):
    return TripBins(kind=kind, x_cuts=X, y_cuts=Y, shapes=shapes)


def column(x):
    return sum(x + 0.5 >= cut for cut in X)


def row(y):
    return sum(y + 0.5 >= cut for cut in Y)


def everything(side=7):
    spans = [(a, b) for a in range(side) for b in range(a, side)]
    rows = [(*x, *y, s) for x, y in itertools.product(spans, spans) for s in (0, 5, 6, 11)]
    return np.array(rows).T


@for_each("shapes", [1, 2, 12])
@for_each("kind", ["box", "x", "y", "centre", "size"])
def test_bins_are_a_partition_by_the_named_coordinates(kind, shapes):
    x0, x1, y0, y1, shape = everything()
    made = bins(kind, shapes)
    index = made.index(x0, x1, y0, y1, shape)
    assert index.min() >= 0
    assert index.max() < made.count
    keys = {
        "box": lambda a, b, c, d: (column(a), column(b), row(c), row(d)),
        "x": lambda a, b, c, d: (column(a), column(b)),
        "y": lambda a, b, c, d: (row(c), row(d)),
        "centre": lambda a, b, c, d: (column((a + b) / 2), row((c + d) / 2)),
        "size": lambda a, b, c, d: column(b - a + d - c),
    }
    seen = {}
    for at, (a, b, c, d, s) in zip(index, zip(x0, x1, y0, y1, shape, strict=True), strict=True):
        key = (keys[kind](a, b, c, d), s // (12 // shapes))
        assert seen.setdefault(at, key) == key  # one key per bin
    assert len(set(seen.values())) == len(seen)  # one bin per key
