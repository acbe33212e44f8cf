"""Rectangles of cells: areas, checks, random ones; and boxes on a map as cells, against all centres."""

import numpy as np
import pytest
from scipy.stats import chi2
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.cells import CellGrid, Rectangles, as_boxes, map_box, random_rectangles, read_boxes, snap

GRID = CellGrid(box=(0.0, 0.0, 5.0, 3.0), columns=5, rows=3, planar=True)


def rows_of(rectangles):
    sides = rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1
    return list(zip(*(side.tolist() for side in sides), strict=True))


def test_from_rows_and_back():
    rows = [(0, 5, 0, 3), (1, 2, 1, 3)]
    some = Rectangles.of(rows)
    assert rows_of(some) == rows
    assert (some.count, some.areas.tolist(), some.areas.dtype) == (2, [15, 2], np.int64)
    assert rows_of(some.take(np.array([1, 1]))) == [rows[1], rows[1]]
    assert Rectangles.of([]).count == 0
    assert Rectangles.of([]).areas.size == 0


def test_areas_do_not_overflow():
    assert Rectangles.of([(0, 2**17, 0, 2**17)]).areas.tolist() == [2**34]


@for_each(
    "row",
    [(0, 6, 0, 1), (0, 1, 0, 4), (-1, 1, 0, 1), (0, 1, -1, 1), (2, 2, 0, 1), (0, 1, 2, 1), (3, 2, 0, 1)],
)
def test_empty_or_off_the_grid(row):
    with pytest.raises(PlanError, match="rectangle-range"):
        Rectangles.of([(0, 1, 0, 1), row]).check(GRID)


def test_all_on_the_grid_are_good():
    Rectangles.of([(0, 5, 0, 3), (4, 5, 2, 3), (0, 1, 0, 1)]).check(GRID)
    Rectangles.of([]).check(GRID)


def test_random_ones_are_uniform_over_pairs_of_borders():
    """15 pairs of columns times 6 of rows, as likely each: chi-square at the 99.9 % point."""
    drawn = random_rectangles(GRID, 45_000, seed=3)
    drawn.check(GRID)
    counts = {}
    for row in rows_of(drawn):
        counts[row] = counts.get(row, 0) + 1
    assert len(counts) == 90
    distance = sum((count - 500) ** 2 / 500 for count in counts.values())
    assert chi2.ppf(0.001, 89) < distance < chi2.ppf(0.999, 89)


def test_one_seed_one_set():
    one, same, other = (random_rectangles(GRID, 50, seed) for seed in (7, 7, 8))
    assert rows_of(one) == rows_of(same) != rows_of(other)
    assert one.x0.dtype == np.int32


def test_a_single_cell_has_one_rectangle():
    single = CellGrid(box=(0.0, 0.0, 1.0, 1.0), columns=1, rows=1, planar=True)
    assert set(rows_of(random_rectangles(single, 20, 1))) == {(0, 1, 0, 1)}


def test_none_asked_for():
    assert random_rectangles(GRID, 0, 1).count == 0


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
