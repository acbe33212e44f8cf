"""Hexagons of the H3 index as zones: the cells that overlap a public area."""

from __future__ import annotations

import h3
import numpy as np
import shapely
from shapely.geometry import Polygon
from shapely.geometry.base import BaseGeometry

from shoal.errors import GeometryError, PlanError
from shoal.space.checks import check_coordinates
from shoal.space.projection import LONLAT
from shoal.space.zones import Zones

MAX_CELLS = 1_000_000


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
    _check_count(expected, max_cells)
    parts = [_cells(part, resolution, max_cells) for part in shapely.get_parts(shape)]
    cells = sorted(set().union(*parts))
    return Zones(ids=tuple(cells), names=tuple(cells), geometry=_hexagons(cells), crs=LONLAT)


def _cells(part: Polygon, resolution: int, max_cells: int) -> set[str]:
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
        _check_count(len(cells), max_cells)
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


def _check_count(cells: float, max_cells: int) -> None:
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
