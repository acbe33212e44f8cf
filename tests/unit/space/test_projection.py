import numpy as np
import pyproj
import pytest
import shapely
from tests.loops import for_each

from shoal.errors import GeometryError
from shoal.space.checks import (
    LONLAT,
    crs_name,
    equal_area_crs,
    is_lonlat,
    transform,
    transform_xy,
    unit_m,
)


@for_each("centre", [(2.35, 48.85), (-122.4, 37.7), (0, 0), (19, 69.6), (151, -33.9), (179, -17)])
def test_areas_are_those_of_the_ellipsoid(centre):
    lon, lat = centre
    square = shapely.segmentize(shapely.box(lon - 0.3, lat - 0.2, lon + 0.3, lat + 0.2), 0.01)
    flat = transform(np.array([square]), LONLAT, equal_area_crs(square.bounds))[0]
    # A geodesic is not a parallel: short segments make the two outlines agree.
    true = abs(pyproj.Geod(ellps="WGS84").geometry_area_perimeter(square)[0])
    assert flat.area == pytest.approx(true, rel=1e-6)


def test_there_and_back():
    plane = equal_area_crs((2.2, 48.8, 2.5, 48.9))
    x, y = transform_xy([2.25, 2.45], [48.81, 48.89], LONLAT, plane)
    lon, lat = transform_xy(x, y, plane, LONLAT)
    assert np.allclose(lon, [2.25, 2.45], atol=1e-10)
    assert np.allclose(lat, [48.81, 48.89], atol=1e-10)
    assert x[0] < 0 < x[1]  # x is east


def test_lambert_93_against_published_sites_of_a_known_place():
    """The origin of Lambert-93 by definition: 3 E, 46.5 N is (700000, 6600000)."""
    x, y = transform_xy([3.0], [46.5], LONLAT, "EPSG:2154")
    assert (x[0], y[0]) == pytest.approx((700_000, 6_600_000), abs=1e-3)


@for_each("spelling", ["EPSG:4326", "epsg:4326", "OGC:CRS84", 4326, pyproj.CRS(4326).to_json_dict()])
def test_all_spellings_of_lonlat_are_one(spelling):
    assert crs_name(spelling) == LONLAT


def test_names():
    assert crs_name(None) is None
    assert crs_name(pyproj.CRS(2154).to_wkt()) == "EPSG:2154"
    assert is_lonlat("EPSG:4258")
    assert not is_lonlat("EPSG:2154")
    assert not is_lonlat(None)
    assert unit_m("EPSG:2263") == pytest.approx(0.3048, rel=1e-5)
    own = equal_area_crs((2.2, 48.8, 2.5, 48.9))
    assert pyproj.CRS.from_user_input(crs_name(own)).equals(own)


@pytest.mark.parametrize("bounds", [(0, 95, 1, 96), (float("nan"), 0, 1, 1)])
def test_bounds_that_are_no_place(bounds):
    with pytest.raises(GeometryError):
        equal_area_crs(bounds)
