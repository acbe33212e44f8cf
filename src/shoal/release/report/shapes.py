"""Zone outlines for drawing: planar, simplified a little, on a grid of 65,536 steps.

For the eye only. Nothing is computed from these shapes: areas and overlaps come from `shoal.space`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import shapely

if TYPE_CHECKING:
    from shoal.space.zones import Zones

KM_PER_DEGREE = 111.32
GRID_STEPS = 65_535
# A drawing of about 1,000 pixels cannot show less than this share of its width.
SIMPLIFY_SHARE = 1 / 2_000


@dataclass(frozen=True, kw_only=True)
class DrawnZones:
    """Rings of all zones, one after the other; y grows downwards, as on a screen."""

    xy: np.ndarray = field(repr=False)  # uint16 [points, 2]
    ring_lengths: list[list[int]] = field(repr=False)  # per zone, points of each ring; [] if nothing to draw
    width: int  # of the drawing, in grid steps
    height: int
    steps_per_km: float


def drawn_zones(zones: Zones) -> DrawnZones:
    """The outlines of `zones`, north up, kilometres equal in both directions at the middle of the city."""
    planar_km = _planar_km(zones)
    bounds = shapely.total_bounds(planar_km)
    if not np.isfinite(bounds).all():
        return DrawnZones(
            xy=np.zeros((0, 2), "u2"),
            ring_lengths=[[] for _ in planar_km],
            width=1,
            height=1,
            steps_per_km=1.0,
        )
    extent_km = max(bounds[2] - bounds[0], bounds[3] - bounds[1], 1e-9)
    steps_per_km = GRID_STEPS / extent_km
    simple = _simplified(planar_km, extent_km * SIMPLIFY_SHARE)
    points, lengths = [], []
    for shape in simple:
        rings = _rings(shape)
        lengths.append([len(ring) for ring in rings])
        points.extend(rings)
    xy_km = np.concatenate(points) if points else np.zeros((0, 2))
    steps = np.column_stack([xy_km[:, 0] - bounds[0], bounds[3] - xy_km[:, 1]]) * steps_per_km
    return DrawnZones(
        xy=np.clip(np.rint(steps), 0, GRID_STEPS).astype("u2"),
        ring_lengths=lengths,
        width=max(1, round((bounds[2] - bounds[0]) * steps_per_km)),
        height=max(1, round((bounds[3] - bounds[1]) * steps_per_km)),
        steps_per_km=steps_per_km,
    )


def _planar_km(zones: Zones) -> np.ndarray:
    if zones.crs is None:  # planar metres without a place on earth: drawn as they are
        return shapely.transform(np.asarray(zones.geometry, dtype=object), lambda xy: xy / 1000)
    lonlat = np.asarray(zones.to_lonlat().geometry, dtype=object)
    bounds = shapely.total_bounds(lonlat)
    # One longitude scale for the whole map: at the size of a city the error is below a pixel.
    shrink = math.cos(math.radians((bounds[1] + bounds[3]) / 2)) if np.isfinite(bounds).all() else 1.0
    return shapely.transform(lonlat, lambda xy: xy * (KM_PER_DEGREE * shrink, KM_PER_DEGREE))


def _simplified(shapes: np.ndarray, tolerance_km: float) -> np.ndarray:
    """Shapes with fewer points; shared borders stay shared, so no slits open between zones."""
    try:
        return np.asarray(shapely.coverage_simplify(shapes, tolerance_km), dtype=object)
    except (shapely.errors.ShapelyError, AttributeError, TypeError, ValueError, NotImplementedError):
        # An old GEOS, or shapes that are no coverage (overlaps, points): each by itself.
        return np.asarray(shapely.simplify(shapes, tolerance_km), dtype=object)


def _rings(shape: shapely.Polygon | shapely.MultiPolygon | None) -> list[np.ndarray]:
    """Outer and inner rings, without the repeated last point; inner ones are drawn by the even-odd rule."""
    if shape is None or shape.is_empty:
        return []
    rings = []
    for part in shapely.get_parts(shape):
        if part.geom_type == "Polygon" and not part.is_empty:
            for ring in (part.exterior, *part.interiors):
                rings.append(shapely.get_coordinates(ring)[:-1])
    return rings
