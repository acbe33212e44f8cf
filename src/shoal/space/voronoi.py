"""Voronoi cells of sites in an equal-area plane shared with the zones.

Envelope     cells are bounded by the convex hull of all sites and zones, widened by the typical distance between
             sites: the square root of (hull area / number of positions). Public geometry only.
Duplicates   positions that agree to the millimetre are one position with one cell.
Order        positions are sorted before anything is computed, so the order of sites cannot change a weight.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import shapely

from shoal.errors import GeometryError
from shoal.space.projection import LONLAT, equal_area_crs, transform, transform_xy
from shoal.space.sites import Sites
from shoal.space.zones import Zones

_MM = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class Plane:
    """Sites and zones in one plane whose areas are true."""

    xy: np.ndarray = field(repr=False)  # float64 [positions, 2], distinct and sorted
    cell_of_site: np.ndarray = field(repr=False)  # int [sites], index into xy
    inside: np.ndarray = field(repr=False)  # bool [positions]: lies in a zone
    zones: np.ndarray = field(repr=False)  # shapely polygons


def to_plane(sites: Sites, zones: Zones) -> Plane:
    """Sites and zones in a Lambert equal-area plane; planar metres stay as they are."""
    if sites.count == 0:
        raise GeometryError("empty-file", "there are no sites.", "Give at least one site.")
    if (sites.crs is None) != (zones.crs is None):
        raise GeometryError(
            "crs-mixed",
            f"sites and zones must be on the same map; sites have {sites.crs}, zones {zones.crs}.",
            "Name the coordinate system of both, or give both in planar metres.",
        )
    x, y, polygons = np.asarray(sites.x, float), np.asarray(sites.y, float), zones.geometry
    inside = zones.locate(x, y) >= 0 if sites.crs == zones.crs else None
    if zones.crs is not None and sites.crs is not None:
        lonlat = zones.to_lonlat()
        plane = equal_area_crs(lonlat.bounds)
        if inside is None:
            inside = zones.locate(*transform_xy(x, y, sites.crs, zones.crs)) >= 0
        x, y = transform_xy(x, y, sites.crs, plane)
        polygons = transform(lonlat.geometry, LONLAT, plane)
    xy, first, cell_of_site = np.unique(
        np.round(np.column_stack([x, y]) / _MM) * _MM, axis=0, return_index=True, return_inverse=True
    )
    return Plane(xy=xy, cell_of_site=cell_of_site.ravel(), inside=inside[first], zones=polygons)


def voronoi_cells(plane: Plane) -> np.ndarray:
    """One polygon per position, clipped to the envelope."""
    bound = envelope(plane)
    if len(plane.xy) == 1:
        return np.array([bound], dtype=object)
    points = shapely.multipoints(plane.xy)
    cells = shapely.get_parts(shapely.voronoi_polygons(points, extend_to=bound, ordered=True))
    return shapely.intersection(cells, bound)


def envelope(plane: Plane) -> shapely.Polygon:
    """Convex hull of sites and zones, widened by the typical distance between sites."""
    shapes = np.concatenate([shapely.points(plane.xy), plane.zones])
    hull = shapely.convex_hull(shapely.geometrycollections(shapes))
    spacing = float(np.sqrt(shapely.area(hull) / len(plane.xy)))
    return shapely.buffer(hull, spacing)
