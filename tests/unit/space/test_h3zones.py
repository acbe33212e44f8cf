from __future__ import annotations

import h3
import numpy as np
import pytest
import shapely
from tests.loops import for_each

from shoal.errors import ShoalError
from shoal.space.h3zones import h3_zones

PARIS = (2.25, 48.82, 2.42, 48.90)


def test_points_are_located_in_the_cell_h3_names():
    zones = h3_zones(PARIS, 8)
    rng = np.random.default_rng(1)
    x, y = rng.uniform(PARIS[0], PARIS[2], 500), rng.uniform(PARIS[1], PARIS[3], 500)
    index = {cell: k for k, cell in enumerate(zones.ids)}
    expected = [index.get(h3.latlng_to_cell(lat, lon, 8), -1) for lon, lat in zip(x, y, strict=True)]
    found = zones.locate(x, y)
    assert (found != expected).sum() <= 1  # edges are arcs in H3 and straight in degrees here
    assert (found >= 0).all()  # the whole area is covered, edges and corners too


HOLLOW = shapely.box(*PARIS).difference(shapely.Point(2.34, 48.86).buffer(0.02))
STRIPE = shapely.LineString([(2.25, 48.82), (2.42, 48.9)]).buffer(1e-6)  # too narrow to hold a centre
SPECK = shapely.box(2.30000, 48.85, 2.30001, 48.85001)


@for_each(
    ("area", "resolution"),
    [(HOLLOW, 8), (STRIPE, 8), (SPECK, 5), (shapely.box(*PARIS), 6), (shapely.box(179, -17, 179.9, -16), 6)],
)
def test_the_zones_are_the_cells_that_overlap_the_area(area, resolution):
    zones = h3_zones(area, resolution)
    assert list(zones.ids) == sorted(zones.ids)
    assert area.difference(shapely.union_all(zones.geometry)).area == pytest.approx(0, abs=1e-15)
    assert (shapely.area(shapely.intersection(zones.geometry, area)) > 0).all()
    if hasattr(h3, "h3shape_to_cells_experimental"):  # H3's own search, where it has one
        shape = h3.geo_to_h3shape(area)
        assert set(zones.ids) == set(h3.h3shape_to_cells_experimental(shape, resolution, "overlap"))


def test_a_hole_of_the_area_has_no_zones():
    inside = h3.latlng_to_cell(48.86, 2.34, 8)
    assert inside in h3_zones(PARIS, 8).ids
    assert inside not in h3_zones(HOLLOW, 8).ids


def test_two_parts_give_no_cell_twice():
    left, right = shapely.box(2.25, 48.82, 2.33, 48.90), shapely.box(2.34, 48.82, 2.42, 48.90)
    zones = h3_zones(shapely.MultiPolygon([left, right]), 8)
    assert len(set(zones.ids)) == zones.count
    assert set(zones.ids) == set(h3_zones(left, 8).ids) | set(h3_zones(right, 8).ids)


@for_each(
    ("code", "area", "resolution"),
    [
        ("h3-resolution", PARIS, 16),
        ("h3-resolution", PARIS, 8.0),
        ("h3-area", shapely.Point(2, 48), 8),
        ("h3-area", shapely.Polygon(), 8),
        ("grid-size", (0, 40, 10, 50), 12),
        ("antimeridian", (179, -17, 179.99, -16), 4),  # only a neighbour's cell reaches across
        ("lonlat-range", (0, 0, 5000, 5000), 8),
        ("antimeridian", (179.5, -17, 180, -16), 4),
    ],
)
def test_bad_areas(code, area, resolution):
    with pytest.raises(ShoalError) as caught:
        h3_zones(area, resolution)
    assert caught.value.code == code


def test_the_limit_holds_for_thin_areas_too():
    with pytest.raises(ShoalError, match="grid-size"):
        h3_zones(STRIPE, 8, max_cells=10)
