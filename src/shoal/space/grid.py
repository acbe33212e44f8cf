"""Zones made over a public box: squares of equal area, measured in metres, or hexagons of the H3 index.

The box is configured, never read off events: a box around the data would tell who is at its edge.
"""

from __future__ import annotations

import math
from typing import Any

import h3
import numpy as np
import shapely
from shapely.geometry import Polygon
from shapely.geometry.base import BaseGeometry

from shoal.errors import GeometryError, PlanError
from shoal.space.checks import LONLAT, check_coordinates, equal_area_crs, is_lonlat, transform_xy, unit_m
from shoal.space.layers import given_crs
from shoal.space.places import Zones
from shoal.space.plan import check_area, check_width, is_coordinate

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
    if is_lonlat(crs):
        check_width(box[0], box[2])
    west, south, east, north = (float(value) for value in box)
    return west, south, east, north


def h3_zones(
    area: BaseGeometry | tuple[float, float, float, float], resolution: int, *, max_cells: int = MAX_CELLS
) -> Zones:
    """Zones named by their H3 index, over a lon/lat polygon or box (west, south, east, north), sorted by id.

    The area is public and configured. All cells that overlap it are zones, so every point of the area lies in
    one; at the edge they reach beyond it, by less than a cell.
    """
    if isinstance(resolution, bool) or not isinstance(resolution, int) or not 0 <= resolution <= 15:
        raise PlanError(
            "h3-resolution", f"H3 resolutions go from 0 to 15; got {resolution!r}.", "8 is about 0.7 km2."
        )
    shape = area if isinstance(area, BaseGeometry) else shapely.box(*area)
    if shape.geom_type not in ("Polygon", "MultiPolygon") or shape.is_empty or not shape.is_valid:
        raise GeometryError(
            "h3-area", f"the area must be a valid polygon; got {shape.geom_type}.", "Pass a polygon or a box."
        )
    check_coordinates(shapely.get_coordinates(shape), LONLAT, "H3 area")
    expected = _square_metres(shape) / h3.average_hexagon_area(resolution, unit="m^2")
    _check_number(expected, max_cells)
    parts = [_cells_over(part, resolution, max_cells) for part in shapely.get_parts(shape)]
    cells = sorted(set().union(*parts))
    return Zones(ids=tuple(cells), names=tuple(cells), geometry=_hexagons(cells), crs=LONLAT)


def _cells_over(part: Polygon, resolution: int, max_cells: int) -> set[str]:
    """Cells that overlap a polygon: those with their centre in it, then their neighbours that reach into it.

    The cells of a polygon hang together, so going from neighbour to neighbour finds all of them, also in
    parts too narrow to hold a centre. (H3 has its own search for this since 4.2, as an experiment.)
    """
    rings = [[(lat, lon) for lon, lat in ring.coords] for ring in (part.exterior, *part.interiors)]
    cells = set(h3.polygon_to_cells(h3.LatLngPoly(rings[0], *rings[1:]), resolution))
    lon, lat = part.representative_point().coords[0]
    cells.add(h3.latlng_to_cell(lat, lon, resolution))
    shapely.prepare(part)
    newest, refused = set(cells), set()
    while newest:
        near = {other for cell in newest for other in h3.grid_disk(cell, 1)} - cells - refused
        newest = {cell for cell in near if _overlaps(cell, part)}
        refused |= near - newest
        cells |= newest
        _check_number(len(cells), max_cells)
    return cells


def _overlaps(cell: str, part: Polygon) -> bool:
    """The cell and the polygon share an area; across the 180th meridian, on either side of it."""
    ring = _ring(cell)
    if np.ptp(ring[:, 0]) <= 180:
        return _share_area(Polygon(ring), part)
    east = np.where(ring[:, :1] < 0, ring + np.array([360, 0]), ring)
    return any(_share_area(Polygon(east - np.array([turn, 0])), part) for turn in (0, 360))


def _share_area(hexagon: Polygon, part: Polygon) -> bool:
    return part.intersects(hexagon) and not part.touches(hexagon)


def _ring(cell: str) -> np.ndarray:
    return np.array([(lon, lat) for lat, lon in h3.cell_to_boundary(cell)])


def _hexagons(cells: list[str]) -> np.ndarray:
    shapes = []
    for cell in cells:
        ring = _ring(cell)
        if np.ptp(ring[:, 0]) > 180:
            raise GeometryError(
                "antimeridian",
                f"H3 cell {cell} crosses the 180th meridian, where longitudes jump.",
                "End the area a cell before the meridian.",
            )
        shapes.append(Polygon(ring))
    return np.array(shapes, dtype=object)


def _check_number(cells: float, max_cells: int) -> None:
    if cells > max_cells:
        raise PlanError(
            "grid-size",
            f"the area would have about {cells:.0f} H3 cells; at most {max_cells} are allowed.",
            "Choose a coarser resolution.",
        )


def _square_metres(shape: BaseGeometry) -> float:
    """Area on the sphere, good enough to count cells."""
    total = 0.0
    for part in shapely.get_parts(shape):
        _, south, _, north = part.bounds
        total += part.area * 111_195.0**2 * float(np.cos(np.radians((south + north) / 2)))
    return total
