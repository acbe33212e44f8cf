"""A square grid of zones over a public box: squares of equal area, measured in metres.

The box is configured, never read off events: a box around the data would tell who is at its edge.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import shapely

from shoal.errors import PlanError
from shoal.space.checks import check_coordinates
from shoal.space.layers import given_crs
from shoal.space.plan import check_area, is_coordinate
from shoal.space.projection import LONLAT, equal_area_crs, is_lonlat, transform_xy, unit_m
from shoal.space.zones import Zones

MAX_CELLS = 1_000_000
Box = tuple[float, float, float, float]


def square_grid(box: Box, cell_m: float, *, crs: str | None = LONLAT, max_cells: int = MAX_CELLS) -> Zones:
    """Squares of side `cell_m` covering `box` (west, south, east, north), from its south-west corner.

    On the globe (`crs` in degrees) they are square in a Lambert equal-area plane centred on the box and come
    back as lon/lat corners; in a projected or planar `crs` they are squares on its map.
    Ids count rows northward and columns eastward: r012c034. Row by row, west to east.
    """
    crs = given_crs(crs)
    (rows, columns), west, south, side, plane = _layout(box, cell_m, crs)
    if rows * columns > max_cells:
        raise PlanError(
            "grid-size",
            f"the grid would have {rows} x {columns} cells; at most {max_cells} are allowed.",
            "Choose a larger cell or a smaller box.",
        )
    x, y = np.meshgrid(west + side * np.arange(columns + 1), south + side * np.arange(rows + 1))
    if plane is not None:
        x, y = transform_xy(x, y, plane, str(crs))
    ids = _cell_ids(rows, columns)
    return Zones(ids=ids, names=ids, geometry=_cells(x, y), crs=crs)


def grid_shape(box: Box, cell_m: float, *, crs: str | None = LONLAT) -> tuple[int, int]:
    """Rows and columns of `square_grid`, without making its zones."""
    return _layout(box, cell_m, given_crs(crs))[0]


def _layout(box: Box, cell_m: float, crs: str | None) -> tuple[tuple[int, int], float, float, float, Any]:
    """Rows and columns; the south-west corner and the side of a cell in the plane; the plane of a globe."""
    box = _check_box(box, cell_m, crs)
    plane = equal_area_crs(box) if is_lonlat(crs) else None
    west, south, east, north = box if plane is None else _flat_bounds(box, str(crs), plane)
    side = cell_m if plane is not None or crs is None else cell_m / unit_m(crs)
    columns = max(1, math.ceil((east - west) / side - 1e-9))
    rows = max(1, math.ceil((north - south) / side - 1e-9))
    return (rows, columns), west, south, side, plane


def _cells(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Quadrilaterals between corner points [rows + 1, columns + 1]; neighbours share corners exactly."""
    low, high = slice(None, -1), slice(1, None)
    around = [(low, low), (low, high), (high, high), (high, low), (low, low)]
    ring = np.stack([np.stack([x[at], y[at]], axis=-1) for at in around], axis=2)
    return np.asarray(shapely.polygons(ring.reshape(-1, 5, 2)))


def _cell_ids(rows: int, columns: int) -> tuple[str, ...]:
    row_digits, column_digits = max(3, len(str(rows - 1))), max(3, len(str(columns - 1)))
    return tuple(f"r{r:0{row_digits}d}c{c:0{column_digits}d}" for r in range(rows) for c in range(columns))


def _flat_bounds(box: Box, crs: str, plane) -> Box:
    """Bounds in the plane of the box's outline, which bends there."""
    outline = shapely.get_coordinates(shapely.segmentize(shapely.box(*box), max(box[2] - box[0], 1e-9) / 32))
    x, y = transform_xy(outline[:, 0], outline[:, 1], crs, plane)
    return float(x.min()), float(y.min()), float(x.max()), float(y.max())


def _check_box(box: Box, cell_m: float, crs: str | None) -> Box:
    if not (is_coordinate(cell_m) and cell_m >= 1e-3):
        raise PlanError(
            "cell-size", f"the cell side must be above 0 metres; got {cell_m!r:.40}.", "Use 500, say."
        )
    check_area(box)
    check_coordinates(np.array([box[:2], box[2:]], float), crs, "grid box", planar_said=True)
    west, south, east, north = (float(value) for value in box)
    return west, south, east, north
