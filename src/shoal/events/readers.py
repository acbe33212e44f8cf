"""Read a source as a stream of normalised Arrow batches.

Events of a source with the number of the place they were seen at: what an engine is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa

from shoal.errors import ShoalError, SourceError
from shoal.events.checks import check_rows, unreadable
from shoal.events.connection import limited_connection, prepared
from shoal.events.normalise import NAIVE, OFFSET, events_sql, is_text, time_roles
from shoal.events.schema import EventSource, ForeignSource, Shape
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


class EventsOf(Protocol):
    """Events described, so that an engine may read them in its own way: what to scan, how to place it."""

    @property
    def source(self) -> EventSource: ...

    @property
    def sites(self) -> Sequence[str] | None: ...

    @property
    def window_us(self) -> tuple[int, int]: ...

    def place(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


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


def scan_placed(events: EventsOf) -> Iterator[pa.RecordBatch]:
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
