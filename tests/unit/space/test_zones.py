from __future__ import annotations

import numpy as np
import pytest
import shapely

from shoal.errors import GeometryError
from shoal.space.zones import Zones

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


def test_planar_zones_have_no_longitude():
    with pytest.raises(GeometryError) as caught:
        square(0, 0, None).to_lonlat()
    assert caught.value.code == "crs-missing"


def test_count_bounds_and_locate():
    zones = square(0, 0, None)
    assert (zones.count, zones.bounds) == (1, (0, 0, 100, 100))
    assert zones.locate(np.array([50, 150]), np.array([50, 50])).tolist() == [0, -1]
    assert zones.locate(50.0, 50.0).tolist() == [0]


def test_geojson_of_projected_zones_is_lonlat_and_of_planar_zones_says_so():
    projected = square(700_000, 6_600_000, LAMBERT_93).to_geojson()
    corner = projected["features"][0]["geometry"]["coordinates"][0][0]
    assert 2.9 < corner[0] < 3.1
    assert "crs" not in projected
    assert square(0, 0, None).to_geojson()["crs"] is None
