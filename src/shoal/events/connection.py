"""A DuckDB connection with limits on memory and a private folder to spill to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import duckdb

from shoal.errors import PlanError
from shoal.events.normalise import literal
from shoal.events.quotes import check_quotes
from shoal.events.schema import EventSource
from shoal.events.times import ZONE_TABLE, needs_zone, time_roles
from shoal.events.zones import zone_days

MEMORY_LIMIT = "1GB"
_numbers = count()


@contextmanager
def limited_connection(memory_limit: str = MEMORY_LIMIT, threads: int | None = None) -> Iterator:
    """A connection of its own; what it spills is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder, duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = {literal(memory_limit)}")
        connection.execute(f"SET temp_directory = {literal(folder)}")
        connection.execute("SET preserve_insertion_order = false")
        if threads is not None:
            connection.execute(f"SET threads = {int(threads)}")
        yield connection


@contextmanager
def prepared(
    source: EventSource, sites: Sequence[str] | None, connection: duckdb.DuckDBPyConnection
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str | None]]:
    """A cursor on the connection that knows the sites (as an ENUM type) and the zone's days."""
    if source.format == "csv" and source.relation is None:
        check_quotes(source.paths, source.delimiter)
    with connection.cursor() as cursor:
        # Text with an offset is read in UTC; the setting belongs to this cursor alone.
        cursor.execute("SET TimeZone = 'UTC'")
        if source.time_zone and any(needs_zone(role, source) for role in time_roles(source)):
            cursor.register(ZONE_TABLE, zone_days(source.time_zone))
        if sites is None or not source.shape.has_sites:
            yield cursor, None
            return
        check_sites(sites)
        name = f"shoal_sites_{next(_numbers)}"
        cursor.execute(f"CREATE TYPE {name} AS ENUM ({', '.join(literal(site) for site in sites)})")
        try:
            yield cursor, name
        finally:
            cursor.execute(f"DROP TYPE IF EXISTS {name}")


def check_sites(sites: Sequence[str]) -> None:
    if not len(sites):
        raise PlanError("no-sites", "the list of sites is empty.", "Pass the sites of the network.")
    if len(set(sites)) != len(sites):
        raise PlanError("duplicate-site", "the list of sites names one site twice.", "Remove the duplicates.")
