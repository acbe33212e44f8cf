"""What the good rows of a source hold: users and time range. For the owner's eyes, never released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb

from shoal.events.checks import unreadable
from shoal.events.connection import limited_connection, prepared
from shoal.events.normalise import DROP_REJECTS, events_sql
from shoal.events.schema import EventSource, Shape


@dataclass(frozen=True, kw_only=True)
class SourceSummary:
    exact_users: int
    first_us: int | None  # None when no row is good
    last_us: int | None

    @property
    def first(self) -> datetime | None:
        return moment(self.first_us)

    @property
    def last(self) -> datetime | None:
        return moment(self.last_us)


def summarise(source: EventSource, *, sites: Sequence[str] | None = None) -> SourceSummary:
    """Distinct users, first and last time among the good rows; one pass."""
    first, last = (
        ("start_time_us", "end_time_us") if source.shape is Shape.TRANSIT else ("time_us", "time_us")
    )
    with limited_connection() as connection, prepared(source, sites, connection) as (cursor, site_type):
        events = events_sql(source, site_type=site_type, rejects=DROP_REJECTS)
        query = f'SELECT count(DISTINCT "user"), min({first}), max({last}) FROM ({events}) WHERE reason = 0'
        try:
            users, start, end = cursor.execute(query).fetchall()[0]
        except duckdb.Error as error:
            raise unreadable(source, error) from None
    return SourceSummary(exact_users=users, first_us=start, last_us=end)


def moment(time_us: int | None) -> datetime | None:
    return None if time_us is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
