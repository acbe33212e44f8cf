"""Hexagons of the H3 index as zones: the cells whose centre lies in a public area."""

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

    The area is public and configured. Cells whose centre is outside it are left out, so the zones follow its
    outline only roughly; a coarser resolution, or an area drawn a little larger, covers the edge.
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
    if expected > max_cells:
        raise PlanError(
            "grid-size",
            f"the area would have about {expected:.0f} H3 cells; at most {max_cells} are allowed.",
            "Choose a coarser resolution.",
        )
    cells = sorted({cell for part in shapely.get_parts(shape) for cell in _cells(part, resolution)})
    if not cells:
        raise GeometryError(
            "h3-area",
            f"no H3 cell of resolution {resolution} has its centre in the area.",
            "Choose a finer resolution or a larger area.",
        )
    return Zones(ids=tuple(cells), names=tuple(cells), geometry=_hexagons(cells), crs=LONLAT)


def _cells(part: Polygon, resolution: int) -> list[str]:
    rings = [[(lat, lon) for lon, lat in ring.coords] for ring in (part.exterior, *part.interiors)]
    return h3.polygon_to_cells(h3.LatLngPoly(rings[0], *rings[1:]), resolution)


def _hexagons(cells: list[str]) -> np.ndarray:
    shapes = []
    for cell in cells:
        ring = np.array([(lon, lat) for lat, lon in h3.cell_to_boundary(cell)])
        if np.ptp(ring[:, 0]) > 180:
            raise GeometryError(
                "antimeridian",
                f"H3 cell {cell} crosses the 180th meridian, where longitudes jump.",
                "Cut the area at the meridian.",
            )
        shapes.append(Polygon(ring))
    return np.array(shapes, dtype=object)


def _square_metres(shape: BaseGeometry) -> float:
    """Area on the sphere, good enough to count cells."""
    total = 0.0
    for part in shapely.get_parts(shape):
        _, south, _, north = part.bounds
        total += part.area * 111_195.0**2 * float(np.cos(np.radians((south + north) / 2)))
    return total
