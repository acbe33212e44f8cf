"""Coordinate systems and checks of public geometry.

Systems have names, and an equal-area plane is chosen from public geometry.

A `crs` in this package is "EPSG:4326" (longitude, latitude), another name that PROJ understands, or None for
planar metres with no place on the globe. Axes are always x (east) before y (north).

Then the checks on public geometry: what makes zones or sites unusable, named by id and place. All of it is
public, so messages may show ids and coordinates.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyproj
import shapely
from pyproj.exceptions import CRSError, ProjError

from shoal.errors import GeometryError, PlanError
from shoal.space.plan import Choice

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


SLIVER = 0.01  # overlaps below this share of the smaller zone, and holes below it of the median zone, pass
FAR_HOURS = 4.0  # no place has a clock so far from the sun's
AROUND = 5.0  # degrees beyond the area of a coordinate system
MOST_UNITS = 1e12  # of a coordinate: areas of larger ones overflow
MOST_OVERLAPS = 1000  # pairs, after which no more are looked for
ZONES_AT_ONCE, PAIRS_AT_ONCE = 16, 250
_POLYGON, _MULTIPOLYGON = 3, 6


class GeometryWarning(UserWarning):
    """Something about public geometry that the owner should know and that does not stop a run."""


@dataclass(frozen=True, kw_only=True)
class ZoneChecks:
    """What to do about faults of zones: repair invalid polygons; stop, warn or allow the others."""

    repair: bool = False
    on_overlap: Choice = "stop"
    holes: Choice = "warn"
    sliver: float = SLIVER

    def __post_init__(self) -> None:
        for name in ("on_overlap", "holes"):
            if getattr(self, name) not in ("stop", "warn", "allow"):
                raise PlanError("choice", f"{name} must be stop, warn or allow; got {getattr(self, name)!r}.")
        if not 0 <= self.sliver < 1:
            raise PlanError("sliver-range", f"sliver must be a share from 0 to below 1; got {self.sliver}.")


def check_zones(
    ids: tuple[str, ...],
    geometry: np.ndarray,
    crs: str | None,
    checks: ZoneChecks,
    *,
    planar_said: bool = False,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Usable polygons and notes on what was repaired or let pass."""
    _check_polygons(ids, geometry)
    check_coordinates(shapely.get_coordinates(geometry), crs, "zones", planar_said=planar_said)
    geometry, notes = _valid(ids, geometry, repair=checks.repair)
    notes += _overlaps(ids, geometry, checks)
    notes += _holes(geometry, crs, checks)
    return geometry, tuple(notes)


def project_valid(geometry: np.ndarray, source, target) -> np.ndarray:
    """Polygons in another plane, where straight edges bend and rings that nearly touch may cross.

    Long edges get more vertices first, so that a zone still meets two neighbours that share one of its edges;
    what crosses afterwards is mended.
    """
    west, south, east, north = shapely.total_bounds(geometry)
    extent = max(east - west, north - south)
    step = max(extent / 500, 0.01 if is_lonlat(source) else 1000.0)
    return _mend(transform(shapely.segmentize(geometry, step), source, target))


def _true_area(geometry: np.ndarray, crs: str | None) -> np.ndarray:
    """Area of each shape in square metres (planar: in its own units)."""
    if not is_lonlat(crs):
        return shapely.area(geometry)
    west, south, east, north = shapely.total_bounds(geometry).tolist()
    return shapely.area(transform(geometry, str(crs), equal_area_crs((west, south, east, north))))


