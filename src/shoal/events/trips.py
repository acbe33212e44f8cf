"""Split a user's points into trips: where there is a gap, where a flag falls, where the user stays.

Gap    a step of `gap_minutes` or more from one point to the next starts a new trip.
Flag   only points whose flag is true belong to a trip; a false one ends it.
Stay   points that remain within `stay_m` metres of the first of them for `stay_minutes` or more are a stay.
       The first point of a stay ends one trip, the last begins the next, those between belong to none.

Rules combine: gap and flag cut first, stays are looked for inside each piece. Trips of fewer than
`min_points` points are no trips.

Points of each user brought into the order of trip, time and place; users stay where they are.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from shoal.errors import PlanError
from shoal.events.schema import TripRule

EARTH_M = 6_371_008.8  # mean radius
NO_TRIP = -1


def split_trips(
    user: np.ndarray,
    time_us: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    rule: TripRule,
    flag: np.ndarray | None = None,
    *,
    planar: bool = False,
) -> np.ndarray:
    """The trip of every point, counted from 0 within its user; -1 for points in no trip.

    Points must be grouped by user (any integers) and sorted by time within the user.
    """
    if rule.flag and flag is None:
        raise PlanError(
            "trip-rule", "the rule asks for a flag; the source has none.", "Pass --column flag=NAME."
        )
    raised = flag if rule.flag and flag is not None else np.ones(len(user), dtype=np.bool_)
    none = -1.0  # numba has no None here: a negative limit is no limit
    return _split(
        np.ascontiguousarray(user, dtype=np.int64),
        np.ascontiguousarray(time_us, dtype=np.int64),
        np.ascontiguousarray(x, dtype=np.float64),
        np.ascontiguousarray(y, dtype=np.float64),
        np.ascontiguousarray(raised, dtype=np.bool_),
        (rule.gap_minutes or none) * 60e6,
        rule.stay_m or none,
        (rule.stay_minutes or none) * 60e6,
        rule.min_points,
        planar,
    )


@njit(cache=True)
def _split(user, time_us, x, y, raised, gap_us, stay_m, stay_us, min_points, planar):
    rows = len(user)
    trip = np.full(rows, NO_TRIP, dtype=np.int64)
    count = 0
    start = 0
    while start < rows:
        if start > 0 and user[start] != user[start - 1]:
            count = 0
        if not raised[start]:
            start += 1
            continue
        end = start + 1  # the piece [start, end) has one user, flags up and no gap
        while end < rows and user[end] == user[start] and raised[end]:
            if gap_us > 0 and time_us[end] - time_us[end - 1] >= gap_us:
                break
            end += 1
        if stay_m > 0:
            count = _split_piece(trip, start, end, count, time_us, x, y, stay_m, stay_us, min_points, planar)
        else:
            count = _write(trip, start, end, count, min_points)
        start = end
    return trip


@njit(cache=True)
def _split_piece(trip, start, end, count, time_us, x, y, stay_m, stay_us, min_points, planar):
    """Cut one piece at its stays; returns the number of trips so far."""
    begin = start  # of the running trip
    at = start
    while at < end:
        after = at + 1
        while after < end and _metres(x[at], y[at], x[after], y[after], planar) <= stay_m:
            after += 1
        if after - at >= 2 and time_us[after - 1] - time_us[at] >= stay_us:
            if at > begin:  # a stay at the very beginning ends nothing
                count = _write(trip, begin, at + 1, count, min_points)
            begin = at = after - 1
        else:
            at += 1
    if end - begin > 1 or begin == start:  # a stay at the very end begins nothing
        count = _write(trip, begin, end, count, min_points)
    return count


@njit(cache=True)
def _write(trip, begin, end, count, min_points):
    if end - begin < min_points:
        return count
    trip[begin:end] = count
    return count + 1


@njit(cache=True)
def _metres(x1, y1, x2, y2, planar):
    """Straight for planar metres, along the great circle for degrees."""
    if planar:
        return math.sqrt((x2 - x1) ** 2 + (y2 - y1) ** 2)
    low, high = math.radians(y1), math.radians(y2)
    half = math.sin((high - low) / 2) ** 2
    half += math.cos(low) * math.cos(high) * math.sin(math.radians(x2 - x1) / 2) ** 2
    return 2 * EARTH_M * math.asin(min(1.0, math.sqrt(half)))


def in_order(batch: pa.RecordBatch, new_user: np.ndarray) -> pa.RecordBatch:
    """Rows sorted by trip, time_us, x, y and flag within each user; `new_user` is true where one begins."""
    names = [name for name in ("trip", "time_us", "x", "y", "flag") if name in batch.schema.names]
    keys = pa.record_batch([pa.array(np.cumsum(new_user)), *(batch[name] for name in names)], ["", *names])
    by = pc.SortOptions(sort_keys=[(name, "ascending") for name in keys.schema.names])
    order = pc.call_function("sort_indices", [keys], by)
    in_place = (np.diff(order.to_numpy().astype(np.int64)) == 1).all()
    return batch if in_place else batch.take(order)
