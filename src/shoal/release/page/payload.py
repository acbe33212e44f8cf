"""Data for the script of a page: values, zone outlines, colours and error figures, ready for JSON.

Outlines are planar, simplified a little, on a grid of 65,536 steps, for the eye alone: areas and overlaps are
computed in `shoal.space`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from shoal.metrics.density import DensityUtility, HourProfile
from shoal.release.page.page import float32_base64, time_of, uint16_base64

if TYPE_CHECKING:
    from shoal.kinds.density.report import DensityReportInputs
    from shoal.space.cells import CellGrid
    from shoal.space.places import Zones


# The few largest values share the last colour, so that one crowded zone does not darken the whole map.
COLOUR_QUANTILE = 0.999
# A larger share of the zones' relative errors may pass the end: a few zones of few people err by far more.
ERROR_COLOUR_QUANTILE = 0.98


def density_payload(
    inputs: DensityReportInputs, utility: DensityUtility, starts: list[datetime], slots_drawn: int
) -> dict[str, Any]:
    """All data that the page draws. Map and series cover the first `slots_drawn` slots, error figures all."""
    arrays = {"exact": inputs.exact, "released": inputs.released, "low": inputs.low, "high": inputs.high}
    return {
        "zones": drawn_zones(inputs.zones),
        "slots": slots_drawn,
        "slotLabels": [slot_label(start) for start in starts],
        "slotWord": slot_word(starts),
        "dayTicks": day_ticks(starts),
        "values": {name: float32_base64(array[:, :slots_drawn]) for name, array in arrays.items()},
        "scales": _scales(inputs, utility),
        "city": {"exact": inputs.exact.sum(axis=0), "released": inputs.released.sum(axis=0)},
        "bySlot": _profile(utility.by_slot),
        "byHourOfDay": None if utility.by_hour_of_day is None else _profile(utility.by_hour_of_day),
        "boxes": {name: asdict(box) for name, box in utility.boxes.items()},
        "byZone": {
            "mre": utility.mre_by_zone,
            "pearson": utility.pearson_by_zone,
            "mae": utility.mae_by_zone,
            "coverage": utility.coverage_by_zone,
            "exactMean": inputs.exact.mean(axis=1),
            "exactTotal": utility.exact_total_by_zone,
            "releasedTotal": utility.released_total_by_zone,
        },
    }


def slot_label(start: datetime) -> str:
    """A slot's start for readers, with the offset so that a repeated hour is unambiguous.

    >>> slot_label(datetime.fromisoformat("2026-03-02T08:00:00+01:00"))
    'Mon 2 Mar 2026, 08:00 (UTC+01:00)'
    """
    offset = f" ({start.tzname()})" if start.tzinfo else ""
    return f"{start:%a} {start.day} {start:%b %Y, %H:%M}{offset}"


def slot_word(starts: list[datetime]) -> str:
    """What to call a slot: hour, day, or its length in minutes.

    >>> slot_word([datetime(2026, 3, 2, 0), datetime(2026, 3, 2, 0, 30)])
    '30-minute slot'
    """
    if len(starts) < 2:
        return "slot"
    minutes = round((starts[1] - starts[0]).total_seconds() / 60)
    return {60: "hour", 1440: "day"}.get(minutes, f"{minutes}-minute slot")


def day_ticks(starts: list[datetime], most: int = 8) -> dict[str, list]:
    """Ticks of a slot axis: days where there are at least two, else hours; at most `most` of them.

    Slot numbers rather than clock times on the axis: an hour repeated in autumn keeps its own place.
    """
    days = [slot for slot, start in enumerate(starts) if slot == 0 or start.date() != starts[slot - 1].date()]
    if len(days) > 2:
        chosen = days[:: -(-len(days) // most)]
        return {
            "slots": chosen,
            "texts": [f"{starts[slot]:%a} {starts[slot].day} {starts[slot]:%b}" for slot in chosen],
        }
    chosen = list(range(0, len(starts), -(-len(starts) // most)))
    form = "%H:%M" if len(days) == 1 and len(starts) > 1 else "%a %H:%M"
    return {"slots": chosen, "texts": [starts[slot].strftime(form) for slot in chosen]}


def _profile(profile: HourProfile) -> dict[str, np.ndarray | None]:
    return {
        "hours": profile.hours,
        "mae": profile.mean_absolute_error,
        "mre": profile.mean_relative_error,
        "bias": profile.total_bias_share,
        "emd": profile.mean_emd_m,
    }


def _scales(inputs: DensityReportInputs, utility: DensityUtility) -> dict[str, dict[str, float]]:
    """The value at the end of each colour scale, and the largest there is.

    One end for raw and released, over all slots: the same colour means the same number everywhere.
    """
    people = np.concatenate([inputs.exact.ravel(), inputs.released.ravel()])
    difference = np.abs(inputs.released - inputs.exact)
    mre = utility.mre_by_zone[~np.isnan(utility.mre_by_zone)]
    mre = mre if mre.size else np.zeros(1)
    return {
        "people": {"end": _scale_end(people), "most": people.max()},
        "difference": {"end": _scale_end(difference), "most": difference.max()},
        "mre": {"end": _scale_end(mre, ERROR_COLOUR_QUANTILE), "most": mre.max()},
    }


def _scale_end(values: np.ndarray, quantile: float = COLOUR_QUANTILE) -> float:
    end = float(np.quantile(values, quantile))
    return end if end > 0 else float(values.max()) or 1.0


KM_PER_DEGREE = 111.32
GRID_STEPS = 65_535
# A drawing of about 1,000 pixels cannot show less than this share of its width.
SIMPLIFY_SHARE = 1 / 2_000


def drawn_zones(zones: Zones) -> dict[str, Any]:
    """Ids, names and outlines, north up, kilometres equal in both directions at the middle of the city.

    The points of all rings are one after the other in `xy`, with y downwards, as on a screen; `rings` has
    for each zone the points of each of its rings, none where there is nothing to draw. Sizes are in steps.
    """
    planar_km = _planar_km(zones)
    bounds = shapely.total_bounds(planar_km)
    drawable = bool(np.isfinite(bounds).all())
    west, south, east, north = bounds.tolist() if drawable else (0.0, 0.0, 0.0, 0.0)
    steps_per_km, rings = 1.0, [[] for _ in planar_km]
    if drawable:
        extent_km = max(east - west, north - south, 1e-9)
        steps_per_km = GRID_STEPS / extent_km
        rings = [_rings(shape) for shape in _simplified(planar_km, extent_km * SIMPLIFY_SHARE)]
    points = [ring for of_zone in rings for ring in of_zone]
    xy_km = np.concatenate(points) if points else np.zeros((0, 2))
    steps = np.column_stack([xy_km[:, 0] - west, north - xy_km[:, 1]]) * steps_per_km
    return {
        "ids": [str(zone) for zone in zones.ids],
        "names": [str(name) for name in zones.names],
        "rings": [[len(ring) for ring in of_zone] for of_zone in rings],
        "xy": uint16_base64(np.clip(np.rint(steps), 0, GRID_STEPS).astype("u2")),
        "width": max(1, round((east - west) * steps_per_km)),
        "height": max(1, round((north - south) * steps_per_km)),
        "stepsPerKm": steps_per_km,
    }


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


MOST_DRAWN = 256  # cells along a side of a map; finer ones are drawn in blocks
CELL_COLOUR_QUANTILE = 0.995  # the few fullest cells share the last colour


def grid_subtitle(grid: CellGrid | None, manifest: Mapping[str, Any], *more: str) -> list[str]:
    """The grid of a release of trips, its method and its window."""
    public, parts = manifest.get("public") or {}, [*more]
    if grid is not None:
        width, height = grid.cell_m
        parts.insert(0, f"{grid.columns} x {grid.rows} cells of {width:,.0f} x {height:,.0f} m")
    parts += [f"method {public['method']}"] if "method" in public else []
    window = public.get("window") or {}
    return parts + (
        [f"{time_of(window['start'])} to {time_of(window['end'])}"] if {"start", "end"} <= set(window) else []
    )


def cell_maps(grid: CellGrid, sides: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Maps of the cells of a grid on one scale of colours; where there are many cells, means of blocks."""
    drawn = {name: drawn_blocks(values) for name, values in sides.items()}
    shown, block = [values for values, _ in drawn.values()], max(block for _, block in drawn.values())
    rows, columns = shown[0].shape
    width, height = grid.cell_m
    return {
        **{name: float32_base64(values) for name, (values, _) in drawn.items()},
        "columns": columns,
        "rows": rows,
        "widthKm": width * block / 1000,
        "heightKm": height * block / 1000,
        "end": colour_end(np.concatenate([values.ravel() for values in shown])),
        "differenceEnd": colour_end(np.abs(shown[0] - shown[-1])),
    }


def drawn_blocks(faces: np.ndarray) -> tuple[np.ndarray, int]:
    """Means of square blocks of cells, where a side has more than MOST_DRAWN."""
    block = -(-max(faces.shape) // MOST_DRAWN)
    if block == 1:
        return faces, 1
    rows, columns = (-(-side // block) for side in faces.shape)
    padded = np.full((rows * block, columns * block), np.nan)
    padded[: faces.shape[0], : faces.shape[1]] = faces
    return np.nanmean(padded.reshape(rows, block, columns, block), axis=(1, 3)), block


def colour_end(values: np.ndarray) -> float:
    """The value that the last colour stands for."""
    some = values[values > 0]
    return float(np.quantile(some, CELL_COLOUR_QUANTILE)) if some.size else 1.0