def check_coordinates(xy: np.ndarray, crs: str | None, what: str, *, planar_said: bool = False) -> None:
    """Finite coordinates that fit their coordinate system."""
    bad = np.flatnonzero(~np.isfinite(xy).all(axis=1))
    if len(bad):
        raise GeometryError(
            "coordinate-nan",
            f"coordinates of {what} must be finite; {len(bad)} are not, the first at point {bad[0] + 1}.",
            "Remove or complete these rows.",
        )
    x, y = np.abs(xy[:, 0]), np.abs(xy[:, 1])
    if (np.maximum(x, y) > MOST_UNITS).any():
        raise GeometryError(
            "coordinate-range",
            f"coordinates of {what} must be within {MOST_UNITS:g}; the largest is {max(x.max(), y.max()):g}.",
            "Check how the file was written.",
        )
    if is_lonlat(crs) and ((x > 180).any() or (y > 90).any()):
        first = xy[np.argmax((x > 180) | (y > 90))]
        if (x <= 90).all() and (y <= 180).all():
            raise GeometryError(
                "lonlat-swapped",
                f"latitude must be within 90 degrees; {what} have {first[1]:g}, as if x and y were swapped.",
                "Give longitude as x and latitude as y.",
            )
        raise GeometryError(
            "lonlat-range",
            f"{what} must have longitudes within 180 and latitudes within 90; "
            f"got ({first[0]:g}, {first[1]:g}).",
            'If these are metres, name their coordinate system, such as EPSG:2154, or "planar".',
        )
    if crs is not None and not is_lonlat(crs):
        _check_area_of_use(xy, crs, what)
    if crs is None and not planar_said and (x <= 180).all() and (y <= 90).all():
        raise GeometryError(
            "crs-missing",
            f"the {what} name no coordinate system, and their coordinates look like degrees.",
            'Pass the crs: "EPSG:4326" for longitude and latitude, or "planar" for metres.',
        )


def _check_area_of_use(xy: np.ndarray, crs: str, what: str) -> None:
    """The middle of the coordinates lies near the area that a projected coordinate system is made for."""
    area = pyproj.CRS.from_user_input(crs).area_of_use
    if area is None or area.west > area.east:
        return
    x, y = (xy.min(axis=0) + xy.max(axis=0)) / 2
    lon, lat = (float(each) for each in transform_xy(x, y, crs, LONLAT))
    near = (
        area.west - AROUND <= lon <= area.east + AROUND and area.south - AROUND <= lat <= area.north + AROUND
    )
    if not near:
        raise GeometryError(
            "zones-outside-crs",
            f"the {what} lie around ({x:g}, {y:g}), far outside the area of {crs} ({area.name}).",
            'Name the coordinate system that the file has: for longitude and latitude, "EPSG:4326".',
        )


def check_clock(longitude: float, time_zone: str, offset_hours: float) -> None:
    """The clock of a window is that of the place: within FAR_HOURS of the time by the sun.

    Clocks named by their offset (UTC, Etc/GMT-1) are taken as they are.

    >>> check_clock(2.35, "Europe/Paris", 1.0), check_clock(2.35, "UTC", 0.0)
    (None, None)
    """
    apart = abs((offset_hours - longitude / 15 + 12) % 24 - 12)
    if apart > FAR_HOURS and "/" in time_zone and not time_zone.startswith("Etc/"):
        raise PlanError(
            "time-zone-away",
            f"the map lies around longitude {longitude:.1f}, {apart:.0f} hours from the clock {time_zone}.",
            "Check --time-zone and the map. If that clock is meant, name its offset, such as Etc/GMT+8.",
        )


def _check_polygons(ids: tuple[str, ...], geometry: np.ndarray) -> None:
    kind = shapely.get_type_id(geometry)
    empty = np.flatnonzero((kind < 0) | shapely.is_empty(geometry))
    if len(empty):
        raise GeometryError(
            "geometry-empty",
            f"every zone needs a shape; {len(empty)} have none, the first is {ids[empty[0]]!r}.",
            "Remove these rows or give them a polygon.",
        )
    other = np.flatnonzero((kind != _POLYGON) & (kind != _MULTIPOLYGON))
    if len(other):
        raise GeometryError(
            "geometry-type",
            f"zones must be polygons; {ids[other[0]]!r} is a {kind_name(geometry[other[0]])} "
            f"({len(other)} such rows).",
            "Points are sites: pass them with --sites; for zones around points use a grid or H3.",
        )


def kind_name(shape) -> str:
    return "missing shape" if shape is None else shape.geom_type


def _valid(ids: tuple[str, ...], geometry: np.ndarray, *, repair: bool) -> tuple[np.ndarray, list[str]]:
    bad = np.flatnonzero(~shapely.is_valid(geometry))
    if not len(bad):
        return geometry, []
    shown = "; ".join(f"{ids[k]!r}: {shapely.is_valid_reason(geometry[k])}" for k in bad[:3])
    if not repair:
        raise GeometryError(
            "polygon-invalid",
            f"zones must be valid polygons; {len(bad)} are not: {shown}{', ...' if len(bad) > 3 else ''}.",
            "Pass --repair-zones (repair=True), or mend the file with make_valid in QGIS or PostGIS.",
        )
    mended = _mend(geometry)
    gone = bad[shapely.is_empty(mended[bad]) | (shapely.area(mended[bad]) == 0)]
    if len(gone):
        raise GeometryError(
            "geometry-empty", f"zone {ids[gone[0]]!r} has no area, even after repair.", "Remove this row."
        )
    return mended, [f"repaired {len(bad)} invalid polygons: {shown}"]


