"""A public grid of cells over a public box, for trips: which cell a point lies in, and where a cell lies.

The box is declared. Points outside it belong to no cell. Coordinates become whole numbers of 1 / STEPS of a
cell, so that the cells a straight step crosses follow from integers alone.

>>> grid = CellGrid(box=(-122.52, 37.70, -122.36, 37.83), columns=256, rows=256)
>>> u, v, inside = grid.place(np.array([-122.44, -122.6]), np.array([37.765, 37.765]))
>>> (int(u[0]) // STEPS, int(v[0]) // STEPS, inside.tolist())
(128, 128, [True, False])

A polygon as the grid cells whose centre lies in it, and by how much area the two differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from shoal.errors import GeometryError, PlanError
from shoal.space.lattice import DEGREE_LAT_M, DEGREE_LON_M
from shoal.space.layers import read_layer
from shoal.space.plan import is_coordinate
from shoal.space.projection import LONLAT, transform

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
