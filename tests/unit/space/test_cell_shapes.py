"""Polygons as cells: areas against shapely's own union of the cells, parts and holes by hand."""

import json

import numpy as np
import pytest
import shapely
from tests.loops import for_each

from shoal.errors import GeometryError
from shoal.space.cells import CellGrid, cells_of, read_shape

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
