"""Boxes on a map as cells, against the centres of all cells one by one."""

import numpy as np
import pytest

from shoal.errors import PlanError
from shoal.space.cells import CellGrid
from shoal.space.rectangles import as_boxes, map_box, read_boxes, snap

GRID = CellGrid(box=(-3.0, 10.0, 4.0, 15.0), columns=14, rows=7)


def centres():
    width, height = GRID.cell_size
    return [
        (c, r, -3.0 + (c + 0.5) * width, 10.0 + (r + 0.5) * height)
        for c in range(GRID.columns)
        for r in range(GRID.rows)
    ]


def test_the_cells_of_a_box_are_those_with_their_centre_in_it():
    generator = np.random.default_rng(5)
    for _ in range(200):
        west, east = np.sort(generator.uniform(-5, 6, 2))
        south, north = np.sort(generator.uniform(8, 17, 2))
        found = snap(GRID, np.array([[west, south, east, north]]))
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
