"""Trips of a source: points in user-complete batches, in order, each with the number of its trip.

A user's points are split into trips where there is a gap, where a flag falls, where the user stays.

Gap    a step of `gap_minutes` or more from one point to the next starts a new trip.
Flag   only points whose flag is true belong to a trip; a false one ends it.
Stay   points that remain within `stay_m` metres of the first of them for `stay_minutes` or more are a stay.
       The first point of a stay ends one trip, the last begins the next, those between belong to none.

Rules combine: gap and flag cut first, stays are looked for inside each piece. Trips of fewer than
`min_points` points are no trips.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from shoal.errors import PlanError, SourceError
from shoal.events.readers import scan
from shoal.events.schema import EventSource, TripRule


@dataclass(frozen=True, kw_only=True, eq=False)
class TripPoints:
    """Trips of a source, described: an engine takes the batches, or reads the same source in its own way."""

    source: EventSource
    rule: TripRule | None
    window_us: tuple[int, int]

    def batches(
        self, cut: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    ) -> Iterator[pa.RecordBatch]:
        return read_trips(self.source, self.rule, window_us=self.window_us, cut=cut)


def read_trips(
    source: EventSource,
    rule: TripRule | None = None,
    *,
    window_us: tuple[int, int] | None = None,
    rows_per_batch: int = 1_000_000,
    cut: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Points of trips: user, trip (counted from 0 within the user), time_us, x, y; sorted, user by user.

    A source that names trips needs no rule; with one, its trips are split further. DuckDB brings the users
    together, on disk where memory does not suffice, so that memory is bounded by a batch and the points of
    one user; each user's points are put in order here, which is less work than one sort by all columns.
    `cut` may take points of a user away before trips are looked for.
    """
    check_rule(source, rule)
    with_flag = rule is not None and rule.flag
    batches = scan(
        source,
        window_us=window_us,
        rows_per_batch=rows_per_batch,
        with_flag=with_flag,
        by_user=True,
    )
    for users in whole_users(batches):
        points = numbered(users if cut is None else cut(users), rule, source.planar)
        if points.num_rows:
            yield points


def numbered(users: pa.RecordBatch, rule: TripRule | None, planar: bool) -> pa.RecordBatch:
    """Points of whole users, each user's together, in order and with the number of their trip."""
    return number_trips(in_order(users, starts(users["user"])), rule, planar)


def count_trips(source: EventSource, rule: TripRule | None = None) -> int:
    """The number of trips, for the owner's eyes."""
    total = 0
    for batch in read_trips(source, rule):
        total += int(starts(batch["user"], batch["trip"]).sum())
    return total


def check_rule(source: EventSource, rule: TripRule | None) -> None:
    if source.shape.has_sites:
        message = f'trips are read from points; the shape of this source is "{source.shape}".'
        raise PlanError("trips-need-points", message, "Use a source with lon, lat or x, y.")
    if rule is None and not source.shape.has_trips:
        message = "the source does not name its trips, and no rule to find them was given."
        raise PlanError("trip-rule", message, "Pass --gap-minutes 5, say, or --column trip=NAME.")
    if rule is not None and rule.flag and "flag" not in source.columns:
        message = "the trip rule asks for a flag, and no column holds one."
        raise SourceError("missing-column", message, "Pass --column flag=NAME.")


def whole_users(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut a stream sorted by user so that no user is in two batches."""
    waiting: list[pa.RecordBatch] = []  # all of one user, the last seen
    for batch in batches:
        borders = np.flatnonzero(starts(batch["user"]))
        if waiting and waiting[-1]["user"][-1] == batch["user"][0]:
            borders = borders[1:]  # the batch goes on with the user that waits
        if len(borders) == 0:
            waiting.append(batch)
            continue
        last = int(borders[-1])
        done = [*waiting, batch.slice(0, last)]
        waiting = [batch.slice(last)]
        if sum(part.num_rows for part in done):
            yield pa.concat_batches(done)
    if waiting:
        yield pa.concat_batches(waiting)


def number_trips(batch: pa.RecordBatch, rule: TripRule | None, planar: bool) -> pa.RecordBatch:
    """The points that belong to trips, with trips counted within the user."""
    keys = [batch[name] for name in ("user", "trip") if name in batch.schema.names]
    piece = np.cumsum(starts(*keys))  # a user, or one trip the source names
    trip = np.zeros(batch.num_rows, dtype=np.int64)
    if rule is not None:
        flag = batch["flag"].to_numpy(zero_copy_only=False) if rule.flag else None
        time_us, x, y = (batch[name].to_numpy() for name in ("time_us", "x", "y"))
        trip = split_trips(piece, time_us, x, y, rule, flag, planar=planar)
    inside = trip != NO_TRIP
    inside_points = batch.filter(pa.array(inside))
    piece, trip = piece[inside], trip[inside]
    new_trip = changes(piece) | changes(trip)
    new_user = starts(inside_points["user"])
    number = np.cumsum(new_trip) - 1
    first = np.maximum.accumulate(np.where(new_user, number, 0))  # the number of the user's first trip
    points = {name: inside_points[name] for name in ("time_us", "x", "y")}
    return pa.record_batch({"user": inside_points["user"], "trip": number - first, **points})


def starts(*columns: pa.Array) -> np.ndarray:
    """True where any of the columns differs from the row above; the first row is a start."""
    return np.logical_or.reduce([changes(codes(column)) for column in columns])


def codes(column: pa.Array) -> np.ndarray:
    """Integers that are equal where the values are."""
    if pa.types.is_integer(column.type):
        return column.to_numpy()
    return column.dictionary_encode().indices.to_numpy()


def changes(values: np.ndarray) -> np.ndarray:
    differs = np.ones(len(values), dtype=bool)
    differs[1:] = values[1:] != values[:-1]
    return differs


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
