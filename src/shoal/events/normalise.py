"""The SQL that turns rows of any shape into normalised events, each with a reason why it is bad (0: good).

One query, built in steps: read the files, take lists apart, read the times, join the zone, judge. Scans and
checks run the same query, so that what is checked is what is read.

Times go from text or numbers to microseconds, then from the written clock to UTC. Offsets of a time zone per
local day turn naive local times into UTC by a plain join. A local time that a clock shows twice (autumn) is
ambiguous, one that it never shows (spring) does not exist. Both are bad rows: any silent choice would move
people by an hour.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa

from shoal.errors import PlanError
from shoal.events.files import locked_connection, one_file
from shoal.events.schema import (
    FIRST_US,
    FLOAT_TYPES,
    INTEGER_TYPES,
    LAST_US,
    NAIVE_TYPES,
    ZONED_TYPES,
    EventSource,
    Shape,
)
from shoal.space.clock import DAY_US, stretches

MAX_ID = 256  # bytes; a batch of a million rows must fit into memory
# A row's reason is the first that applies, by its place in this list.
REASONS: dict[str, str] = {
    "good": "",
    "unparsable-row": "the line has too few or too many fields, open quotes, a lone carriage return, or bytes"
    " that are not UTF-8",
    "null-user": "the user is missing",
    "null-trip": "the trip is missing",
    "long-id": f"the user, trip or site has more than {MAX_ID} bytes",
    "list-length-mismatch": "the lists of one trip are empty, missing or of different lengths",
    "bad-time": "the time is missing or cannot be read",
    "no-time-unit": "the time is a number, and its unit was not told (--time-unit)",
    "naive-time": "the time has no zone, and none was told (--time-zone)",
    "out-of-range-time": "the time is before 1970 or after 2099",
    "ambiguous-time": "the local clock showed this time twice (daylight saving ended)",
    "nonexistent-time": "the local clock never showed this time (daylight saving began)",
    "unknown-site": "the site is missing or not in the list of sites",
    "bad-coordinate": "a coordinate is missing, not finite or out of range",
    "null-flag": "the flag is missing or neither true nor false",
    "end-before-start": "the trip ends before it starts",
}
ID_ROLES = ("user", "trip", "site", "start_site", "end_site")
CSV_LINES = "shoal_csv_lines"  # the relation of files that DuckDB does not read itself: see lines.py
CODES = {name: code for code, name in enumerate(REASONS)}


def events_sql(
    source: EventSource,
    *,
    site_type: str | None,
    rows: bool = False,
    flag: bool = False,
    unread: bool = False,
) -> str:
    """Normalised events with `reason` (a code) and `style` (how a text time is written, or null).

    `site_type` names the ENUM of public sites; without it sites stay text. `rows` adds `file` and `row`,
    `unread` the first time of a row that could not be read, as it is written.
    """
    parts = [f"read_rows AS ({rows_sql(source, rows, flag)})"]
    if source.shape is Shape.TRIP_LIST:
        parts.append(f"apart AS ({apart_sql(source)})")
    parts.append(f"timed AS ({timed_sql(source, parts[-1].split(' ', 1)[0])})")
    parts.append(f"judged AS ({judged_sql(source, site_type, rows, flag, unread)})")
    return "WITH " + ",\n".join(parts) + "\nSELECT * FROM judged"


def rows_sql(source: EventSource, rows: bool, flag: bool) -> str:
    """The columns that play a role, renamed `r_<role>`."""
    relation = relation_of(source)
    if relation is not None:  # columns are named by role there, and lines were taken apart before
        named = [f"r_{role}" for role in source.columns if role != "flag" or flag]
        named += ["unparsable", *(["file", "row"] if rows else [])]
        return f"SELECT {', '.join(named)} FROM {relation}"
    picked = [
        # by table: without one, DuckDB reads a missing column "user" as the name of its own user
        f"rows.{quoted(name)} AS r_{role}"
        for role, name in source.columns.items()
        if role != "flag" or flag
    ]
    if rows:
        picked += ["filename AS file", "file_row_number + 1 AS row"]
    options = ", filename = true, file_row_number = true" if rows else ""
    paths = ", ".join(literal(one_file(path)) for path in source.paths)
    files = f"read_parquet([{paths}], hive_partitioning = false{options})"
    return f"SELECT {', '.join(picked)} FROM {files} AS rows"


def relation_of(source: EventSource) -> str | None:
    """The relation that rows come from, None where DuckDB reads the files."""
    return source.relation or (CSV_LINES if source.format == "csv" else None)


def apart_sql(source: EventSource) -> str:
    """Points of trips in list columns; a row whose lists do not fit gives one point marked `misfit`."""
    first, second = ("r_x", "r_y") if source.planar else ("r_lon", "r_lat")
    lists = {each: as_list(each, source) for each in (first, second)}
    times_listed = source.point_seconds is None
    if times_listed:
        lists["r_time"] = as_list("r_time", source)
    as_lists = ", ".join(f"{sql} AS {name}" for name, sql in lists.items())
    lengths = [f"len({name})" for name in lists]
    fits = " AND ".join(
        [f"coalesce({lengths[0]}, 0) > 0", *(f"{lengths[0]} = {each}" for each in lengths[1:])]
    )
    taken = ", ".join(f"{name}[place] AS {name}" for name in lists)
    return (
        f"SELECT * REPLACE ({taken}) FROM (SELECT *, unnest(CASE WHEN misfit THEN [NULL] ELSE"
        f" range(1, {lengths[0]} + 1) END) AS place FROM (SELECT *, ({fits}) IS NOT TRUE AS misfit"
        f" FROM (SELECT * REPLACE ({as_lists}) FROM read_rows)))"
    )


def as_list(name: str, source: EventSource) -> str:
    """A list column; in CSV the text "[1.5, 2.5]"."""
    if source.types[name.removeprefix("r_")].endswith("[]"):
        return name
    return f"TRY_CAST({name} AS VARCHAR[])"


def judged_sql(source: EventSource, site_type: str | None, rows: bool, flag: bool, unread: bool) -> str:
    """Final columns, and the first reason that applies."""
    user = label_sql("r_user", source.types["user"])
    columns, reasons, joins = [f'{user} AS "user"'], ["WHEN r_user IS NULL THEN {null-user}"], []
    if not source.user_is_integer:
        reasons[0] = "WHEN r_user IS NULL OR r_user::VARCHAR = '' THEN {null-user}"
    if relation_of(source) is not None:
        reasons.insert(0, "WHEN unparsable THEN {unparsable-row}")
    if source.shape.has_trips:
        columns.append(f"{label_sql('r_trip', source.types['trip'])} AS trip")
        reasons.append("WHEN r_trip IS NULL THEN {null-trip}")
    ids = [each for each in ID_ROLES if source.types.get(each) == "VARCHAR"]
    if ids:
        long = " OR ".join(f"strlen(r_{role}) > {MAX_ID}" for role in ids)
        reasons.append(f"WHEN {long} THEN {{long-id}}")
    if source.shape is Shape.TRIP_LIST:
        reasons.append("WHEN misfit THEN {list-length-mismatch}")
    for role in time_roles(source):
        final, reason, join = zoned_time(role, source)
        columns.append(f"{final} AS {role}_us")
        reasons += reason
        joins += join
    for role in ("site", "start_site", "end_site"):
        if role in source.columns:
            columns.append(f"{site_sql(f'r_{role}', site_type)} AS {role}")
            reasons.append(f"WHEN {site_sql(f'r_{role}', site_type)} IS NULL THEN {{unknown-site}}")
    if not source.shape.has_sites:
        x, y, reason = place_sql(source)
        columns += [f"{x} AS x", f"{y} AS y"]
        reasons.append(reason)
    if flag:
        columns.append("TRY_CAST(r_flag AS BOOLEAN) AS flag")
        reasons.append("WHEN TRY_CAST(r_flag AS BOOLEAN) IS NULL THEN {null-flag}")
    if source.shape is Shape.TRANSIT:
        reasons.append(
            f"WHEN {zoned_time('end_time', source)[0]} < {zoned_time('start_time', source)[0]}"
            " THEN {end-before-start}"
        )
    case = " ".join(reasons)
    for name, code in CODES.items():
        case = case.replace("{" + name + "}", str(code))
    shown = [f"{role}_style" for role in time_roles(source)] + (["file", "row"] if rows else [])
    if unread:
        times = [f"CASE WHEN {role}_raw IS NULL THEN r_{role}::VARCHAR END" for role in time_roles(source)]
        shown.append(f"coalesce({', '.join(times)}) AS unread_time")
    return (
        f"SELECT {', '.join(columns)}, (CASE {case} ELSE 0 END)::UTINYINT AS reason,"
        f" {', '.join(shown)} FROM timed {' '.join(joins)}"
    )


def label_sql(column: str, kind: str) -> str:
    """Integers as BIGINT, all else as text, cut so that no batch holds more than MAX_ID bytes of it."""
    if kind in INTEGER_TYPES:
        return f"{column}::BIGINT"
    return f"CASE WHEN strlen({column}::VARCHAR) <= {MAX_ID} THEN {column}::VARCHAR END"


def site_sql(column: str, site_type: str | None) -> str:
    """The index of a site in the public list, or its name when there is no list; null when unknown."""
    if site_type is None:
        return f"CASE WHEN strlen({column}::VARCHAR) BETWEEN 1 AND {MAX_ID} THEN {column}::VARCHAR END"
    return f"enum_code(TRY_CAST({column}::VARCHAR AS {site_type}))::INTEGER"


def place_sql(source: EventSource) -> tuple[str, str, str]:
    """Both coordinates as doubles, scaled, and the reason that refuses them."""
    first, second = ("r_x", "r_y") if source.planar else ("r_lon", "r_lat")
    x, y = (scaled(f"TRY_CAST({each} AS DOUBLE)", source.coordinate_scale) for each in (first, second))
    # NaN needs its own test: file statistics leave it out, and DuckDB folds a mere range to true by them.
    good = f"isfinite({x}) AND isfinite({y})"
    if not source.planar:
        good += f" AND {x} BETWEEN -180 AND 180 AND {y} BETWEEN -90 AND 90"
    return x, y, f"WHEN ({good}) IS NOT TRUE THEN {{bad-coordinate}}"


def scaled(column: str, scale: float) -> str:
    """Divides by a whole number where it can: 1234567 / 1e5 is the double nearest to 12.34567."""
    if scale == 1.0:
        return column
    whole = round(1 / scale)
    if whole >= 1 and abs(1 / scale - whole) < 1e-9 * whole:
        return f"({column} / {float(whole)!r}::DOUBLE)"
    return f"({column} * {scale!r}::DOUBLE)"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


ZONE_TABLE = "shoal_zone_days"
HOUR_US = 3_600_000_000
OFFSET, NAIVE, NUMBER = 1, 2, 3  # how a text time is written
_STAMP = r"^\s*\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
_OFFSET_PATTERN = _STAMP + r")(Z|z| ?UTC|[+-]\d{2}(:?\d{2})?)\s*$"
_NAIVE_PATTERN = _STAMP + r")?\s*$"
_NUMBER_PATTERN = r"^\s*-?\d+(\.\d*)?\s*$"


def timed_sql(source: EventSource, before: str) -> str:
    """Adds `<role>_raw` (microseconds, on the clock it was written in) and, for text, `<role>_style`."""
    added = []
    for role in time_roles(source):
        raw, style = time_sql(f"r_{role}", source.types[role].removesuffix("[]"), source)
        added += [f"{raw} AS {role}_raw", f"{style} AS {role}_style"]
    return f"SELECT *, {', '.join(added)} FROM {before}"


def time_roles(source: EventSource) -> tuple[str, ...]:
    return ("start_time", "end_time") if source.shape is Shape.TRANSIT else ("time",)


def time_sql(column: str, kind: str, source: EventSource) -> tuple[str, str]:
    """Microseconds since 1970 on the written clock (null: unreadable), and how it is written."""
    if kind in ZONED_TYPES or kind in NAIVE_TYPES:
        exact = "TIMESTAMPTZ" if kind in ZONED_TYPES else "TIMESTAMP"
        return f"epoch_us({column}::{exact})", "NULL::UTINYINT"
    if kind != "VARCHAR":
        return number_time(column, kind, source), "NULL::UTINYINT"
    if source.time_format is not None:
        raw = f"epoch_us(try_strptime(trim({column}), {format_literal(source.time_format)}))"
        style = OFFSET if names_offset(source.time_format) else NAIVE
        return raw, f"CASE WHEN {raw} IS NOT NULL THEN {style} END::UTINYINT"
    if source.time_unit is not None:
        return number_time(f"TRY_CAST({column} AS DOUBLE)", "DOUBLE", source), "NULL::UTINYINT"
    style = (
        f"CASE WHEN regexp_matches({column}, '{_OFFSET_PATTERN}') THEN {OFFSET}"
        f" WHEN regexp_matches({column}, '{_NAIVE_PATTERN}') THEN {NAIVE}"
        f" WHEN regexp_matches({column}, '{_NUMBER_PATTERN}') THEN {NUMBER} END::UTINYINT"
    )
    raw = (
        f"CASE {style} WHEN {OFFSET} THEN epoch_us(TRY_CAST({column} AS TIMESTAMPTZ))"
        f" WHEN {NAIVE} THEN epoch_us(TRY_CAST({column} AS TIMESTAMP)) END"
    )
    return raw, style


def number_time(column: str, kind: str, source: EventSource) -> str:
    """Epoch numbers as microseconds; -1 when out of range, null when not a number."""
    factor = {"s": 1_000_000, "ms": 1_000, "us": 1}[source.time_unit or "s"]
    if kind in FLOAT_TYPES or kind.startswith("DECIMAL"):
        exact, known = f"round({column}::DOUBLE * {factor})::BIGINT", f"isfinite({column}::DOUBLE)"
    else:
        exact, known = f"{column}::BIGINT * {factor}", f"{column} IS NOT NULL"
    inside = f"{column} >= {FIRST_US // factor} AND {column} < {LAST_US // factor}"
    return f"CASE WHEN {known} THEN CASE WHEN {inside} THEN {exact} ELSE -1 END END"


def zoned_time(role: str, source: EventSource) -> tuple[str, list[str], list[str]]:
    """The time in UTC, the reasons that refuse it, and the join with the zone where one is needed."""
    raw, style, zone = f"{role}_raw", f"{role}_style", f"{role}_zone"
    text = is_text(role, source)
    reasons = [f"WHEN {raw} IS NULL THEN {{bad-time}}"]
    if text:
        reasons.insert(0, f"WHEN {style} = {NUMBER} THEN {{no-time-unit}}")
        if source.time_zone is None:
            reasons.append(f"WHEN {style} = {NAIVE} THEN {{naive-time}}")
    reasons.append(f"WHEN {raw} < {FIRST_US} OR {raw} >= {LAST_US} THEN {{out-of-range-time}}")
    final, joins = raw, []
    if needs_zone(role, source):
        local = f"{style} = {NAIVE}" if text else "true"
        odd = f"{local} AND {raw} >= {zone}.lo_us AND {raw} < {zone}.hi_us"
        reasons.append(
            f"WHEN {odd} THEN CASE WHEN {zone}.fold THEN {{ambiguous-time}} ELSE {{nonexistent-time}} END"
        )
        shift = f"CASE WHEN {raw} < {zone}.lo_us THEN {zone}.before_us ELSE {zone}.after_us END"
        final = f"({raw} - CASE WHEN {local} THEN {shift} ELSE 0 END)"
        joins.append(f"LEFT JOIN {ZONE_TABLE} {zone} ON {zone}.day = {raw} // {DAY_US}")
    if source.shape is Shape.TRIP_LIST and source.point_seconds is not None:
        final = f"({final} + ((place - 1) * {round(source.point_seconds * 1e6)})::BIGINT)"
    return final, reasons, joins


def is_text(role: str, source: EventSource) -> bool:
    """Times are text that says, row by row, whether it names an offset."""
    return source.types[role].removesuffix("[]") == "VARCHAR" and source.time_unit is None


def needs_zone(role: str, source: EventSource) -> bool:
    """Times may show a local clock other than UTC."""
    naive = source.types[role].removesuffix("[]") in NAIVE_TYPES or is_text(role, source)
    return naive and source.time_zone not in (None, "UTC", "Etc/UTC")


def names_offset(time_format: str) -> bool:
    """Times in this format name their offset from UTC.

    >>> names_offset("%d/%m/%Y %H:%M%z"), names_offset("%d/%m/%Y 100%%z")
    (True, False)
    """
    return "%z" in time_format.replace("%%", "")


def format_literal(time_format: str) -> str:
    return "'" + time_format.strip().replace("'", "''") + "'"


def check_format(time_format: str) -> None:
    """A format DuckDB knows, from which a date, and the hour of the day if any, can be read back."""
    remedy = "Pass --time-format '%d/%m/%Y %H:%M:%S', say; %z stands for an offset such as +02:00."
    shown = f'time-format "{time_format}"'
    if "%Z" in time_format.replace("%%", ""):
        message = f"{shown} has %Z, and names of zones do not say which of two repeated hours is meant."
        raise PlanError("bad-time-format", message, "Use %z for offsets, or pass --time-zone instead.")
    wanted = "TIMESTAMP '2026-11-23 21:45:00'"
    text = format_literal(time_format)
    query = f"SELECT epoch_us(try_strptime(strftime({wanted}, {text}), {text})), epoch_us({wanted})"
    try:
        with locked_connection() as connection:
            read_back, exact = connection.execute(query).fetchall()[0]
    except duckdb.Error as error:
        reason = str(error).splitlines()[0].removeprefix("Invalid Input Error: ")[:120]
        raise PlanError("bad-time-format", f"{shown} is not a strptime format ({reason}).", remedy) from None
    if read_back is None or read_back // DAY_US != exact // DAY_US:
        raise PlanError("bad-time-format", f"{shown} does not say year, month and day.", remedy)
    if read_back % DAY_US and read_back // HOUR_US != exact // HOUR_US:
        message = f"{shown} does not say which half of the day an hour is in."
        raise PlanError("bad-time-format", message, "Use %H for hours up to 24, or %I together with %p.")


@lru_cache(maxsize=8)
def zone_days(time_zone: str) -> pa.Table:
    """One row per local day: offset before and after the day's change, and the odd stretch between.

    A local time before `lo_us` has offset `before_us`, from `hi_us` on it has `after_us`; in between it is
    ambiguous (`fold` true) or does not exist. On ordinary days `lo_us = hi_us = 0`.
    """
    parts = stretches(FIRST_US - DAY_US, LAST_US + DAY_US, checked_zone(time_zone), DAY_US)
    changes = [(at, old, new) for (_, at, old), (_, _, new) in pairwise(parts)]
    days = np.arange(FIRST_US // DAY_US - 1, LAST_US // DAY_US + 2)
    offsets = np.array([offset for _, _, offset in parts], dtype=np.int64)
    # A local time comes after a change once it is past the odd stretch; no ordinary day holds one.
    passed = np.array([at + max(old, new) for at, old, new in changes], dtype=np.int64)
    offset = offsets[np.searchsorted(passed, days * DAY_US + DAY_US // 2, side="right")]
    table = {"day": days, "lo_us": np.zeros_like(days), "hi_us": np.zeros_like(days)}
    table |= {"before_us": offset.copy(), "after_us": offset.copy(), "fold": np.zeros(len(days), dtype=bool)}
    for at, old, new in changes:
        lo, hi = at + min(old, new), at + max(old, new)
        for day in range(lo // DAY_US, (hi - 1) // DAY_US + 1):
            row = day - days[0]
            table["lo_us"][row], table["hi_us"][row] = lo, hi
            table["before_us"][row], table["after_us"][row] = old, new
            table["fold"][row] = new < old
    return pa.table(table)


def checked_zone(time_zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise PlanError(
            "unknown-time-zone",
            f'no time zone is called "{time_zone}".',
            'Use a name of the tz database, as "Europe/Paris" or "UTC".',
        ) from None
