"""Figures of a histogram against sums written out by hand and by loops."""

import math

import numpy as np
import pytest

from shoal.errors import PlanError
from shoal.metrics.histogram import FLOOR, error_by_size, kld, mean_absolute_error, violated_share
from shoal.space.cells import CellGrid, Euler, Rectangles, random_rectangles

GRID = CellGrid(box=(0.0, 0.0, 10.0, 10.0), columns=10, rows=10, planar=True)


def test_mean_absolute_error_and_kld_by_hand():
    assert mean_absolute_error(np.array([1.0, 5.0]), np.array([2, 2])) == 2.0
    assert math.isnan(mean_absolute_error(np.empty(0), np.empty(0)))
    with pytest.raises(PlanError, match="one shape"):
        mean_absolute_error(np.zeros(2), np.zeros(3))
    exact = np.array([[3.0, 0.0], [1.0, 2.0]])
    estimated = np.array([[2.0, 9.0], [1.5, 0.0]])
    by_hand = (3 * math.log(3 / 2) + 1 * math.log(1 / 1.5) + 2 * math.log(2 / FLOOR)) / 4
    assert kld(exact, estimated, trips=4) == pytest.approx(by_hand)
    assert kld(exact, exact, trips=4) == 0
    assert math.isnan(kld(exact, estimated, trips=0))


def test_violated_share_against_a_loop():
    generator = np.random.default_rng(3)
    rows, columns = 4, 5
    faces = generator.integers(-1, 6, (rows, columns))
    east = generator.integers(-1, 6, (rows, columns - 1))
    north = generator.integers(-1, 6, (rows - 1, columns))
    checks = [value >= 0 for value in [*faces.flat, *east.flat, *north.flat]]
    checks += [east[r, c] <= faces[r, c + d] for r in range(rows) for c in range(columns - 1) for d in (0, 1)]
    checks += [
        north[r, c] <= faces[r + d, c] for r in range(rows - 1) for c in range(columns) for d in (0, 1)
    ]
    broken = sum(not check for check in checks) / len(checks)
    assert 0 < broken < 1
    assert violated_share(Euler(faces=faces, east=east, north=north)) == pytest.approx(broken)
    assert violated_share(Euler(faces=np.ones((2, 2)))) == 0


def test_error_by_size_puts_every_rectangle_in_one_bin():
    rectangles = random_rectangles(GRID, 300, seed=4)
    exact = np.arange(300.0)
    estimated = exact + rectangles.areas  # the error is the area, so each bin shows its own
    table = error_by_size(rectangles, GRID, estimated, exact, bins=(0.0, 0.1, 0.5, 1.0))
    assert sum(row.rectangles for row in table) == 300
    for row in table:
        assert 100 * row.low < row.mean_absolute_error <= 100 * row.high
    whole = Rectangles.of([(0, 10, 0, 10)])
    table = error_by_size(whole, GRID, np.array([3.0]), np.array([1.0]))
    assert [row.rectangles for row in table] == [0, 0, 0, 0, 0, 0, 1]
    assert table[-1].mean_absolute_error == 2
    assert math.isnan(table[0].mean_absolute_error)
