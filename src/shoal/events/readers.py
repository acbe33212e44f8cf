"""Read a source: a stream of normalised Arrow batches, and the check of every row before it.

The check is one streaming pass: how many rows are bad, why, and where the first ones are. It is for the
owner's eyes, never released. An engine is given events with the number of the place they were seen at.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import duckdb
import numpy as np
import pyarrow as pa

from shoal.errors import ShoalError, SourceError
from shoal.events.normalise import NAIVE, OFFSET, REASONS, events_sql, is_text, time_roles
from shoal.events.schema import EventSource, ForeignSource, Shape
from shoal.events.source import limited_connection, prepared, unreadable
from shoal.space.geography import Geography


def scan(
    source: EventSource,
    *,
    sites: Sequence[str] | None = None,
    window_us: tuple[int, int] | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
    rows_per_batch: int = 1_000_000,
    with_flag: bool = False,
    by_user: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Normalised events: user, time_us, then site (index in `sites`) or x, y; trip and flag where there are.

    Events outside `window_us` (start included, end not) are left out. A bad row is dropped or stops the scan,
    as the source says. Without `sites`, site is text. Rows come in no order; `by_user`: users come one after
    the other, sorted on disk if need be.
    """
    if isinstance(source, ForeignSource):
        yield from source.batches(sites=sites, window_us=window_us, with_flag=with_flag, by_user=by_user)
        return
    seen: set[int] = set()
    with ExitStack() as stack:
        base = connection if connection is not None else stack.enter_context(limited_connection())
        cursor, site_type, _ = stack.enter_context(prepared(source, sites, base))
        query = scan_sql(source, site_type, window_us, with_flag) + (' ORDER BY "user"' if by_user else "")
        try:
            for batch in cursor.sql(query).to_arrow_reader(rows_per_batch):
                if not is_clean(batch, source, seen):
                    raise row_error(source, sites, with_flag)
                if batch.num_rows:
                    yield without_marks(batch)
        except (duckdb.Error, pa.ArrowException, OSError, UnicodeError, MemoryError) as error:
            # Arrow wraps errors in mid-stream.
            raise row_error(source, sites, with_flag, unreadable(source, error)) from None


def scan_sql(
    source: EventSource, site_type: str | None, window_us: tuple[int, int] | None, with_flag: bool
) -> str:
    """Good events in the window; with "stop" the bad ones too, for the caller to refuse."""
    events = events_sql(source, site_type=site_type, flag=with_flag)
    styles = [f"{role}_style" for role in time_roles(source) if is_text(role, source)]
    picked = ['"user"', *(["trip"] if source.shape.has_trips else []), "time_us"]
    picked += ["site"] if source.shape.has_sites else ["x", "y"]
    picked += [*(["flag"] if with_flag else []), "reason", *styles]
    if source.shape is Shape.TRANSIT:
        picked[1] = "unnest([start_time_us, end_time_us]) AS time_us"
        picked[2] = "unnest([start_site, end_site]) AS site"
    query = f"SELECT {', '.join(picked)} FROM ({events})"
    inside = (
        "" if window_us is None else f" AND time_us >= {int(window_us[0])} AND time_us < {int(window_us[1])}"
    )
    refused = "" if source.on_bad_row == "drop" else "reason <> 0 OR "
    return f"SELECT * FROM ({query}) WHERE {refused}(reason = 0{inside})"


def without_marks(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of events alone."""
    return batch.select(
        [name for name in batch.schema.names if name != "reason" and not name.endswith("_style")]
    )


def is_clean(batch: pa.RecordBatch, source: EventSource, seen: set[int]) -> bool:
    """No row is refused, and all text times so far are written in one way; with "drop" rows stand alone."""
    if not batch.num_rows or source.on_bad_row == "drop":
        return True
    for name in batch.schema.names:
        if name.endswith("_style"):
            styles = np.unique(batch[name].drop_null().to_numpy(zero_copy_only=False))
            seen.update(int(style) for style in styles if style in (OFFSET, NAIVE))
    return len(seen) < 2 and not batch["reason"].to_numpy(zero_copy_only=False).any()


def row_error(
    source: EventSource, sites: Sequence[str] | None, with_flag: bool, otherwise: ShoalError | None = None
) -> ShoalError:
    """The error that says which rows are bad, found by a full check."""
    try:
        # No value of a row may be shown once the check is over, and a scan comes after it.
        report = check_rows(source, sites=sites, with_flag=with_flag)
        replace(report, unread_time=None).raise_if_bad()
    except ShoalError as error:
        return error
    return otherwise or SourceError("bad-row", "the source changed while it was read.", "Run it again.")


def site_columns(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch.select(["user", "time_us", "site"]) for batch in batches)


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteEvents:
    """Events that name sites, counted in the order of `sites`: columns user, time_us, site."""

    source: EventSource
    sites: Sequence[str] | None = field(repr=False)
    window_us: tuple[int, int]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return scan_placed(self)

    def place(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return site_columns(batches)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedEvents:
    """A description that can be pickled: an engine iterates it, or reads the same source in its own way.

    Batches have columns user, time_us, site; `site` counts the geography's places, -1 is outside all of them.
    """

    source: EventSource
    geography: Geography = field(repr=False)
    window_us: tuple[int, int]

    @property
    def sites(self) -> Sequence[str] | None:
        return self.geography.site_ids

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return scan_placed(self)

    def place(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.geography.place(batches)


def scan_placed(events: SiteEvents | PlacedEvents) -> Iterator[pa.RecordBatch]:
    """Batches in no order. The rows were checked before, so an error here tells nothing of them."""
    try:
        yield from events.place(scan(events.source, sites=events.sites, window_us=events.window_us))
    except (SourceError, OSError, pa.ArrowException):
        raise source_changed() from None


def source_changed() -> SourceError:
    return SourceError(
        "source-changed",
        "the events can no longer be read the way they were checked.",
        "Leave the files alone during a run; `shoal inspect` checks them again.",
    )


CODE_NAMES = tuple(REASONS)
SWAPPED = (
    "Longitude and latitude look swapped: name them the other way round, --column lon=... --column lat=..."
)
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
    swapped: int = 0  # bad coordinates that would be good the other way round, and only so
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
        if self.swapped and 2 * self.swapped >= self.by_reason.get("bad-coordinate", 0):
            return SWAPPED
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
        swapped=counted.swapped,
        unread_time=unread,
    )


@dataclass
class FoundRows:
    """Counts by reason, by time style and by file, while they are being collected."""

    counts: Counter[str] = field(default_factory=Counter)
    styles: Counter[int] = field(default_factory=Counter)
    by_file: dict[str, Counter[str]] = field(default_factory=dict)
    examples: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    swapped: int = 0

    def add(
        self,
        file: str,
        code: int,
        count: int,
        offset: int,
        naive: int,
        numbers: list[int] | None,
        swapped: int = 0,
    ) -> None:
        self.swapped += swapped
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
    swapped = "0"
    if not (source.shape.has_sites or source.planar):
        good = f"reason = {CODE_NAMES.index('bad-coordinate')} AND abs(x) <= 90 AND abs(y) BETWEEN 90 AND 180"
        swapped = f"count(*) FILTER ({good})"
    counts = f"count(*), {', '.join(totals)}, {numbers}, {swapped}"
    return f"SELECT file, reason, {counts} FROM ({events}) GROUP BY file, reason"


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
