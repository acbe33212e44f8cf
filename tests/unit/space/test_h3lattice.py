"""Rectangles of lattice cells around H3 hexagons."""

from datetime import UTC, datetime

import h3
import numpy as np
import pytest

from shoal.errors import PlanError
from shoal.space.lattice import Lattice
from shoal_baselines.anonymise.coarse import hexagon_boxes

LATTICE = Lattice(start=datetime(2026, 1, 1, tzinfo=UTC), steps=10, origin=(2.0, 48.6))


@pytest.mark.parametrize("resolution", [5, 7, 9])
def test_rectangles_are_the_bounds_of_the_hexagon(resolution):
    rng = np.random.default_rng(resolution)
    x, y = rng.integers(-50, 400, (2, 60))
    x0, x1, y0, y1 = hexagon_boxes(LATTICE, x, y, resolution)
    assert ((x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1)).all()
    by_x, by_y = LATTICE.metres_per_unit
    for row in range(60):
        lon, lat = 2.0 + (x[row] + 0.5) * 100 / by_x, 48.6 + (y[row] + 0.5) * 100 / by_y
        ring = np.array(h3.cell_to_boundary(h3.latlng_to_cell(lat, lon, resolution)))
        bounds = [(ring[:, 1] - 2.0) * by_x / 100, (ring[:, 0] - 48.6) * by_y / 100]
        expected = [np.floor(edge(b)) for b in bounds for edge in (np.min, np.max)]
        assert [x0[row], x1[row], y0[row], y1[row]] == expected


def test_a_meridian_does_not_stretch_a_hexagon():
    lattice = Lattice(start=LATTICE.start, steps=10, origin=(179.9, 0.0))
    x0, x1, _, _ = hexagon_boxes(lattice, np.array([110]), np.array([10]), 7)
    assert x1[0] - x0[0] < 40


def test_what_cannot_be():
    cell = np.array([1])
    planar = Lattice(start=LATTICE.start, steps=10, origin=(0.0, 0.0), planar=True)
    with pytest.raises(PlanError, match="h3-planar"):
        hexagon_boxes(planar, cell, cell, 7)
    with pytest.raises(PlanError, match="h3-resolution"):
        hexagon_boxes(LATTICE, cell, cell, 16)
