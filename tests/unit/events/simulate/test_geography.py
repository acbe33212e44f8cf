from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import shapely

from shoal.errors import GeometryError
from shoal.events.simulate import PRESETS
from shoal.events.simulate.geography import make_city
from shoal.events.simulate.people import make_ground, site_at
from shoal.space.places import Sites, Zones


@pytest.fixture(
    params=[("town", 1), ("town", 2), ("rough", 1), ("rough", 3), ("paris", 1), ("events-city", 1)],
    scope="module",
)
def city(request):
    return make_city(PRESETS[request.param[0]], request.param[1])


def test_the_city_has_the_wanted_size(city):
    name = {120: "town", 300: "events-city", 310: "rough", 989: "paris"}[city.zones.count]
    preset = PRESETS[name]
    assert len(city.xy) == preset.sites
    assert city.outline.area == pytest.approx(preset.area_km2 * 1e6, rel=1e-6)
    assert city.outline.contains(shapely.multipoints(city.xy))
    assert len(set(city.site_ids)) == preset.sites


def test_zones_share_exact_vertices_and_leave_no_gap(city):
    assert shapely.is_valid(city.zones.geometry).all()
    uses = Counter()
    for zone in city.zones.geometry:
        assert zone.geom_type == "Polygon"
        ring = [tuple(p) for p in shapely.get_coordinates(zone.exterior)]
        uses.update(frozenset(side) for side in pairwise(ring))
    assert set(uses.values()) == {1, 2}  # a side is a border of two zones, or of one and the outside
    outer = shapely.polygonize([shapely.linestrings([list(s) for s, n in uses.items() if n == 1])])
    parts = shapely.get_parts(outer)
    assert len(parts) == 1
    # Sides used once close to a single ring without holes, and its area is the sum of the zones' areas.
    assert len(parts[0].interiors) == 0
    assert shapely.area(city.zones.geometry).sum() == pytest.approx(parts[0].area, rel=1e-9)


def test_a_point_lies_in_exactly_one_zone(city):
    rng = np.random.default_rng(4)
    west, south, east, north = shapely.total_bounds(city.zones.geometry)
    points = rng.uniform((west, south), (east, north), size=(2000, 2))
    x, y = city.plane.to_metres(points[:, 0], points[:, 1])
    well_inside = shapely.contains_xy(city.outline.buffer(-1.0), x, y)
    found, _ = shapely.STRtree(city.zones.geometry).query(
        shapely.points(points[well_inside]), predicate="intersects"
    )
    assert np.array_equal(np.bincount(found, minlength=well_inside.sum()), np.ones(well_inside.sum()))


def test_degrees_and_metres_are_inverse_and_to_scale(city):
    from pyproj import Geod

    x, y = np.array([0.0, 2500.0, -3000.0]), np.array([0.0, 4000.0, 1000.0])
    lon, lat = city.plane.to_degrees(x, y)
    back = city.plane.to_metres(lon, lat)
    assert np.allclose(back, (x, y), atol=1e-6)
    metres = Geod(ellps="WGS84").inv(lon[1], lat[1], lon[2], lat[2])[2]
    assert metres == pytest.approx(np.hypot(5500, 3000), rel=0.01)


def test_the_raster_finds_the_nearest_site():
    city = make_city(PRESETS["town"], 1)
    ground = make_ground(city, PRESETS["town"], 1)
    points = city.xy[:60] + np.random.default_rng(0).normal(0, 200, size=(60, 2))
    for x, y in points:
        distance = np.hypot(*(city.xy - (x, y)).T)
        # The raster answers for the middle of a 100 m square.
        assert distance[site_at(ground, x, y)] <= distance.min() + 2 * 100 / np.sqrt(2)


def test_own_geometry_is_kept_and_planar_sites_are_refused():
    squares = shapely.box(np.array([2.30, 2.32]), 48.85, np.array([2.32, 2.34]), 48.87)
    zones = Zones(ids=("west", "east"), names=("West", "East"), geometry=squares)
    sites = Sites(ids=("a", "b", "c"), x=np.array([2.31, 2.33, 2.335]), y=np.array([48.86, 48.855, 48.865]))
    city = make_city(replace(PRESETS["town"], zones=2, sites=3), 1, zones, sites)
    assert list(city.zones.ids) == ["west", "east"]
    assert shapely.equals(city.zones.geometry, squares).all()
    assert np.allclose(city.site_lonlat, (sites.x, sites.y), atol=1e-7)
    sites = Sites(ids=("a",), x=np.array([0.0]), y=np.array([0.0]), crs=None)
    with pytest.raises(GeometryError, match="crs-missing"):
        make_city(PRESETS["town"], 1, None, sites)
