"""The public grid of cells: where points lie, what a cell measures, and polygons as cells."""

import json
from fractions import Fraction

import numpy as np
import pytest
import shapely
from pyproj import Geod
from tests.loops import for_each

from shoal.errors import GeometryError, PlanError
from shoal.space.cells import MOST_SIDE, STEPS, CellGrid, cells_of, read_shape

SF = (-122.52, 37.70, -122.36, 37.83)


def test_points_lie_where_fractions_say():
    grid = CellGrid(box=(0.0, -1.0, 4.0, 1.0), columns=32, rows=16, planar=True)  # exact in binary
    generator = np.random.default_rng(51)
    x, y = generator.uniform(-0.2, 4.2, 500), generator.uniform(-1.2, 1.2, 500)
    u, v, inside = grid.place(x, y)
    for i in range(500):
        assert inside[i] == (0 <= x[i] <= 4 and -1 <= y[i] <= 1)
        if inside[i]:
            assert u[i] == Fraction(float(x[i])) * 32 * STEPS // 4
            assert v[i] == (Fraction(float(y[i])) + 1) * 16 * STEPS // 2
    assert not u[~inside].any()
    assert not v[~inside].any()


def test_borders_belong_to_the_cell_east_and_north_and_the_outermost_to_the_last():
    grid = CellGrid(box=(0.0, 0.0, 4.0, 2.0), columns=4, rows=2, planar=True)
    u, v, inside = grid.place(np.array([0.0, 1.0, 4.0, 3.0]), np.array([0.0, 1.0, 2.0, 2.0]))
    assert inside.all()
    assert (u // STEPS).tolist() == [0, 1, 3, 3]
    assert (v // STEPS).tolist() == [0, 1, 1, 1]


def test_what_is_no_number_is_outside():
    grid = CellGrid(box=SF, columns=8, rows=8)
    bad = np.array([np.nan, np.inf, -np.inf, -122.4])
    _, _, inside = grid.place(bad, np.array([37.75, 37.75, 37.75, np.nan]))
    assert not inside.any()


def test_corners_are_inverse_to_placing():
    grid = CellGrid(box=SF, columns=256, rows=100)
    column, row = np.arange(0, 256, 5), np.arange(0, 100, 2)[:1].repeat(52)
    x, y = grid.corner(column, row)
    width, height = grid.cell_size
    u, v, inside = grid.place(x + width / 2, y + height / 2)
    assert inside.all()
    assert (u // STEPS).tolist() == column.tolist()
    assert (v // STEPS).tolist() == row.tolist()
    assert np.allclose(grid.corner(np.array([256]), np.array([100])), [[-122.36], [37.83]])


@pytest.mark.parametrize("box", [SF, (-8.70, 41.10, -8.52, 41.25), (24.0, 60.0, 24.5, 60.3)])
def test_metres_are_those_of_the_ellipsoid_within_one_percent(box):
    grid = CellGrid(box=box, columns=10, rows=10)
    west, south, east, north = box
    middle = (south + north) / 2
    geod = Geod(ellps="WGS84")
    across = geod.inv(west, middle, east, middle)[2] / 10
    along = geod.inv(west, south, west, north)[2] / 10
    assert grid.cell_m == pytest.approx((across, along), rel=0.01)


def test_planar_cells_are_in_metres_as_they_are():
    assert CellGrid(box=(0.0, 0.0, 1000.0, 300.0), columns=10, rows=10, planar=True).cell_m == (100.0, 30.0)


def test_it_describes_itself():
    grid = CellGrid(box=SF, columns=4, rows=3)
    assert grid.count == 12
    assert grid.describe() == {"box": list(SF), "columns": 4, "rows": 3, "planar": False}
    assert CellGrid(**{**grid.describe(), "box": tuple(grid.describe()["box"])}) == grid


@for_each(
    ("change", "code"),
    [
        ({"columns": 0}, "grid-size"),
        ({"rows": MOST_SIDE + 1}, "grid-size"),
        ({"box": (0.0, 0.0, 1.0)}, "box-range"),
        ({"box": (0.0, 0.0, float("nan"), 1.0)}, "box-range"),
        ({"box": (0.0, 0.0, float("inf"), 1.0), "planar": True}, "box-range"),
        ({"box": (0.0, 1.0, 1.0, 0.0)}, "box-range"),
        ({"box": (1.0, 0.0, 1.0, 1.0)}, "box-range"),
        ({"box": (1.0, 0.0, 0.0, 1.0), "planar": True}, "box-range"),
        ({"box": (0.0, 0.0, 1.0, 91.0)}, "box-range"),
        ({"box": (170.0, 0.0, 190.0, 1.0)}, "box-range"),
        ({"box": (170.0, 0.0, -170.0, 1.0)}, "box-antimeridian"),
    ],
)
def test_grids_that_cannot_be(change, code):
    with pytest.raises(PlanError, match=code):
        CellGrid(**{"box": SF, "columns": 4, "rows": 4, **change})


def test_the_largest_grid_and_a_single_cell():
    assert CellGrid(box=SF, columns=MOST_SIDE, rows=MOST_SIDE).count == 2**24
    u, v, inside = CellGrid(box=SF, columns=1, rows=1).place(np.array([-122.4]), np.array([37.8]))
    assert (u[0] // STEPS, v[0] // STEPS, inside[0]) == (0, 0, True)


GRID = CellGrid(box=(0.0, 0.0, 20.0, 10.0), columns=20, rows=10, planar=True)


@for_each("seed", range(5))
def test_areas_against_the_union_of_the_cells(seed):
    generator = np.random.default_rng(seed)
    shape = shapely.MultiPoint(generator.uniform((-3, -3), (23, 13), (7, 2))).convex_hull
    found = cells_of(shape, GRID)
    cells = [
        shapely.box(c, r, c + 1, r + 1)
        for r in range(10)
        for c in range(20)
        if shape.contains(shapely.Point(c + 0.5, r + 0.5))
    ]
    union = shapely.union_all(cells)
    assert found.cells == len(cells) > 20
    assert found.missed == pytest.approx(shape.difference(union).area / shape.area)
    assert found.added == pytest.approx(union.difference(shape).area / shape.area)
    assert found.outside == pytest.approx(shape.difference(shapely.box(0, 0, 20, 10)).area / shape.area)
    assert found.holes == 0


def test_parts_and_holes():
    ring = shapely.box(1, 1, 6, 6).difference(shapely.box(3, 3, 4, 4))
    assert (cells_of(ring, GRID).parts, cells_of(ring, GRID).holes) == (1, 1)
    both = shapely.union(ring, shapely.box(10, 1, 12, 3))
    assert (cells_of(both, GRID).parts, cells_of(both, GRID).holes) == (2, 1)
    corners = shapely.union(shapely.box(1, 1, 2, 2), shapely.box(2, 2, 3, 3))  # they touch at a corner alone
    assert cells_of(corners, GRID).parts == 2
    assert cells_of(shapely.box(0, 0, 20, 10), GRID).missed == pytest.approx(0)


def test_shapes_without_area_or_that_cross_themselves_are_refused():
    for shape in (shapely.Point(1, 1), shapely.Polygon(), None):
        with pytest.raises(GeometryError, match="area"):
            cells_of(shape, GRID)
    with pytest.raises(GeometryError, match="crosses itself"):
        cells_of(shapely.Polygon([(0, 0), (4, 4), (4, 0), (0, 3)]), GRID)


def test_a_file_of_polygons_is_one_area(tmp_path):
    path = tmp_path / "two.geojson"
    features = [
        {"type": "Feature", "properties": {}, "geometry": json.loads(shapely.to_geojson(shapely.box(*box)))}
        for box in ((0, 0, 2, 2), (1, 1, 3, 3))
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert read_shape(path, GRID).area == 7
    lonlat = CellGrid(box=(0.0, 0.0, 20.0, 10.0), columns=20, rows=10)
    assert cells_of(read_shape(path, lonlat), lonlat).cells == 7
