"""Checks every row of a source in one streaming pass: how many are bad, why, and where the first ones are.

Also summarises the good rows (users, times, places). Both are for the owner's eyes, never released.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import duckdb

from shoal.errors import SourceError
from shoal.events.connection import limited_connection, prepared
from shoal.events.files import first_line
from shoal.events.normalise import NAIVE, OFFSET, REASONS, events_sql, is_text, time_roles
from shoal.events.schema import EventSource, ForeignSource, Shape

CODE_NAMES = tuple(REASONS)
# What to look at when most rows are bad for one reason.
LIKELY_CAUSES = {
    "unparsable-row": "Check the delimiter (--delimiter) and the encoding, which must be UTF-8.",
    "bad-time": "Say how times are written: --time-format '%d/%m/%Y %H:%M:%S', say, or --time-unit s for"
    " numbers. Or choose another column with --column time=NAME.",
    "no-time-unit": "Pass --time-unit s, ms or us (since 1970, UTC).",
    "out-of-range-time": "Check --time-unit (s, ms or us) or --time-format.",
    "unknown-site": "Check that --sites is the list these events are of, and its ids (--site-id); or choose"
    " another column with --column site=NAME.",
    "bad-coordinate": "Check which columns are the coordinates (--column lon=NAME) and --coordinate-scale.",
}


@dataclass(frozen=True, kw_only=True)
class RowReport:
    """What is wrong with the rows of a source. For the owner's eyes: counts come from raw rows.

    Rows of trip lists are counted point by point, under the row they came from.
    """

    rows: int
    by_reason: Mapping[str, int]  # bad rows only
    examples: Mapping[str, tuple[tuple[str, int], ...]]  # reason -> (file, row or line; 0: not known)
    unit: str = "row"  # "row" of a Parquet file, "line" of a CSV file; both start at 1
    offset_times: int = 0  # text times that name an offset from UTC
    naive_times: int = 0  # text times that do not
    unread_time: str | None = None  # the first time that could not be read, as it is written

    @property
    def bad(self) -> int:
        return sum(self.by_reason.values())

    @property
    def good(self) -> int:
        return self.rows - self.bad

    def raise_if_bad(self) -> None:
        """One error that says what is wrong and where, if anything is."""
        if self.offset_times and self.naive_times:
            raise SourceError(
                "mixed-time-zones",
                f"{self.offset_times} times name an offset from UTC and {self.naive_times} do not.",
                "Write all of them with an offset, or all without and pass --time-zone.",
            )
        if self.by_reason.get("naive-time"):
            raise SourceError(
                "naive-time",
                f"{self.naive_times} times have no time zone{self.where('naive-time')}.",
                "Say which clock they show: --time-zone Europe/Paris, or --time-zone UTC.",
            )
        if self.bad:
            counts = "; ".join(
                f"{count} {reason} ({self.meaning(reason)}){self.where(reason)}"
                for reason, count in self.by_reason.items()
            )
            message = f"{self.bad} of {self.rows} rows are bad: {counts}."
            raise SourceError("bad-row", message, self.remedy())

    def remedy(self) -> str:
        """A few bad rows can be left out; where most are bad, the description of the source is wrong."""
        if 2 * self.bad <= self.rows:
            return "Repair them, or leave them out with --on-bad-row drop."
        usual = max(self.by_reason, key=lambda reason: self.by_reason[reason])
        return LIKELY_CAUSES.get(usual, "Check with `shoal inspect` which column is which (--column).")

    def meaning(self, reason: str) -> str:
        """What a reason means, with the first unreadable time as it is written."""
        if reason == "bad-time" and self.unread_time is not None:
            return f'{REASONS[reason]}, such as "{printable(self.unread_time)}"'
        return REASONS[reason]

    def where(self, reason: str) -> str:
        """The first bad rows, as ", row 3 of events.parquet"."""
        examples = self.examples.get(reason, ())
        return "".join(
            f", {self.unit} {number} of {file}" if number else f", in {file}" for file, number in examples[:3]
        )


def check_rows(
    source: EventSource,
    *,
    sites: Sequence[str] | None = None,
    progress: Callable[[float], None] | None = None,
    limit: int = 5,
    with_flag: bool = False,
) -> RowReport:
    """Read every row once and say which are bad; up to `limit` examples per reason.

    `progress` is called with the share done, from 0 to 1.
    """
    if isinstance(source, ForeignSource):
        return source.row_report(sites=sites, with_flag=with_flag, progress=progress)
    counted = FoundRows()
    try:
        with (
            limited_connection() as connection,
            prepared(source, sites, connection) as (
                cursor,
                site_type,
                share,
            ),
        ):
            query = counts_sql(source, site_type, limit, with_flag)
            with reporting(share, progress):
                for row in cursor.execute(query).fetchall():
                    counted.add(*row)
            reasons = {
                name: counted.counts[name] for name in CODE_NAMES if counted.counts[name] and name != "good"
            }
            unread = find_unread(cursor, source, site_type) if "bad-time" in reasons else None
    except (duckdb.Error, UnicodeError, MemoryError) as error:
        raise unreadable(source, error) from None
    return RowReport(
        rows=counted.counts.total(),
        by_reason=reasons,
        examples={name: tuple(sorted(counted.examples[name])[:limit]) for name in reasons},
        unit="row" if source.format == "parquet" else "line",
        offset_times=counted.styles[OFFSET],
        naive_times=counted.styles[NAIVE],
        unread_time=unread,
    )


@dataclass
class FoundRows:
    """Counts by reason, by time style and by file, while they are being collected."""

    counts: Counter[str] = field(default_factory=Counter)
    styles: Counter[int] = field(default_factory=Counter)
    by_file: dict[str, Counter[str]] = field(default_factory=dict)
    examples: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def add(
        self, file: str, code: int, count: int, offset: int, naive: int, numbers: list[int] | None
    ) -> None:
        name = CODE_NAMES[code]
        self.counts[name] += count
        self.styles[OFFSET] += offset
        self.styles[NAIVE] += naive
        if name != "good":
            self.by_file.setdefault(file, Counter())[name] += count
        self.examples.setdefault(name, []).extend((file, number) for number in numbers or ())


def counts_sql(source: EventSource, site_type: str | None, limit: int, with_flag: bool) -> str:
    """Rows, time styles and first row numbers per file and reason."""
    events = events_sql(source, site_type=site_type, rows=True, flag=with_flag)
    styled = [f"{role}_style" for role in time_roles(source) if is_text(role, source)]
    broken = CODE_NAMES.index("unparsable-row")
    totals = [
        " + ".join(f"count(*) FILTER ({name} = {style} AND reason <> {broken})" for name in styled) or "0"
        for style in (OFFSET, NAIVE)
    ]
    numbers = f"min(row, {int(limit)}) FILTER (reason <> 0)"
    return (
        f"SELECT file, reason, count(*), {', '.join(totals)}, {numbers} FROM ({events}) GROUP BY file, reason"
    )


def find_unread(cursor, source: EventSource, site_type) -> str | None:
    """The first time that could not be read, as it is written; None where all of them are missing."""
    events = events_sql(source, site_type=site_type, rows=True, unread=True)
    bad = f"reason = {CODE_NAMES.index('bad-time')} AND unread_time IS NOT NULL"
    query = f"SELECT arg_min(unread_time, {{'file': file, 'row': row}}) FROM ({events}) WHERE {bad}"
    return cursor.execute(query).fetchall()[0][0]


def printable(text: str, most: int = 40) -> str:
    """A value from a file, short and on one line.

    >>> printable("1 June\\n2026")
    '1 June?2026'
    """
    short = text if len(text) <= most else text[: most - 3] + "..."
    return "".join(letter if letter.isprintable() else "?" for letter in short)


@contextmanager
def reporting(share: Callable[[], float], progress: Callable[[float], None] | None) -> Iterator[None]:
    """Calls `progress` a few times a second while a query runs."""
    if progress is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            progress(share())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        progress(1.0)


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
