"""A DuckDB connection with limits on memory and a private folder to spill to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

import duckdb

from shoal.errors import PlanError
from shoal.events.files import check_texts, locked_connection
from shoal.events.lines import CsvLines, ParquetRows
from shoal.events.normalise import (
    CSV_LINES,
    ZONE_TABLE,
    literal,
    needs_zone,
    relation_of,
    time_roles,
    zone_days,
)
from shoal.events.schema import EventSource
from shoal.scratch import Scratch

MEMORY_LIMIT = "1GB"
_numbers = count()


@contextmanager
def limited_connection(memory_limit: str = MEMORY_LIMIT, threads: int | None = None) -> Iterator:
    """A connection of its own; what it spills is deleted at the end."""
    with Scratch() as folder:
        settings: dict[str, str | int] = {"memory_limit": memory_limit, "temp_directory": str(folder)}
        settings["preserve_insertion_order"] = "false"
        if threads is not None:
            settings["threads"] = int(threads)
        with locked_connection(**settings) as connection:
            yield connection


class Prepared(NamedTuple):
    """A cursor, the name of the ENUM of sites in it, and the share of the files that was read (0 to 1)."""

    cursor: duckdb.DuckDBPyConnection
    site_type: str | None
    share: Callable[[], float]


@contextmanager
def prepared(
    source: EventSource, sites: Sequence[str] | None, connection: duckdb.DuckDBPyConnection
) -> Iterator[Prepared]:
    """A cursor on the connection that knows the sites (as an ENUM type), the zone's days and CSV lines."""
    lines = site_type = None
    if source.format == "parquet" and source.relation in (None, CSV_LINES):
        texts = tuple(source.columns[role] for role, kind in source.types.items() if "VARCHAR" in kind)
        for path in source.paths if texts else ():
            check_texts(path, texts, os.stat(path).st_mtime_ns)
    if relation_of(source) == CSV_LINES:
        lines = CsvLines(source) if source.format == "csv" else ParquetRows(source)
    with connection.cursor() as cursor:
        if cursor.execute("SELECT current_setting('TimeZone')").fetchall() != [("UTC",)]:
            cursor.execute("SET TimeZone = 'UTC'")  # a connection of the caller's; this cursor alone
        if source.time_zone and any(needs_zone(role, source) for role in time_roles(source)):
            cursor.register(ZONE_TABLE, zone_days(source.time_zone))
        if lines is not None:
            cursor.register(CSV_LINES, lines)
        if sites is not None and source.shape.has_sites:
            check_sites(sites)
            site_type = f"shoal_sites_{next(_numbers)}"
            listed = ", ".join(literal(site) for site in sites)
            cursor.execute(f"CREATE TYPE {site_type} AS ENUM ({listed})")
        try:
            yield Prepared(cursor, site_type, lambda: _share(cursor, lines))
        except Exception:
            if lines is not None and lines.error is not None:
                raise lines.error from None
            raise
        finally:
            if site_type is not None:
                cursor.execute(f"DROP TYPE IF EXISTS {site_type}")


def _share(cursor: duckdb.DuckDBPyConnection, lines: CsvLines | None) -> float:
    done = cursor.query_progress() / 100 if lines is None else lines.share
    return min(max(done, 0.0), 1.0)


def check_sites(sites: Sequence[str]) -> None:
    if not len(sites):
        raise PlanError("no-sites", "the list of sites is empty.", "Pass the sites of the network.")
    if len(set(sites)) != len(sites):
        raise PlanError("duplicate-site", "the list of sites names one site twice.", "Remove the duplicates.")