def _mend(geometry: np.ndarray) -> np.ndarray:
    """make_valid on the invalid ones, keeping only what has area."""
    bad = ~shapely.is_valid(geometry)
    if not bad.any():
        return geometry
    mended = geometry.copy()
    mended[bad] = shapely.make_valid(geometry[bad], method="structure", keep_collapsed=False)
    return mended


def _overlaps(ids: tuple[str, ...], geometry: np.ndarray, checks: ZoneChecks) -> list[str]:
    # Shares of one zone, so the file's own coordinates do: over one zone a degree hardly changes its size.
    first, second, share, more = _overlapping(geometry, checks.sliver)
    large = np.flatnonzero(share > checks.sliver)
    if not len(large):
        thin = int((share > 1e-9).sum())
        return [f"{thin} pairs of zones overlap by slivers, at most {share.max():.2g} of one"] if thin else []
    large = large[np.argsort(-share[large], kind="stable")]
    pairs = ", ".join(f"{ids[first[k]]!r} and {ids[second[k]]!r} ({share[k]:.1%})" for k in large[:3])
    return _found(
        checks.on_overlap,
        "zones-overlap",
        f"zones must not overlap by more than {checks.sliver:.2g} of the smaller; "
        f"{'at least ' if more else ''}{len(large)} pairs do: {pairs}.",
        'Mend the zones, or accept with on_overlap="warn": a point in two zones then counts in the first.',
    )


def _overlapping(geometry: np.ndarray, sliver: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Pairs of zones that meet, the share of the smaller that they have in common, and whether more follow.

    The search stops once MOST_OVERLAPS pairs overlap by more than a sliver: among thousands of zones that lie
    on each other it would take hours to find all.
    """
    tree, area = shapely.STRtree(geometry), shapely.area(geometry)
    parts, large = [], 0
    for start in range(0, len(geometry), ZONES_AT_ONCE):
        if large >= MOST_OVERLAPS:
            break
        near, other = tree.query(geometry[start : start + ZONES_AT_ONCE], predicate="intersects")
        near += start
        near, other = near[near < other], other[near < other]
        for at in range(0, len(near), PAIRS_AT_ONCE):
            one, two = near[at : at + PAIRS_AT_ONCE], other[at : at + PAIRS_AT_ONCE]
            overlap = shapely.area(shapely.intersection(geometry[one], geometry[two]))
            share = overlap / np.minimum(area[one], area[two])
            parts.append((one, two, share))
            large += int((share > sliver).sum())
            if large >= MOST_OVERLAPS:
                break
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), False
    one, two, share = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return one, two, share, large >= MOST_OVERLAPS


def _holes(geometry: np.ndarray, crs: str | None, checks: ZoneChecks) -> list[str]:
    if checks.holes == "allow":
        return []
    # On a grid of about a millimetre: zones that miss each other by rounding still close a hole.
    union = shapely.union_all(geometry, grid_size=1e-8 if is_lonlat(crs) else 1e-3)
    parts = shapely.get_parts(union)
    holes = np.array([shapely.Polygon(ring) for part in parts for ring in part.interiors], dtype=object)
    if not len(holes):
        return []
    area, zone_area = _true_area(holes, crs), _true_area(geometry, crs)
    large = area > checks.sliver * float(np.median(zone_area))
    if not large.any():
        return [f"{len(holes)} slivers lie between zones, at most {area.max():.3g} square metres"]
    share = area[large].sum() / zone_area.sum()
    place = holes[area.argmax()].representative_point()
    return _found(
        checks.holes,
        "zones-holes",
        f"{int(large.sum())} holes lie between zones, {share:.2%} of their area; "
        f"the largest is around ({place.x:.6g}, {place.y:.6g}).",
        "Points there are outside every zone. Fill the holes, or pass --holes allow if the city has them.",
    )


def _found(choice: Choice, code: str, message: str, remedy: str) -> list[str]:
    if choice == "stop":
        raise GeometryError(code, message, remedy)
    if choice == "warn":
        warnings.warn(f"{code}: {message}\n{remedy}", GeometryWarning, stacklevel=5)
    return [message]
