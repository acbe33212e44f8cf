"""A public grid of cells over a public box, for trips: which cell a point lies in, and where a cell lies.

The box is declared. Points outside it belong to no cell. Coordinates become whole numbers of 1 / STEPS of a
cell, so that the cells a straight step crosses follow from integers alone.

>>> grid = CellGrid(box=(-122.52, 37.70, -122.36, 37.83), columns=256, rows=256)
>>> u, v, inside = grid.place(np.array([-122.44, -122.6]), np.array([37.765, 37.765]))
>>> (int(u[0]) // STEPS, int(v[0]) // STEPS, inside.tolist())
(128, 128, [True, False])

A polygon becomes the cells whose centre lies in it, with the area by which the two differ. Rectangles of
cells are half-open ranges of columns and rows, in arrays.

>>> one = Rectangles.of([(0, 2, 1, 4)])
>>> one.count, int(one.areas[0])
(1, 6)

A box in map coordinates becomes the cells whose centre lies in it. A box is west, south, east, north. A
centre on its border lies inside. A box that holds no centre, because it is smaller than a cell or beyond the
grid, has no cells.

>>> grid = CellGrid(box=(0.0, 0.0, 8.0, 8.0), columns=8, rows=8, planar=True)
>>> snapped = snap(grid, np.array([[0.9, 0.0, 3.2, 2.5], [0.1, 0.1, 0.2, 0.2]]))
>>> snapped.x0.tolist(), snapped.x1.tolist(), snapped.y0.tolist(), snapped.y1.tolist()
([1, 0], [3, 0], [0, 0], [3, 0])

An Euler histogram holds numbers on the faces and inner edges of a grid, and answers rectangles from them.

answer(rectangle) = sum of its faces - sum of the edges inside it (+ full 2 x 2 blocks, where they are kept)

A trip whose path inside a rectangle is one piece without loops adds exactly 1. One that leaves and comes back
adds more, one that goes round in circles less; counting 2 x 2 blocks back in mends small circles.

>>> path = Euler(faces=np.ones((1, 3)), east=np.ones((1, 2)), north=np.ones((0, 3)))
>>> path.answers(Rectangles.of([(0, 3, 0, 1), (1, 2, 0, 1)])).tolist()
[1.0, 1.0]
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from shoal.errors import GeometryError, GuaranteeError, PlanError
from shoal.space.checks import LONLAT, transform
from shoal.space.lattice import DEGREE_LAT_M, DEGREE_LON_M
from shoal.space.layers import read_layer
from shoal.space.plan import check_width, is_coordinate

STEPS = 2**16  # to a cell
MOST_SIDE = 2**12


@dataclass(frozen=True, kw_only=True)
class CellGrid:
    """columns x rows cells over west, south, east, north; column 0 in the west, row 0 in the south."""

    box: tuple[float, float, float, float]
    columns: int
    rows: int
    planar: bool = False  # x, y in metres instead of degrees

    def __post_init__(self) -> None:
        for name, side in (("columns", self.columns), ("rows", self.rows)):
            if not 1 <= side <= MOST_SIDE:
                message = f"{name} must be from 1 to {MOST_SIDE}; got {side}."
                raise PlanError("grid-size", message, "Pass --cells 256, say.")
        check_box(self.box, self.planar)

    @property
    def count(self) -> int:
        return self.columns * self.rows

    @property
    def cell_size(self) -> tuple[float, float]:
        """Width and height of a cell in units of the coordinates."""
        west, south, east, north = self.box
        return (east - west) / self.columns, (north - south) / self.rows

    @property
    def cell_m(self) -> tuple[float, float]:
        """Width and height of a cell in metres, on the middle latitude."""
        width, height = self.cell_size
        if self.planar:
            return width, height
        middle = math.radians((self.box[1] + self.box[3]) / 2)
        return width * DEGREE_LON_M * math.cos(middle), height * DEGREE_LAT_M

    def place(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whole steps from the south-west corner, int64, and whether the point is in the box.

        The east and north borders belong to the last cells. Points outside have steps 0, 0.
        """
        west, south, east, north = self.box
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        inside = (x >= west) & (x <= east) & (y >= south) & (y <= north)
        with np.errstate(invalid="ignore"):
            u = np.floor((np.where(inside, x, west) - west) / (east - west) * self.columns * STEPS)
            v = np.floor((np.where(inside, y, south) - south) / (north - south) * self.rows * STEPS)
        u = np.clip(u, 0, self.columns * STEPS - 1).astype(np.int64)
        v = np.clip(v, 0, self.rows * STEPS - 1).astype(np.int64)
        return u, v, inside

    def corner(self, column: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of the south-west corner of cells (or of borders)."""
        width, height = self.cell_size
        return self.box[0] + np.asarray(column) * width, self.box[1] + np.asarray(row) * height

    def describe(self) -> dict[str, Any]:
        """For a manifest: enough to place a point with one line of arithmetic."""
        return {"box": list(self.box), "columns": self.columns, "rows": self.rows, "planar": self.planar}


def check_box(box: tuple[float, float, float, float], planar: bool) -> None:
    """Four finite numbers, west < east, south < north; on the globe none of them beyond its edges."""
    say = "Give west,south,east,north in that order."
    if len(box) != 4 or not all(is_coordinate(value) for value in box):
        raise PlanError("box-range", "a box is four numbers within 1e12.", say)
    west, south, east, north = box
    if not planar and (abs(west) > 180 or abs(east) > 180 or abs(south) > 90 or abs(north) > 90):
        raise PlanError("box-range", f"the box lies beyond the globe: {tuple(box)}.", say)
    for low, high, first, second in (("west", "east", west, east), ("south", "north", south, north)):
        if first <= second:
            continue
        wrong = f"the order of the box is wrong: its {low}, {first}, lies {high} of its {high}, {second}."
        if low == "south" or planar:
            raise PlanError("box-range", wrong, say)
        raise PlanError(
            "box-antimeridian",
            wrong,
            f"{say} A box across the antimeridian (180 degrees) is not supported: project the points to "
            "metres and pass --planar.",
        )
    if west == east or south == north:
        raise PlanError("box-range", f"the box has no area: {tuple(box)}.", say)
    if not planar:
        check_width(west, east)


@dataclass(frozen=True, kw_only=True, eq=False)
class CellShape:
    """Cells that stand for a polygon. Areas are shares of the polygon's own."""

    mask: np.ndarray = field(repr=False)  # bool [rows, columns]
    missed: float  # of the polygon, outside the cells
    added: float  # of the cells, outside the polygon
    outside: float  # of the polygon, beyond the grid; part of `missed`
    parts: int  # pieces of the cells that hang together by edges
    holes: int  # cells or groups of cells left out in the middle

    @property
    def cells(self) -> int:
        return int(self.mask.sum())


def cells_of(geometry: Any, grid: CellGrid) -> CellShape:
    """The cells of a polygon or several, in the coordinates of the grid."""
    if geometry is None or geometry.is_empty or geometry.area <= 0:
        raise GeometryError("polygon-area", "a shape to count in must have an area.", "Pass a polygon.")
    if not geometry.is_valid:
        raise GeometryError(
            "polygon-invalid",
            f"the shape crosses itself: {shapely.is_valid_reason(geometry)}.",
            "Repair it, with a GIS or shapely.make_valid.",
        )
    x, y = grid.corner(np.arange(grid.columns) + 0.5, np.arange(grid.rows) + 0.5)
    shapely.prepare(geometry)
    mask = shapely.intersects_xy(geometry, *np.meshgrid(x, y))  # cells whose centre lies in the shape
    inside = geometry.intersection(shapely.box(*grid.box))
    common = _common_area(inside, mask, grid)
    width, height = grid.cell_size
    parts, holes = _parts(mask)
    return CellShape(
        mask=mask,
        missed=1 - common / geometry.area,
        added=(int(mask.sum()) * width * height - common) / geometry.area,
        outside=1 - inside.area / geometry.area,
        parts=parts,
        holes=holes,
    )


def _common_area(geometry: Any, mask: np.ndarray, grid: CellGrid) -> float:
    """Area of the polygon within the cells: cells off its border are counted, those on it are cut."""
    width, height = grid.cell_size
    row, column = np.nonzero(mask)
    west, south = grid.corner(column, row)
    boxes = shapely.box(west, south, west + width, south + height)
    whole = shapely.contains_properly(geometry, boxes)
    cut = shapely.area(shapely.intersection(geometry, boxes[~whole]))
    return float(whole.sum() * width * height + cut.sum())


def _parts(mask: np.ndarray) -> tuple[int, int]:
    """Groups of cells joined by edges, and groups of other cells (joined by corners too) they enclose."""
    from scipy.ndimage import label

    parts = int(label(mask)[1])  # pyright: ignore[reportIndexIssue]
    around = np.pad(~mask, 1, constant_values=True)
    return parts, int(label(around, structure=np.ones((3, 3)))[1]) - 1  # pyright: ignore[reportIndexIssue]


def read_shape(path: str | Path, grid: CellGrid) -> Any:
    """All polygons of a file as one shape, in the coordinates of the grid."""
    layer = read_layer(path, crs="planar" if grid.planar else None)
    return shapely.union_all(in_coordinates(layer.geometry, layer.crs, grid))


def in_coordinates(geometry: np.ndarray, crs: str | None, grid: CellGrid) -> np.ndarray:
    """Shapes in longitude and latitude where the grid is; planar ones as they are."""
    if grid.planar or crs == LONLAT:
        return geometry
    if crs is None:
        raise GeometryError(
            "crs-missing",
            "the shapes have no coordinate system, and the grid is in longitude and latitude.",
            "Write them in longitude and latitude.",
        )
    return transform(geometry, crs, LONLAT)


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Columns x0 <= x < x1 and rows y0 <= y < y1 of every rectangle; int32."""

    x0: np.ndarray = field(repr=False)
    x1: np.ndarray = field(repr=False)
    y0: np.ndarray = field(repr=False)
    y1: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int]]) -> Rectangles:
        """From (x0, x1, y0, y1) tuples."""
        table = np.array(list(rows), np.int32).reshape(-1, 4)
        return cls(*(np.ascontiguousarray(column) for column in table.T))

    @property
    def count(self) -> int:
        return self.x0.size

    @property
    def areas(self) -> np.ndarray:
        """int64: cells."""
        return (self.x1 - self.x0).astype(np.int64) * (self.y1 - self.y0)

    def take(self, index: np.ndarray) -> Rectangles:
        return Rectangles(self.x0[index], self.x1[index], self.y0[index], self.y1[index])

    def check(self, grid: CellGrid) -> None:
        """Non-empty and on the grid."""
        good = (self.x0 >= 0) & (self.x0 < self.x1) & (self.x1 <= grid.columns)
        good &= (self.y0 >= 0) & (self.y0 < self.y1) & (self.y1 <= grid.rows)
        if not good.all():
            raise PlanError(
                "rectangle-range",
                f"a rectangle is empty or leaves the grid of {grid.columns} x {grid.rows} cells.",
                "Give ranges of cells with x0 < x1 and y0 < y1 inside the grid.",
            )


def rectangles_digest(rectangles: Rectangles) -> str:
    """SHA-256 of the rectangles to serve: little-endian x0, x1, y0, y1."""
    sides = np.stack([rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1]).astype("<i4")
    return hashlib.sha256(sides.tobytes()).hexdigest()


def random_rectangles(grid: CellGrid, count: int, seed: int) -> Rectangles:
    """Both intervals uniform over ordered pairs of cell borders; public, from a public seed."""
    generator = np.random.Generator(np.random.Philox(seed))

    def interval(side: int) -> tuple[np.ndarray, np.ndarray]:
        a = generator.integers(0, side + 1, count)
        b = generator.integers(0, side, count)
        b = b + (b >= a)  # another border, each as likely
        return np.minimum(a, b).astype(np.int32), np.maximum(a, b).astype(np.int32)

    x0, x1 = interval(grid.columns)
    y0, y1 = interval(grid.rows)
    return Rectangles(x0, x1, y0, y1)


SIDES = ("west", "south", "east", "north")


def snap(grid: CellGrid, boxes: np.ndarray) -> Rectangles:
    """The cells of every box, float64 [boxes, 4]; a box without cells becomes an empty range."""
    west, south, east, north = np.asarray(boxes, np.float64).reshape(-1, 4).T
    width, height = grid.cell_size
    x0, x1 = _range(west, east, grid.box[0], width, grid.columns)
    y0, y1 = _range(south, north, grid.box[1], height, grid.rows)
    empty = (x1 <= x0) | (y1 <= y0)
    return Rectangles(*(np.where(empty, 0, side).astype(np.int32) for side in (x0, x1, y0, y1)))


def _range(low, high, origin: float, size: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """First cell with its centre at or above `low`, and the one after the last at or below `high`."""
    first = np.ceil(_cells(low, origin, size) - 0.5)
    last = np.floor(_cells(high, origin, size) - 0.5)
    return np.clip(first, 0, count), np.clip(last + 1, 0, count)


def _cells(value, origin: float, size: float) -> np.ndarray:
    """Distance from the origin in cells; 1e-9 of a cell is rounding of the coordinates, not a distance."""
    cells = (value - origin) / size
    near = np.round(2 * cells) / 2
    return np.where(np.abs(cells - near) < 1e-9, near, cells)


def map_box(grid: CellGrid, rectangle: tuple[int, int, int, int]) -> tuple[float, float, float, float]:
    """The corners of a range of cells (x0, x1, y0, y1), as west, south, east, north."""
    x0, x1, y0, y1 = rectangle
    (west, east), (south, north) = grid.corner(np.array([x0, x1]), np.array([y0, y1]))
    return float(west), float(south), float(east), float(north)


def as_boxes(boxes: Sequence, planar: bool) -> np.ndarray:
    """float64 [boxes, 4] from one box or several, each checked."""
    try:
        table: np.ndarray = np.atleast_2d(np.asarray(boxes, np.float64)).reshape(-1, 4)
    except (TypeError, ValueError):
        raise PlanError(
            "box-range", "a box is four numbers.", "Give west, south, east, north in that order."
        ) from None
    for west, south, east, north in table.tolist():
        check_box((west, south, east, north), planar)
    return table


def read_boxes(path: str | Path, planar: bool) -> tuple[list[str], np.ndarray]:
    """Names and boxes of a CSV file with columns west, south, east, north and perhaps name."""
    path = Path(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise PlanError("boxes-file", f"there is no file {path}.", "Check its name and folder.") from None
    except (OSError, UnicodeDecodeError, csv.Error):
        raise PlanError("boxes-file", f"{path} cannot be read.", "Pass a CSV file in UTF-8.") from None
    _check_columns(path, rows)
    names, boxes = [], []
    for number, row in enumerate(rows, 1):
        west, south, east, north = (_number(row[side]) for side in SIDES)
        try:
            check_box((west, south, east, north), planar)
        except PlanError as error:
            raise PlanError(error.code, f"{path}, row {number}: {error.message}", error.remedy) from None
        names.append(row.get("name") or str(number))
        boxes.append((west, south, east, north))
    return names, np.array(boxes, np.float64)


def _check_columns(path: Path, rows: list[dict]) -> None:
    missing = [side for side in SIDES if not rows or side not in rows[0]]
    if not missing:
        return
    remedy = "Its first line names them: west,south,east,north and perhaps name."
    if rows and any(";" in (name or "") for name in rows[0]):
        remedy = "Its columns are parted by semicolons: part them by commas, with points in the numbers."
    raise PlanError("boxes-file", f"{path} has no rows, or lacks the columns {', '.join(missing)}.", remedy)


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return math.nan


@dataclass(frozen=True, kw_only=True, eq=False)
class Euler:
    """faces [rows, columns]; east [rows, columns - 1] and north [rows - 1, columns] are the inner edges."""

    faces: np.ndarray = field(repr=False)
    east: np.ndarray | None = field(default=None, repr=False)  # None: faces alone answer
    north: np.ndarray | None = field(default=None, repr=False)
    blocks: np.ndarray | None = field(default=None, repr=False)  # [rows - 1, columns - 1]

    def __post_init__(self) -> None:
        rows, columns = self.faces.shape
        shapes = {
            "east": (rows, columns - 1),
            "north": (rows - 1, columns),
            "blocks": (rows - 1, columns - 1),
        }
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values is not None and values.shape != shape:
                raise GuaranteeError("euler-shape", f"{name} must be {shape} for {rows} x {columns} faces.")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.faces.shape[0], self.faces.shape[1]

    def answers(self, rectangles: Rectangles) -> np.ndarray:
        """One number per rectangle, by prefix sums."""
        x0, x1, y0, y1 = (
            np.asarray(side, np.int64)
            for side in (rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1)
        )
        total = _between(self._sums["faces"], x0, x1, y0, y1)
        for name, sign, in_x, in_y in (("east", -1, 1, 0), ("north", -1, 0, 1), ("blocks", 1, 1, 1)):
            if name in self._sums:
                total = total + sign * _between(self._sums[name], x0, x1 - in_x, y0, y1 - in_y)
        return total

    @cached_property
    def _sums(self) -> dict[str, np.ndarray]:
        parts = {name: getattr(self, name) for name in ("faces", "east", "north", "blocks")}
        return {name: _prefix(values) for name, values in parts.items() if values is not None}


def _prefix(values: np.ndarray) -> np.ndarray:
    """Sums over all rows below and columns left of a corner, [rows + 1, columns + 1]."""
    wide = np.int64 if np.issubdtype(values.dtype, np.integer) else np.float64
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1), wide)
    sums[1:, 1:] = values.astype(wide).cumsum(axis=0).cumsum(axis=1)
    return sums


def _between(sums: np.ndarray, x0, x1, y0, y1) -> np.ndarray:
    return sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]
