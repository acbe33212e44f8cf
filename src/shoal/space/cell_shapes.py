"""A polygon as the grid cells whose centre lies in it, and by how much area the two differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from shoal.errors import GeometryError
from shoal.space.cells import CellGrid
from shoal.space.layers import read_layer
from shoal.space.projection import LONLAT, transform


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
    mask = _centres(geometry, grid)
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


def _centres(geometry: Any, grid: CellGrid) -> np.ndarray:
    x, y = grid.corner(np.arange(grid.columns) + 0.5, np.arange(grid.rows) + 0.5)
    shapely.prepare(geometry)
    return shapely.intersects_xy(geometry, *np.meshgrid(x, y))


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
