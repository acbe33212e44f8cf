"""The public grid of cells: where points lie, what a cell measures, and polygons as cells.

Rectangles of cells: areas, checks, random ones; and boxes on a map as cells, against all centres.

Answers of an Euler histogram: direct sums, missing parts, shapes.
"""

from fractions import Fraction

import numpy as np
import pytest
import shapely
from pyproj import Geod
from scipy.stats import chi2
from tests.loops import for_each
from tests.worlds import ring_of, zones_json

from shoal.errors import GeometryError, GuaranteeError, PlanError
from shoal.space.cells import (
    MOST_SIDE,
    STEPS,
    CellGrid,
    Euler,
    Rectangles,
    as_boxes,
    cells_of,
    map_box,
    random_rectangles,
    read_boxes,
    read_shape,
    snap,
)

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


def test_borders_belong_to_the_cell_east_and_north_and_no_number_lies_inside():
    grid = CellGrid(box=(0.0, 0.0, 4.0, 2.0), columns=4, rows=2, planar=True)
    u, v, inside = grid.place(np.array([0.0, 1.0, 4.0, 3.0]), np.array([0.0, 1.0, 2.0, 2.0]))
    assert inside.all()
    assert (u // STEPS).tolist() == [0, 1, 3, 3]
    assert (v // STEPS).tolist() == [0, 1, 1, 1]
    grid = CellGrid(box=SF, columns=8, rows=8)
    bad = np.array([np.nan, np.inf, -np.inf, -122.4])
    _, _, inside = grid.place(bad, np.array([37.75, 37.75, 37.75, np.nan]))
    assert not inside.any()


@pytest.mark.parametrize("box", [SF, (-8.70, 41.10, -8.52, 41.25), (24.0, 60.0, 24.5, 60.3)])
def test_metres_are_those_of_the_ellipsoid_within_one_percent(box):
    grid = CellGrid(box=box, columns=10, rows=10)
    west, south, east, north = box
    middle = (south + north) / 2
    geod = Geod(ellps="WGS84")
    across = geod.inv(west, middle, east, middle)[2] / 10
    along = geod.inv(west, south, west, north)[2] / 10
    assert grid.cell_m == pytest.approx((across, along), rel=0.01)


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


def test_parts_and_holes_and_shapes_that_are_no_area():
    ring = shapely.box(1, 1, 6, 6).difference(shapely.box(3, 3, 4, 4))
    assert (cells_of(ring, GRID).parts, cells_of(ring, GRID).holes) == (1, 1)
    both = shapely.union(ring, shapely.box(10, 1, 12, 3))
    assert (cells_of(both, GRID).parts, cells_of(both, GRID).holes) == (2, 1)
    corners = shapely.union(shapely.box(1, 1, 2, 2), shapely.box(2, 2, 3, 3))  # they touch at a corner alone
    assert cells_of(corners, GRID).parts == 2
    assert cells_of(shapely.box(0, 0, 20, 10), GRID).missed == pytest.approx(0)
    for shape in (shapely.Point(1, 1), shapely.Polygon(), None):
        with pytest.raises(GeometryError, match="area"):
            cells_of(shape, GRID)
    with pytest.raises(GeometryError, match="crosses itself"):
        cells_of(shapely.Polygon([(0, 0), (4, 4), (4, 0), (0, 3)]), GRID)


def test_a_file_of_polygons_is_one_area(tmp_path):
    path = tmp_path / "two.geojson"
    path.write_text(zones_json([("a", [ring_of(0, 0, 2, 2)]), ("b", [ring_of(1, 1, 3, 3)])]))
    assert read_shape(path, GRID).area == 7
    lonlat = CellGrid(box=(0.0, 0.0, 20.0, 10.0), columns=20, rows=10)
    assert cells_of(read_shape(path, lonlat), lonlat).cells == 7


FIVE_BY_THREE = CellGrid(box=(0.0, 0.0, 5.0, 3.0), columns=5, rows=3, planar=True)


def rows_of(rectangles):
    sides = rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1
    return list(zip(*(side.tolist() for side in sides), strict=True))


def test_rows_there_and_back_with_areas_that_do_not_overflow():
    rows = [(0, 5, 0, 3), (1, 2, 1, 3)]
    some = Rectangles.of(rows)
    assert rows_of(some) == rows
    assert (some.count, some.areas.tolist(), some.areas.dtype) == (2, [15, 2], np.int64)
    assert rows_of(some.take(np.array([1, 1]))) == [rows[1], rows[1]]
    assert Rectangles.of([]).count == 0
    assert Rectangles.of([]).areas.size == 0
    assert Rectangles.of([(0, 2**17, 0, 2**17)]).areas.tolist() == [2**34]
    Rectangles.of([(0, 5, 0, 3), (4, 5, 2, 3), (0, 1, 0, 1)]).check(FIVE_BY_THREE)
    Rectangles.of([]).check(FIVE_BY_THREE)


@for_each(
    "row",
    [(0, 6, 0, 1), (0, 1, 0, 4), (-1, 1, 0, 1), (0, 1, -1, 1), (2, 2, 0, 1), (0, 1, 2, 1), (3, 2, 0, 1)],
)
def test_empty_or_off_the_grid(row):
    with pytest.raises(PlanError, match="rectangle-range"):
        Rectangles.of([(0, 1, 0, 1), row]).check(FIVE_BY_THREE)


def test_random_ones_are_uniform_over_pairs_of_borders():
    """15 pairs of columns times 6 of rows, as likely each: chi-square at the 99.9 % point."""
    drawn = random_rectangles(FIVE_BY_THREE, 45_000, seed=3)
    drawn.check(FIVE_BY_THREE)
    counts = {}
    for row in rows_of(drawn):
        counts[row] = counts.get(row, 0) + 1
    assert len(counts) == 90
    distance = sum((count - 500) ** 2 / 500 for count in counts.values())
    assert chi2.ppf(0.001, 89) < distance < chi2.ppf(0.999, 89)


def test_random_ones_follow_the_seed_on_any_grid():
    one, same, other = (random_rectangles(FIVE_BY_THREE, 50, seed) for seed in (7, 7, 8))
    assert rows_of(one) == rows_of(same) != rows_of(other)
    assert one.x0.dtype == np.int32
    single = CellGrid(box=(0.0, 0.0, 1.0, 1.0), columns=1, rows=1, planar=True)
    assert set(rows_of(random_rectangles(single, 20, 1))) == {(0, 1, 0, 1)}
    assert random_rectangles(FIVE_BY_THREE, 0, 1).count == 0


MAP = CellGrid(box=(-3.0, 10.0, 4.0, 15.0), columns=14, rows=7)


def centres():
    width, height = MAP.cell_size
    return [
        (c, r, -3.0 + (c + 0.5) * width, 10.0 + (r + 0.5) * height)
        for c in range(MAP.columns)
        for r in range(MAP.rows)
    ]


def test_the_cells_of_a_box_are_those_with_their_centre_in_it():
    generator = np.random.default_rng(5)
    for _ in range(200):
        west, east = np.sort(generator.uniform(-5, 6, 2))
        south, north = np.sort(generator.uniform(8, 17, 2))
        found = snap(MAP, np.array([[west, south, east, north]]))
        cells = {
            (c, r)
            for c in range(int(found.x0[0]), int(found.x1[0]))
            for r in range(int(found.y0[0]), int(found.y1[0]))
        }
        assert cells == {(c, r) for c, r, x, y in centres() if west <= x <= east and south <= y <= north}


def test_the_corners_of_cells_are_a_box_of_these_cells():
    """Also where the float of a corner or centre is a little off."""
    grid = CellGrid(box=(0.1, 0.2, 0.7, 1.1), columns=7, rows=11)
    for cells in [(0, 7, 0, 11), (1, 3, 2, 5), (6, 7, 10, 11)]:
        found = snap(grid, np.array([map_box(grid, cells)]))
        assert tuple(int(side[0]) for side in (found.x0, found.x1, found.y0, found.y1)) == cells
    x, y = grid.corner(np.array([2.5, 4.5]), np.array([3.5, 6.5]))
    found = snap(grid, np.array([[x[0], y[0], x[1], y[1]]]))
    assert tuple(int(side[0]) for side in (found.x0, found.x1, found.y0, found.y1)) == (2, 5, 3, 7)


def test_boxes_are_checked():
    assert as_boxes((1, 2, 3, 4), planar=True).shape == (1, 4)
    assert as_boxes([(1, 2, 3, 4)] * 3, planar=True).shape == (3, 4)
    for bad in ((1, 2, 3), [(1, 2, 3, 4), (1, 2)], "box", [[None] * 4]):
        with pytest.raises(PlanError, match="four numbers"):
            as_boxes(bad, planar=True)
    with pytest.raises(PlanError, match=r"order of the box is wrong(.|\n)*antimeridian"):
        as_boxes((170, 0, -170, 10), planar=False)
    for turned in ((3, 2, 1, 4), (1, 4, 3, 2)):
        with pytest.raises(PlanError, match="order of the box is wrong") as found:
            as_boxes(turned, planar=True)
        assert "antimeridian" not in str(found.value)
    with pytest.raises(PlanError, match="no area"):
        as_boxes((1, 2, 1, 4), planar=False)


def test_a_file_of_boxes(tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text("\ufeffnorth,south,east,west,name\n4,2,3,1,here\n8,6,7,5,\n")
    names, boxes = read_boxes(path, planar=True)
    assert names == ["here", "2"]
    assert boxes.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    path.write_text("west,south,east,north\n1,2,3,4\n1,2,three,4\n")
    with pytest.raises(PlanError, match="row 2"):
        read_boxes(path, planar=True)
    for text in ("west,south,east\n1,2,3\n", ""):
        path.write_text(text)
        with pytest.raises(PlanError, match="north"):
            read_boxes(path, planar=True)
    path.write_text("name;west;south;east;north\nhere;1,5;2;3;4\n")
    with pytest.raises(PlanError, match="semicolons"):
        read_boxes(path, planar=True)
    path.write_bytes(b"west,south\xff")
    with pytest.raises(PlanError, match="cannot be read"):
        read_boxes(path, planar=True)
    with pytest.raises(PlanError, match="there is no file"):
        read_boxes(tmp_path / "none.csv", planar=True)


def parts(generator, rows, columns):
    return {
        "faces": generator.normal(size=(rows, columns)),
        "east": generator.normal(size=(rows, columns - 1)),
        "north": generator.normal(size=(rows - 1, columns)),
        "blocks": generator.normal(size=(rows - 1, columns - 1)),
    }


def direct(histogram, x0, x1, y0, y1):
    """Face by face, edge by edge."""
    total = 0.0
    for y in range(y0, y1):
        for x in range(x0, x1):
            total += histogram.faces[y, x]
            if histogram.east is not None and x + 1 < x1:
                total -= histogram.east[y, x]
            if histogram.north is not None and y + 1 < y1:
                total -= histogram.north[y, x]
            if histogram.blocks is not None and x + 1 < x1 and y + 1 < y1:
                total += histogram.blocks[y, x]
    return total


@for_each(("rows", "columns"), [(4, 6), (1, 5), (5, 1), (1, 1)])
@for_each("left_out", [(), ("blocks",), ("east", "north", "blocks")])
def test_answers_are_direct_sums(rows, columns, left_out):
    generator = np.random.default_rng(61)
    kept = {name: value for name, value in parts(generator, rows, columns).items() if name not in left_out}
    histogram = Euler(**kept)
    grid = CellGrid(box=(0.0, 0.0, 1.0, 1.0), columns=columns, rows=rows, planar=True)
    drawn = random_rectangles(grid, 60, 5)
    expected = [
        direct(histogram, *row)
        for row in zip(*(s.tolist() for s in (drawn.x0, drawn.x1, drawn.y0, drawn.y1)), strict=True)
    ]
    assert histogram.answers(drawn) == pytest.approx(expected)
    assert histogram.shape == (rows, columns)


def test_whole_numbers_stay_whole_and_small_types_do_not_overflow():
    histogram = Euler(faces=np.full((20, 20), 120, np.int8))
    answer = histogram.answers(Rectangles.of([(0, 20, 0, 20)]))
    assert answer.dtype == np.int64
    assert answer.tolist() == [48_000]


@pytest.mark.parametrize("name", ["east", "north", "blocks"])
def test_parts_of_another_shape_are_refused(name):
    wrong = {**parts(np.random.default_rng(62), 3, 4), name: np.zeros((3, 4))}
    with pytest.raises(GuaranteeError, match="euler-shape"):
        Euler(**wrong)


def test_corners_are_inverse_to_placing_and_planar_cells_in_metres():
    grid = CellGrid(box=SF, columns=256, rows=100)
    column, row = np.arange(0, 256, 5), np.arange(0, 100, 2)[:1].repeat(52)
    x, y = grid.corner(column, row)
    width, height = grid.cell_size
    u, v, inside = grid.place(x + width / 2, y + height / 2)
    assert inside.all()
    assert (u // STEPS).tolist() == column.tolist()
    assert (v // STEPS).tolist() == row.tolist()
    assert np.allclose(grid.corner(np.array([256]), np.array([100])), [[-122.36], [37.83]])
    assert CellGrid(box=(0.0, 0.0, 1000.0, 300.0), columns=10, rows=10, planar=True).cell_m == (100.0, 30.0)
