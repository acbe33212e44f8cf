"""Zones, and which of them a point lies in: against brute force over points and shapes."""

import numpy as np
import pytest
import shapely

from shoal.errors import GeometryError
from shoal.space.grid import square_grid
from shoal.space.places import Zones

LAMBERT_93 = "EPSG:2154"


def square(west: float, south: float, crs: str | None) -> Zones:
    shape = np.array([shapely.box(west, south, west + 100, south + 100)], dtype=object)
    return Zones(ids=("a",), names=("A",), geometry=shape, crs=crs)


def test_to_lonlat_from_the_origin_of_lambert_93():
    zones = square(700_000, 6_600_000, LAMBERT_93).to_lonlat()  # 3 E, 46.5 N by definition
    west, south, east, _ = zones.bounds
    assert (zones.crs, zones.ids) == ("EPSG:4326", ("a",))
    assert (west, south) == pytest.approx((3.0, 46.5), abs=1e-4)
    assert east - west == pytest.approx(100 / (111_320 * np.cos(np.radians(46.5))), rel=5e-3)
    assert zones.to_lonlat() is zones
    with pytest.raises(GeometryError, match="crs-missing"):
        square(0, 0, None).to_lonlat()
    projected = square(700_000, 6_600_000, LAMBERT_93).to_geojson()
    corner = projected["features"][0]["geometry"]["coordinates"][0][0]
    assert 2.9 < corner[0] < 3.1
    assert "crs" not in projected
    assert square(0, 0, None).to_geojson()["crs"] is None


def test_nowhere_is_where_no_zone_is_and_for_no_number():
    zones = square(0, 0, None)
    assert (zones.count, zones.bounds) == (1, (0, 0, 100, 100))
    assert zones.locate(np.array([50, 150]), np.array([50, 50])).tolist() == [0, -1]
    assert zones.locate(50.0, 50.0).tolist() == [0]
    zones = square_grid((0, 0, 400, 300), 100.0, crs=None)
    x = np.array([np.nan, 50, np.inf, -np.inf, 1e300, -1])
    y = np.array([50, np.nan, 50, 50, 1e300, 50])
    found = zones.locate(x, y)
    assert found.tolist() == [-1] * 6
    assert found.dtype == np.int32
    assert square_grid((0, 0, 4, 3), 1.0, crs=None).locate(np.array([]), np.array([])).shape == (0,)


def make_zones(shapes) -> Zones:
    ids = tuple(f"Z{k}" for k in range(len(shapes)))
    return Zones(ids=ids, names=ids, geometry=np.array(shapes, dtype=object), crs=None)


def brute_force(zones: Zones, x, y) -> np.ndarray:
    """The first zone whose closed shape meets the point, one point and one zone at a time."""
    found = []
    for point in shapely.points(x, y):
        hits = [k for k, shape in enumerate(zones.geometry) if shape.intersects(point)]
        found.append(hits[0] if hits else -1)
    return np.array(found)


def ragged_zones(seed: int) -> Zones:
    """Voronoi cells of random points, some dropped (holes), one with a hole of its own, one in two parts."""
    rng = np.random.default_rng(seed)
    points = shapely.multipoints(rng.uniform(0, 1000, (40, 2)))
    cells = list(shapely.get_parts(shapely.voronoi_polygons(points)))
    cells = [cell.intersection(shapely.box(-50, -50, 1050, 1050)) for cell in cells]
    cells[3] = cells[3].difference(cells[3].representative_point().buffer(15))
    cells[5] = shapely.MultiPolygon([cells[5], cells[6]])
    del cells[6], cells[10], cells[20]
    return make_zones(cells)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_points_and_vertices_against_brute_force(seed):
    zones = ragged_zones(seed)
    rng = np.random.default_rng(seed)
    inner = rng.uniform(-100, 1100, (1500, 2))
    vertices = shapely.get_coordinates(zones.geometry)
    xy = np.concatenate([inner, vertices])
    assert (zones.locate(xy[:, 0], xy[:, 1]) == brute_force(zones, xy[:, 0], xy[:, 1])).all()


def test_shared_borders_and_overlaps_go_to_the_lowest_index():
    zones = square_grid((0, 0, 400, 300), 100.0, crs=None)
    x, y = (a.ravel() for a in np.meshgrid(np.arange(0, 401, 50.0), np.arange(0, 301, 50.0)))
    found = zones.locate(x, y)
    assert (found == brute_force(zones, x, y)).all()
    assert found[(x == 100) & (y == 100)] == 0
    zones = make_zones([shapely.box(40, 0, 100, 100), shapely.box(0, 0, 60, 100)])
    x, y = np.random.default_rng(6).uniform(0, 100, (2, 2000))
    assert (zones.locate(x, y) == np.where(x >= 40, 0, 1)).all()


def test_the_batch_does_not_change_the_answer(monkeypatch):
    zones = ragged_zones(4)
    rng = np.random.default_rng(4)
    x, y = rng.uniform(0, 1000, (2, 400))
    whole = zones.locate(x, y)
    single = np.concatenate([zones.locate(x[k : k + 1], y[k : k + 1]) for k in range(400)])
    order = rng.permutation(400)
    assert (whole == single).all()
    assert (zones.locate(x[order], y[order]) == whole[order]).all()
    monkeypatch.setattr("shoal.space.places._BATCH", 90)
    assert (zones.locate(x, y) == whole).all()
