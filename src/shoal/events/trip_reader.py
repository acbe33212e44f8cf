"""Read the trips of a source: points in user-complete batches, each with the number of its trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from shoal.errors import PlanError, SourceError
from shoal.events.readers import scan
from shoal.events.schema import EventSource, TripRule
from shoal.events.trips import NO_TRIP, in_order, split_trips


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
    connection: duckdb.DuckDBPyConnection | None = None,
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
        connection=connection,
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
