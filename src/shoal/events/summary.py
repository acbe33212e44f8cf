"""What the good rows of a source hold: users, times, places. For the owner's eyes, never released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb

from shoal.events.checks import unreadable
from shoal.events.connection import limited_connection, prepared
from shoal.events.normalise import events_sql
from shoal.events.schema import EventSource, Shape


@dataclass(frozen=True, kw_only=True)
class SourceSummary:
    exact_users: int
    first_us: int | None  # None when no row is good
    last_us: int | None
    place_range: Mapping[str, tuple[float, float]] | None = None  # lon and lat, or x and y; None for sites

    @property
    def first(self) -> datetime | None:
        return moment(self.first_us)

    @property
    def last(self) -> datetime | None:
        return moment(self.last_us)


def summarise(source: EventSource, *, sites: Sequence[str] | None = None) -> SourceSummary:
    """Distinct users, first and last time, least and largest coordinates of the good rows; one pass."""
    first, last = (
        ("start_time_us", "end_time_us") if source.shape is Shape.TRANSIT else ("time_us", "time_us")
    )
    with limited_connection() as connection, prepared(source, sites, connection) as (cursor, site_type, _):
        events = events_sql(source, site_type=site_type)
        ends = [f"min({first})", f"max({last})"]
        if not source.shape.has_sites:
            ends += ["min(x)", "max(x)", "min(y)", "max(y)"]
        query = f'SELECT count(DISTINCT "user"), {", ".join(ends)} FROM ({events}) WHERE reason = 0'
        try:
            users, start, end, *corners = cursor.execute(query).fetchall()[0]
        except duckdb.Error as error:
            raise unreadable(source, error) from None
    places = None
    if corners and corners[0] is not None:
        names = ("x", "y") if source.planar else ("lon", "lat")
        places = {names[0]: (corners[0], corners[1]), names[1]: (corners[2], corners[3])}
    return SourceSummary(exact_users=users, first_us=start, last_us=end, place_range=places)


def moment(time_us: int | None) -> datetime | None:
    return None if time_us is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
