"""Zones made over a public box: squares of equal area, and H3 cells.
The Hilbert order: every cell once, each a neighbour of the last, quarters one after the other.
"""

import h3
import numpy as np
import pyproj
import pytest
import shapely
from tests.loops import for_each

from shoal.errors import ShoalError
from shoal.space.grid import h3_zones, square_grid
from shoal_baselines.postprocess.cells import hilbert_order

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


def test_the_whole_box_is_covered_without_overlap_in_planar_cells_too():
    box = (2.2, 48.8, 2.5, 48.92)
    zones = square_grid(box, 3000.0)
    rng = np.random.default_rng(1)
    x, y = rng.uniform(box[0], box[2], 5000), rng.uniform(box[1], box[3], 5000)
    corners = np.array([(box[0], box[1]), (box[2], box[1]), (box[0], box[3]), (box[2], box[3])])
    assert (zones.locate(np.append(x, corners[:, 0]), np.append(y, corners[:, 1])) >= 0).all()
    union = shapely.union_all(zones.geometry)
    assert np.isclose(union.area, shapely.area(zones.geometry).sum(), rtol=1e-12)
    zones = square_grid((0, 0, 2500, 1000), 1000, crs=None)
    assert zones.ids == ("r000c000", "r000c001", "r000c002")
    assert zones.geometry[2].bounds == (2000, 0, 3000, 1000)
    assert zones.locate(np.array([2500.0]), np.array([10.0])).tolist() == [2]
    assert square_grid((0, 0, 1200, 1), 1, crs=None).ids[-1] == "r000c1199"
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
    with pytest.raises(ShoalError, match=code):
        square_grid(box, cell_m)


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


def test_areas_of_two_parts_or_with_a_hole():
    inside = h3.latlng_to_cell(48.86, 2.34, 8)
    assert inside in h3_zones(PARIS, 8).ids
    assert inside not in h3_zones(HOLLOW, 8).ids
    left, right = shapely.box(2.25, 48.82, 2.33, 48.90), shapely.box(2.34, 48.82, 2.42, 48.90)
    zones = h3_zones(shapely.MultiPolygon([left, right]), 8)
    assert len(set(zones.ids)) == zones.count
    assert set(zones.ids) == set(h3_zones(left, 8).ids) | set(h3_zones(right, 8).ids)
    with pytest.raises(ShoalError, match="grid-size"):
        h3_zones(STRIPE, 8, max_cells=10)


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
    with pytest.raises(ShoalError, match=code):
        h3_zones(area, resolution)


@for_each("side", [1, 2, 4, 32])
def test_steps_go_to_neighbours(side):
    order = hilbert_order(side, side)
    assert sorted(order.tolist()) == list(range(side * side))
    row, column = np.divmod(order, side)
    assert (np.abs(np.diff(row)) + np.abs(np.diff(column)) == 1).all()


def test_dyadic_pieces_are_squares():
    row, column = np.divmod(hilbert_order(16, 16), 16)
    for length in (4, 16, 64):
        side = int(length**0.5)
        pieces = np.stack([row // side, column // side]).reshape(2, -1, length)
        assert (pieces == pieces[:, :, :1]).all()


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (1, 7), (9, 2)])
def test_other_grids_have_every_cell_once(rows, columns):
    assert sorted(hilbert_order(rows, columns).tolist()) == list(range(rows * columns))
