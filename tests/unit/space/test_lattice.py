"""The lattice of a trajectory release places points as its manifest says; rectangles around H3 cells."""

import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import h3
import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.lattice import MOST_CELLS, MOST_STEPS, Lattice
from shoal_baselines.anonymise.coarse import hexagon_boxes

START = datetime(2026, 3, 2, tzinfo=UTC)


def lattice(**changed):
    return Lattice(**{"start": START, "steps": 60, "origin": (2.3, 48.8), **changed})


def test_cells_are_floors_of_the_manifests_arithmetic():
    """Fractions of the floats themselves; points next to an edge by rounding are left out."""
    made = lattice()
    told = made.to_manifest()
    rng = np.random.default_rng(1)
    lon, lat = rng.uniform(2.0, 2.7, 500), rng.uniform(48.5, 49.1, 500)
    x, y = made.cell_of(lon, lat)
    assert x.dtype == y.dtype == np.int32
    for values, cells, axis in ((lon, x, 0), (lat, y, 1)):
        origin, scale = Fraction(told["origin"][axis]), Fraction(told["metres_per_unit"][axis])
        for value, cell in zip(values.tolist(), cells.tolist(), strict=True):
            exact = (Fraction(value) - origin) * scale / Fraction(told["metres"])
            if abs(exact - round(exact)) > Fraction(1, 10**6):
                assert cell == math.floor(exact)
    assert (x < 0).any()
    assert (x > 0).any()


def test_a_cell_holds_its_corner_and_what_lies_just_inside():
    made = lattice(planar=True, origin=(1000.0, -500.0), metres=50.0)
    x, y = made.cell_of(
        np.array([1000.0, 1049.99, 1050.0, 999.99]), np.array([-500.0, -500.1, -450.0, -501.0])
    )
    assert x.tolist() == [0, 0, 1, -1]
    assert y.tolist() == [0, -1, 1, -1]
    assert [column.tolist() for column in made.corner_of(np.array([1]), np.array([-1]))] == [
        [1050.0],
        [-550.0],
    ]
    assert made.to_manifest()["metres_per_unit"] == [1.0, 1.0]
    assert made.to_manifest()["coordinates"].startswith("planar")
    assert [cells.size for cells in made.cell_of(np.empty(0), np.empty(0))] == [0, 0]
    made = lattice(metres=80.0)
    x, y = np.meshgrid(np.arange(-20, 20), np.arange(-20, 20))
    lon, lat = made.corner_of(x.ravel() + 0.5, y.ravel() + 0.5)
    found = made.cell_of(lon, lat)
    np.testing.assert_array_equal(found[0], x.ravel())
    np.testing.assert_array_equal(found[1], y.ravel())


def test_metres_of_a_degree_are_those_of_the_earth():
    """Within 1 % of the ellipsoid's, by the usual series."""
    for latitude in (0.0, 5.1, 37.7, 48.8, 60.0, -35.0):
        by_lon, by_lat = lattice(origin=(0.0, latitude)).metres_per_unit
        phi = math.radians(latitude)
        series = 111_132.954 - 559.822 * math.cos(2 * phi) + 1.175 * math.cos(4 * phi)
        assert by_lat == pytest.approx(series, rel=0.01)
        across = 111_412.84 * math.cos(phi) - 93.5 * math.cos(3 * phi) + 0.118 * math.cos(5 * phi)
        assert by_lon == pytest.approx(across, rel=0.01)


@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_steps_begin_at_the_start_in_any_zone(minutes):
    east = START.astimezone(timezone(timedelta(hours=5, minutes=45)))
    made = lattice(start=east, minutes=minutes)
    begin = int(START.timestamp()) * 1_000_000
    length = minutes * 60_000_000
    at = np.array([begin, begin + length - 1, begin + length, begin - 1, begin + 60 * length])
    assert made.step_of(at).tolist() == [0, 0, 1, -1, 60]
    assert made.to_manifest()["start"] == "2026-03-02T00:00:00+00:00"


@for_each(
    ("changed", "code"),
    [
        ({"start": datetime(2026, 3, 2)}, "lattice-start"),
        ({"steps": 0}, "lattice-steps"),
        ({"steps": MOST_STEPS + 1}, "lattice-steps"),
        ({"minutes": 0}, "lattice-unit"),
        ({"metres": 0.0}, "lattice-unit"),
        ({"metres": -1.0}, "lattice-unit"),
        ({"metres": math.nan}, "lattice-unit"),
        ({"metres": math.inf}, "lattice-unit"),
        ({"origin": (math.nan, 1.0)}, "lattice-origin"),
        ({"origin": (181.0, 1.0)}, "lattice-origin"),
        ({"origin": (48.8, 81.0)}, "lattice-origin"),
        ({"origin": (math.inf, 0.0), "planar": True}, "lattice-origin"),
    ],
)
def test_what_makes_no_lattice(changed, code):
    with pytest.raises(PlanError, match=code):
        lattice(**changed)


@for_each("far", [MOST_CELLS * 100.0, -MOST_CELLS * 100.0, math.nan, math.inf, -math.inf])
def test_points_too_far_away_are_an_error_not_a_wrapped_number(far):
    made = lattice(planar=True, origin=(0.0, 0.0))
    near = np.array([5.0])
    made.cell_of(near, near)
    for first, second in ((np.array([far]), near), (near, np.array([far]))):
        with pytest.raises(PlanError, match="lattice-far"):
            made.cell_of(first, second)


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


def test_hexagons_across_the_antimeridian_planar_or_too_fine():
    lattice = Lattice(start=LATTICE.start, steps=10, origin=(179.9, 0.0))
    x0, x1, _, _ = hexagon_boxes(lattice, np.array([110]), np.array([10]), 7)
    assert x1[0] - x0[0] < 40
    cell = np.array([1])
    planar = Lattice(start=LATTICE.start, steps=10, origin=(0.0, 0.0), planar=True)
    with pytest.raises(PlanError, match="h3-planar"):
        hexagon_boxes(planar, cell, cell, 7)
    with pytest.raises(PlanError, match="h3-resolution"):
        hexagon_boxes(LATTICE, cell, cell, 16)
