from __future__ import annotations

import numpy as np
import pyproj
import pytest
import shapely
from tests.loops import for_each

from shoal.errors import ShoalError
from shoal.space.grid import square_grid

GEOD = pyproj.Geod(ellps="WGS84")


@pytest.mark.parametrize("box", [(2.2, 48.8, 2.5, 48.92), (18.5, 69.5, 19.5, 69.8), (-0.1, -0.1, 0.1, 0.1)])
def test_cells_are_square_and_of_equal_area_on_the_ellipsoid(box):
    zones = square_grid(box, 2000.0)
    for shape in zones.geometry[:: max(1, zones.count // 40)]:
        lon, lat = np.array(shape.exterior.coords).T
        sides = GEOD.line_lengths(lon, lat)
        assert np.allclose(sides, 2000, rtol=2e-3)
        assert np.isclose(abs(GEOD.geometry_area_perimeter(shape)[0]), 4e6, rtol=1e-4)
        diagonals = [GEOD.inv(lon[0], lat[0], lon[2], lat[2])[2], GEOD.inv(lon[1], lat[1], lon[3], lat[3])[2]]
        assert np.isclose(diagonals[0], diagonals[1], rtol=5e-3)


def test_the_whole_box_is_covered_without_overlap():
    box = (2.2, 48.8, 2.5, 48.92)
    zones = square_grid(box, 3000.0)
    rng = np.random.default_rng(1)
    x, y = rng.uniform(box[0], box[2], 5000), rng.uniform(box[1], box[3], 5000)
    corners = np.array([(box[0], box[1]), (box[2], box[1]), (box[0], box[3]), (box[2], box[3])])
    assert (zones.locate(np.append(x, corners[:, 0]), np.append(y, corners[:, 1])) >= 0).all()
    union = shapely.union_all(zones.geometry)
    assert np.isclose(union.area, shapely.area(zones.geometry).sum(), rtol=1e-12)


def test_planar_cells_and_ids():
    zones = square_grid((0, 0, 2500, 1000), 1000, crs=None)
    assert zones.ids == ("r000c000", "r000c001", "r000c002")
    assert zones.geometry[2].bounds == (2000, 0, 3000, 1000)
    assert zones.locate(np.array([2500.0]), np.array([10.0])).tolist() == [2]
    assert square_grid((0, 0, 1200, 1), 1, crs=None).ids[-1] == "r000c1199"


def test_metres_in_a_map_of_feet():
    zones = square_grid((900000, 100000, 901000, 101000), 304.8, crs="EPSG:2263")  # US survey feet
    assert zones.geometry[0].bounds[2] - 900000 == pytest.approx(1000, rel=1e-5)


@for_each(
    ("code", "box", "cell_m"),
    [
        ("cell-size", (0, 0, 1, 1), 0),
        ("cell-size", (0, 0, 1, 1), float("nan")),
        ("box-range", (1, 0, 0, 1), 100),
        ("box-range", (0, 0, 1), 100),
        ("box-range", (0, 0, float("nan"), 1), 100),
        ("lonlat-range", (0, 0, 2000, 1000), 100),
        ("grid-size", (0, 0, 10, 10), 1),
    ],
)
def test_bad_grids(code, box, cell_m):
    with pytest.raises(ShoalError) as caught:
        square_grid(box, cell_m)
    assert caught.value.code == code
