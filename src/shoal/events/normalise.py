"""The SQL that turns rows of any shape into normalised events, each with a reason why it is bad (0: good).

One query, built in steps: read the files, take lists apart, read the times, join the zone, judge. Scans and
checks run the same query, so that what is checked is what is read.
"""

from __future__ import annotations

from shoal.events.files import one_file
from shoal.events.schema import INTEGER_TYPES, EventSource, Shape
from shoal.events.times import time_roles, timed_sql, zoned_time

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
        f"{quoted(name)} AS r_{role}" for role, name in source.columns.items() if role != "flag" or flag
    ]
    if rows:
        picked += ["filename AS file", "file_row_number + 1 AS row"]
    options = ", filename = true, file_row_number = true" if rows else ""
    paths = ", ".join(literal(one_file(path)) for path in source.paths)
    files = f"read_parquet([{paths}], hive_partitioning = false{options})"
    return f"SELECT {', '.join(picked)} FROM {files}"


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
