"""Voronoi cells of sites in an equal-area plane shared with the zones.

Envelope     cells are bounded by the convex hull of sites, zones and city, widened by the typical distance
             between sites: the square root of (hull area / number of positions). Public geometry only.
Duplicates   positions that agree to the millimetre are one position with one cell.
Order        positions are sorted before anything is computed, so the order of sites cannot change a weight.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from shoal.errors import GeometryError
from shoal.space.checks import project_valid
from shoal.space.projection import LONLAT, equal_area_crs, transform_xy
from shoal.space.sites import Sites
from shoal.space.zones import Zones

_MM = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class Plane:
    """Sites and zones in one plane whose areas are true."""

    xy: np.ndarray = field(repr=False)  # float64 [positions, 2], distinct and sorted
    cell_of_site: np.ndarray = field(repr=False)  # int [sites], index into xy
    inside: np.ndarray = field(repr=False)  # bool [positions]: lies in the city
    zones: np.ndarray = field(repr=False)  # shapely polygons
    city: BaseGeometry | None = None  # where people can be; None: the zones


def to_plane(sites: Sites, zones: Zones, city: BaseGeometry | None = None) -> Plane:
    """Sites and zones in a Lambert equal-area plane; planar metres stay as they are."""
    if sites.count == 0:
        raise GeometryError("empty-file", "there are no sites.", "Give at least one site.")
    if (sites.crs is None) != (zones.crs is None):
        raise GeometryError(
            "crs-mixed",
            f"sites and zones must be on the same map; sites have {sites.crs}, zones {zones.crs}.",
            "Name the coordinate system of both, or give both in planar metres.",
        )
    x, y = np.asarray(sites.x, np.float64), np.asarray(sites.y, np.float64)
    if sites.crs is not None and zones.crs is not None and sites.crs != zones.crs:
        x, y = transform_xy(x, y, sites.crs, zones.crs)
    _check_near(x, y, zones.bounds)
    inside = zones.locate(x, y) >= 0 if city is None else shapely.intersects_xy(city, x, y)
    polygons = zones.geometry
    if zones.crs is not None:
        lonlat = zones.to_lonlat()
        plane = equal_area_crs(lonlat.bounds)
        x, y = transform_xy(x, y, zones.crs, plane)
        polygons = project_valid(lonlat.geometry, LONLAT, plane)
        if city is not None:
            city = project_valid(np.array([city], dtype=object), zones.crs, plane)[0]
    xy, cell_of_site = np.unique(np.round(np.column_stack([x, y]) / _MM) * _MM, axis=0, return_inverse=True)
    cell_of_site = cell_of_site.ravel()
    cell_inside = np.bincount(cell_of_site, weights=inside, minlength=len(xy)) > 0
    return Plane(xy=xy, cell_of_site=cell_of_site, inside=cell_inside, zones=polygons, city=city)


def _check_near(x: np.ndarray, y: np.ndarray, bounds: tuple[float, float, float, float]) -> None:
    """Some site must lie near the zones; else a file is of another place, or x and y are swapped."""
    west, south, east, north = bounds
    wide = max(east - west, north - south)

    def near(x: np.ndarray, y: np.ndarray) -> bool:
        in_x = (x >= west - wide) & (x <= east + wide)
        return bool((in_x & (y >= south - wide) & (y <= north + wide)).any())

    if near(x, y):
        return
    if near(y, x):
        raise GeometryError(
            "sites-swapped",
            f"no site lies near the zones, but some would with x and y swapped; "
            f"the first is ({x[0]:g}, {y[0]:g}).",
            "Give longitude (or east) as x and latitude (or north) as y.",
        )
    raise GeometryError(
        "sites-away",
        f"no site lies near the zones; the first site is ({x[0]:g}, {y[0]:g}), "
        f"the zones span {west:g} to {east:g} and {south:g} to {north:g}.",
        "Check that both files are of the same city and in the coordinate systems they claim.",
    )


def voronoi_cells(plane: Plane) -> np.ndarray:
    """One polygon per position, clipped to the envelope."""
    bound = envelope(plane)
    if len(plane.xy) == 1:
        return np.array([bound], dtype=object)
    points = shapely.multipoints(plane.xy)
    cells = shapely.get_parts(shapely.voronoi_polygons(points, extend_to=bound, ordered=True))
    return shapely.intersection(cells, bound)


def envelope(plane: Plane) -> BaseGeometry:
    """Convex hull of sites, zones and city, widened by the typical distance between sites."""
    city = np.empty((0, 2)) if plane.city is None else shapely.get_coordinates(plane.city)
    corners = np.concatenate([plane.xy, shapely.get_coordinates(plane.zones), city])
    hull = shapely.MultiPoint(corners).convex_hull
    spacing = float(np.sqrt(hull.area / len(plane.xy)))
    return hull.buffer(spacing)
