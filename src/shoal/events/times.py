"""SQL for times: from text or numbers to microseconds, then from the written clock to UTC.

Offsets of a time zone per local day turn naive local times into UTC by a plain join. A local time that a
clock shows twice (autumn) is ambiguous, one that it never shows (spring) does not exist. Both are bad rows:
any silent choice would move people by an hour.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa

from shoal.errors import PlanError
from shoal.events.files import locked_connection
from shoal.events.schema import FIRST_US, FLOAT_TYPES, LAST_US, NAIVE_TYPES, ZONED_TYPES, EventSource, Shape
from shoal.space.clock import DAY_US, stretches

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
