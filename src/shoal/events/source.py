"""Open a source of events: find its files, read names and types, settle shape and columns; connect to it.

A connection is DuckDB's, with limits on memory and a private folder to spill to. `summarise` counts users and
bounds times and places of the good rows: for the owner's eyes, never released.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import NamedTuple

import duckdb

from shoal.errors import PlanError, SourceError
from shoal.events.files import (
    Header,
    check_texts,
    find_files,
    first_line,
    has_extreme_times,
    locked_connection,
    read_header,
)
from shoal.events.lines import CsvLines, ParquetRows
from shoal.events.normalise import (
    CSV_LINES,
    ZONE_TABLE,
    check_format,
    checked_zone,
    events_sql,
    literal,
    names_offset,
    needs_zone,
    relation_of,
    time_roles,
    zone_days,
)
from shoal.events.schema import (
    FLOAT_TYPES,
    INTEGER_TYPES,
    NAIVE_TYPES,
    WIDE_INTEGER_TYPES,
    ZONED_TYPES,
    EventSource,
    Format,
    OnBadRow,
    Shape,
    SourcePlan,
    TimeUnit,
    choose_columns,
    plain_name,
)
from shoal.scratch import Scratch


def open_source(
    paths: str | Path | Sequence[str | Path],
    *,
    shape: Shape | str | None = None,
    columns: Mapping[str, str] | None = None,
    time_zone: str | None = None,
    time_unit: TimeUnit | None = None,
    time_format: str | None = None,
    coordinate_scale: float | None = None,
    point_seconds: float | None = None,
    on_bad_row: OnBadRow | None = None,
    delimiter: str | None = None,
) -> EventSource:
    """Describe the events in files, a folder or a glob; only headers and footers are read, no row.

    What is not given is guessed from usual names and types, and listed in `guessed`.
    """
    plan = SourcePlan(
        paths=(str(paths),) if isinstance(paths, str | Path) else tuple(map(str, paths)),
        shape=shape,
        columns=columns or {},
        time_zone=time_zone,
        time_unit=time_unit,
        time_format=time_format,
        coordinate_scale=coordinate_scale,
        point_seconds=point_seconds,
        on_bad_row=on_bad_row,
        delimiter=delimiter,
    )
    return open_planned(plan)


def open_planned(plan: SourcePlan) -> EventSource:
    """Open the source that a plan describes; its settings were checked when the plan was made."""
    files, file_format = find_files(plan.paths)
    source = describe_source(plan, files, file_format, read_header(files, file_format, plan.delimiter))
    times = [source.columns[role] for role in time_roles(source) if "TIMESTAMP" in source.types[role]]
    known = file_format == "parquet" and "UUID" not in source.types.values()  # which Arrow shows as bytes
    if times and known and any(has_extreme_times(path, times) for path in files):
        return replace(source, relation=CSV_LINES)
    return source


def describe_source(
    plan: SourcePlan, files: Sequence[str], file_format: Format, header: Header
) -> EventSource:
    """Settle shape, columns, units and scale from the names and types that were found."""
    if plan.time_zone is not None:
        checked_zone(plan.time_zone)
    lists = [name for name, kind in header.types.items() if kind.endswith("[]")]
    given = Shape(plan.shape) if plan.shape is not None else None
    shape, chosen, guessed = choose_columns(header.names, lists, given, plan.columns)
    types = {role: header.types[name] for role, name in chosen.items()}
    check_types(shape, chosen, types, plan.time_zone, file_format)
    check_time_format(plan, chosen, types)
    check_point_seconds(shape, types, plan.point_seconds, file_format)
    time_unit, coordinate_scale = plan.time_unit, plan.coordinate_scale
    if time_unit is None:
        time_unit, note = guess_unit(types, chosen)
        guessed += note
    if coordinate_scale is None:
        coordinate_scale, note = guess_scale(chosen)
        guessed += note
    return EventSource(
        paths=tuple(files),
        format=file_format,
        shape=shape,
        columns=chosen,
        types=types,
        names=header.names,
        time_zone=plan.time_zone,
        time_unit=time_unit,
        time_format=plan.time_format,
        coordinate_scale=coordinate_scale,
        point_seconds=plan.point_seconds,
        on_bad_row=plan.on_bad_row or "stop",
        delimiter=header.delimiter,
        guessed=guessed,
    )


def check_types(
    shape: Shape,
    columns: Mapping[str, str],
    types: Mapping[str, str],
    time_zone: str | None,
    file_format: str,
) -> None:
    """The type of every column can play its role."""
    if file_format == "csv":  # all text: the rows decide
        return
    check_user(columns["user"], types["user"])
    for role, kind in types.items():
        listed_role = shape is Shape.TRIP_LIST and role in ("lon", "lat", "x", "y")
        if listed_role and not kind.endswith("[]"):
            raise wrong_type(columns[role], kind, role, 'a list of numbers for shape "trip-list"')
        may_list = listed_role or (shape is Shape.TRIP_LIST and role == "time")
        single = kind.removesuffix("[]") if may_list else kind
        if role in ("time", "start_time", "end_time"):
            check_time(columns[role], single, role, time_zone)
        elif role in ("lon", "lat", "x", "y") and not is_number(single):
            raise wrong_type(columns[role], kind, role, "a number")
        elif role in ("site", "start_site", "end_site", "trip") and not is_label(single):
            raise wrong_type(columns[role], kind, role, "text or a whole number")
        elif role == "flag" and not (single == "BOOLEAN" or single in INTEGER_TYPES or single == "VARCHAR"):
            raise wrong_type(columns[role], kind, role, "true or false")


def check_time_format(plan: SourcePlan, columns: Mapping[str, str], types: Mapping[str, str]) -> None:
    """A format is for text times; without %z it shows a clock that must be named."""
    time_format = plan.time_format
    if time_format is None:
        return
    check_format(time_format)
    if plan.time_unit is not None:
        message = "time-format is for times written as text, time-unit for numbers; both were given."
        raise PlanError("time-format-unit", message, "Leave out one of --time-format and --time-unit.")
    for role in ("time", "start_time", "end_time"):
        kind = types.get(role, "VARCHAR").removesuffix("[]")
        if kind != "VARCHAR":
            message = f'time-format is for times written as text; column "{columns[role]}" is {kind}.'
            raise PlanError("time-format-type", message, "Leave out --time-format.")
    if plan.time_zone is None and not names_offset(time_format):
        raise SourceError(
            "naive-time",
            f'times written as "{time_format}" have no time zone.',
            "Say which clock they show: --time-zone Europe/Paris, or --time-zone UTC.",
        )


def check_point_seconds(
    shape: Shape, types: Mapping[str, str], point_seconds: float | None, file_format: str
) -> None:
    """Trip lists have either a list of times, or one start time and a step between points."""
    if shape is not Shape.TRIP_LIST:
        if point_seconds is not None:
            message = f'point-seconds is for shape "trip-list"; the shape is "{shape}".'
            raise PlanError("point-seconds-shape", message, "Leave out --point-seconds.")
        return
    listed_times = types["time"].endswith("[]")
    if listed_times and point_seconds is not None:
        message = "point-seconds was given, but every point has its own time."
        raise PlanError("point-seconds-shape", message, "Leave out --point-seconds.")
    if file_format == "parquet" and not listed_times and point_seconds is None:
        message = "each trip has one time for many points, and the step between points is not known."
        raise SourceError("missing-point-seconds", message, "Pass --point-seconds 15, say.")


def check_user(name: str, kind: str) -> None:
    if kind in WIDE_INTEGER_TYPES or kind in FLOAT_TYPES or kind.startswith("DECIMAL"):
        raise SourceError(
            "user-type",
            f'user ids must be 64-bit integers or text; column "{name}" is {kind}.',
            f'Write the column as text first, in SQL: CAST("{name}" AS VARCHAR).',
        )
    if not is_label(kind) and kind not in ("UUID", "DATE"):
        raise wrong_type(name, kind, "user", "text or a whole number")


def check_time(name: str, kind: str, role: str, time_zone: str | None) -> None:
    if kind in NAIVE_TYPES and time_zone is None:
        raise SourceError(
            "naive-time",
            f'column "{name}" holds times without a time zone.',
            "Say which clock they show: --time-zone Europe/Paris, or --time-zone UTC.",
        )
    known = kind in NAIVE_TYPES or kind in ZONED_TYPES or kind == "VARCHAR" or is_number(kind)
    if not known:
        raise wrong_type(name, kind, role, "a timestamp, ISO text, or a number of seconds since 1970")


def guess_unit(
    types: Mapping[str, str], columns: Mapping[str, str]
) -> tuple[TimeUnit | None, tuple[str, ...]]:
    """Seconds for 32-bit numbers, which hold nothing finer; other numbers need a stated unit."""
    for role in ("time", "start_time", "end_time"):
        kind = types.get(role, "").removesuffix("[]")
        if kind in ("INTEGER", "UINTEGER"):
            return "s", (f'"{columns[role]}" counts seconds since 1970 (32-bit numbers)',)
        if is_number(kind):
            raise SourceError(
                "missing-time-unit",
                f'column "{columns[role]}" holds numbers; their unit is not known.',
                "Pass --time-unit s, ms or us (since 1970, UTC).",
            )
    return None, ()


def guess_scale(columns: Mapping[str, str]) -> tuple[float, tuple[str, ...]]:
    """Names ending in e5, e6 or e7 hold degrees times that power of ten."""
    for digits in "567":
        if all(plain_name(columns.get(role, "")).endswith(f"e{digits}") for role in ("lon", "lat")):
            return float(f"1e-{digits}"), (f"coordinate scale 1e-{digits}, from the column names",)
    return 1.0, ()


def is_number(kind: str) -> bool:
    wide = kind in WIDE_INTEGER_TYPES
    return kind in INTEGER_TYPES or kind in FLOAT_TYPES or kind.startswith("DECIMAL") or wide


def is_label(kind: str) -> bool:
    return kind == "VARCHAR" or kind in INTEGER_TYPES or kind == "UBIGINT" or kind.startswith("ENUM")


def wrong_type(name: str, kind: str, role: str, rule: str) -> SourceError:
    return SourceError(
        "wrong-type",
        f'the {role} column must be {rule}; column "{name}" is {kind}.',
        f"Cast it before, or choose another column with --column {role}=NAME.",
    )


@dataclass(frozen=True, kw_only=True)
class SourceSummary:
    exact_users: int
    first_us: int | None  # None when no row is good
    last_us: int | None
    place_range: Mapping[str, tuple[float, float]] | None = None  # lon and lat, or x and y; None for sites
    at_zero: int = 0  # rows at 0,0

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
            ends += ["count(*) FILTER (x = 0 AND y = 0)", "min(x)", "max(x)", "min(y)", "max(y)"]
        query = f'SELECT count(DISTINCT "user"), {", ".join(ends)} FROM ({events}) WHERE reason = 0'
        try:
            users, start, end, *places = cursor.execute(query).fetchall()[0]
        except duckdb.Error as error:
            raise unreadable(source, error) from None
    at_zero, *corners = places or (0,)
    place_range = None
    if corners and corners[0] is not None:
        names = ("x", "y") if source.planar else ("lon", "lat")
        place_range = {names[0]: (corners[0], corners[1]), names[1]: (corners[2], corners[3])}
    return SourceSummary(
        exact_users=users, first_us=start, last_us=end, place_range=place_range, at_zero=at_zero
    )


def moment(time_us: int | None) -> datetime | None:
    return None if time_us is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


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


def unreadable(source: EventSource, error: Exception) -> SourceError:
    """What DuckDB could not read, in our words."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return SourceError(
            "memory-limit", "reading the source took more memory than allowed.", "Raise the limit."
        )
    return SourceError(
        "corrupt-parquet" if source.format == "parquet" else "unreadable-csv",
        f"a file of the source cannot be read ({first_line(error)}).",
        "Copy or write it again; a truncated copy is the usual cause.",
    )
