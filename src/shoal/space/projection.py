"""Coordinate systems: names for them, and an equal-area plane chosen from public geometry.

A `crs` in this package is "EPSG:4326" (longitude, latitude), another name that PROJ understands, or None for
planar metres with no place on the globe. Axes are always x (east) before y (north).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pyproj
import shapely
from pyproj.exceptions import CRSError, ProjError

from shoal.errors import GeometryError

LONLAT = "EPSG:4326"
_NAME_IT = 'Pass a name such as "EPSG:4326" or "EPSG:2154", or "planar" for metres without a place.'


def equal_area_crs(bounds: tuple[float, float, float, float]) -> pyproj.CRS:
    """Lambert azimuthal equal-area in metres, centred on lon/lat `bounds` (west, south, east, north)."""
    west, south, east, north = bounds
    lon, lat = (west + east) / 2, (south + north) / 2
    if not (math.isfinite(lon) and math.isfinite(lat) and abs(lat) <= 90):
        raise GeometryError("bounds-range", f"bounds must be finite longitudes and latitudes; got {bounds}.")
    # Rounded so that the projection has a short name that a reader of the manifest can type in.
    return pyproj.CRS.from_proj4(
        f"+proj=laea +lat_0={round(lat, 4)} +lon_0={round(lon, 4)} +datum=WGS84 +units=m +type=crs"
    )


def transform_xy(x, y, source: str | pyproj.CRS, target: str | pyproj.CRS) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates `x`, `y` of `source` in `target`."""
    try:
        new_x, new_y = _transformer(_text(source), _text(target)).transform(x, y)
    except ProjError:
        message = f"coordinates cannot be brought from {str(source)[:80]!r} to another coordinate system."
        raise GeometryError("crs-kind", message, _NAME_IT) from None
    return np.asarray(new_x, float), np.asarray(new_y, float)


def transform(geometry: np.ndarray, source: str | pyproj.CRS, target: str | pyproj.CRS) -> np.ndarray:
    """Shapely geometries of `source` in `target`, vertex by vertex."""

    def move(xy: np.ndarray) -> np.ndarray:
        return np.column_stack(transform_xy(xy[:, 0], xy[:, 1], source, target))

    return shapely.transform(geometry, move)


def crs_name(crs: object) -> str | None:
    """The short name of a CRS given in any form PROJ reads; lon/lat on WGS 84 is always "EPSG:4326"."""
    if crs is None:
        return None
    try:
        parsed = pyproj.CRS.from_user_input(crs)
    except (CRSError, UnicodeError, TypeError, ValueError, AttributeError):
        raise GeometryError(
            "crs-unknown", f"the coordinate system is not one PROJ knows: {str(crs)[:80]!r}.", _NAME_IT
        ) from None
    if parsed.equals(pyproj.CRS("OGC:CRS84"), ignore_axis_order=True):
        return LONLAT
    if parsed.equals(pyproj.CRS(LONLAT), ignore_axis_order=True):
        return LONLAT
    _check_earth(parsed, crs)
    authority = parsed.to_authority(min_confidence=90)
    return ":".join(authority) if authority else parsed.to_string()


def _check_earth(parsed: pyproj.CRS, crs: object) -> None:
    """Degrees or a plane on the Earth: PROJ knows the Moon, heights and drawing boards too."""
    ellipsoid = parsed.ellipsoid
    if not (parsed.is_geographic or parsed.is_projected) or ellipsoid is None:
        why = "neither longitude and latitude nor a projection"
    elif not 6.3e6 < ellipsoid.semi_major_metre < 6.5e6:
        why = "not on the Earth"
    else:
        return
    raise GeometryError("crs-kind", f"the coordinate system {str(crs)[:80]!r} is {why}.", _NAME_IT)


def geometry_digest(crs: str | None, ids: tuple[str, ...], coordinates: Iterable[bytes]) -> str:
    """SHA-256 of ids, coordinate system and coordinates: names zones or sites in a manifest."""
    digest = hashlib.sha256(json.dumps([crs, *ids]).encode())
    for each in coordinates:
        digest.update(each)
    return digest.hexdigest()


def is_lonlat(crs: str | None) -> bool:
    """Whether coordinates are degrees of longitude and latitude."""
    return crs is not None and (crs == LONLAT or pyproj.CRS.from_user_input(crs).is_geographic)


def unit_m(crs: str) -> float:
    """Metres per unit of a projected coordinate system: 1, or 0.3048 for feet."""
    return float(pyproj.CRS.from_user_input(crs).axis_info[0].unit_conversion_factor)


def _text(crs: str | pyproj.CRS) -> str:
    return crs if isinstance(crs, str) else crs.to_wkt()


@lru_cache(maxsize=32)
def _transformer(source: str, target: str) -> pyproj.Transformer:
    return pyproj.Transformer.from_crs(source, target, always_xy=True)
