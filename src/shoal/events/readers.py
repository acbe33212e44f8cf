"""Read a source as a stream of normalised Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import SourceError
from shoal.events.connection import limited_connection, prepared
from shoal.events.normalise import events_sql
from shoal.events.schema import EventSource, Shape
from shoal.events.times import NAIVE, OFFSET, is_text, time_roles


def scan(
    source: EventSource,
    *,
    sites: Sequence[str] | None = None,
    window_us: tuple[int, int] | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
    rows_per_batch: int = 1_000_000,
    with_flag: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Normalised events: user, time_us, then site (index in `sites`) or x, y; trip and flag where there are.

    Events outside `window_us` (start included, end not) are left out. A bad row is dropped or stops the scan,
    as the source says. Without `sites`, site is text. Rows come in no order.
    """
    text = any(is_text(role, source) for role in time_roles(source))
    seen: set[int] = set()
    with nullcontext(connection) if connection is not None else limited_connection() as base:
        with prepared(source, sites, base) as (cursor, site_type):
            query = scan_sql(source, site_type, window_us, with_flag)
            try:
                for batch in cursor.sql(query).to_arrow_reader(rows_per_batch):
                    if text:
                        batch = without_styles(batch, seen)
                    if source.on_bad_row == "stop":
                        batch = without_reason(batch, source, sites, with_flag)
                    if batch.num_rows:
                        yield batch
            except duckdb.Error as error:
                raise unreadable(source, error, sites, with_flag) from None


def scan_sql(
    source: EventSource, site_type: str | None, window_us: tuple[int, int] | None, with_flag: bool
) -> str:
    """Good events in the window; with "stop" the bad ones too, for the caller to refuse."""
    rejects = ", ignore_errors = true" if source.on_bad_row == "drop" else ""
    events = events_sql(source, site_type=site_type, flag=with_flag, rejects=rejects)
    styles = [f"{role}_style" for role in time_roles(source) if is_text(role, source)]
    if source.shape is Shape.TRANSIT:
        picked = [
            "user",
            "unnest([start_time_us, end_time_us]) AS time_us",
            "unnest([start_site, end_site]) AS site",
        ]
    else:
        picked = ["user", *(["trip"] if source.shape.has_trips else []), "time_us"]
        picked += ["site"] if source.shape is Shape.SITE else ["x", "y"]
        picked += ["flag"] if with_flag else []
    query = f"SELECT {', '.join([*picked, 'reason', *styles])} FROM ({events})"
    inside = (
        "true" if window_us is None else f"time_us >= {int(window_us[0])} AND time_us < {int(window_us[1])}"
    )
    if source.on_bad_row == "drop":
        # Rows refused only for their time keep their style, or a mixture of zones would go unseen.
        return f"SELECT * EXCLUDE (reason) FROM ({query}) WHERE reason = 0 AND {inside}"
    return f"SELECT * FROM ({query}) WHERE reason <> 0 OR ({inside})"


def without_styles(batch: pa.RecordBatch, seen: set[int]) -> pa.RecordBatch:
    """Drop the style columns, having checked that all times so far are written in one way."""
    names = [name for name in batch.schema.names if name.endswith("_style")]
    for name in names:
        seen.update(value for value in pc.unique(batch[name]).to_pylist() if value in (OFFSET, NAIVE))
    if len(seen) > 1:
        raise mixed_time_zones()
    return batch.drop_columns(names)


def mixed_time_zones() -> SourceError:
    return SourceError(
        "mixed-time-zones",
        "some times name an offset from UTC and some do not.",
        "Write all of them with an offset, or all without and pass --time-zone.",
    )


def without_reason(batch: pa.RecordBatch, source, sites, with_flag) -> pa.RecordBatch:
    """Drop the reason column, having checked that no row is bad."""
    if batch.num_rows and pc.max(batch["reason"]).as_py():
        raise bad_rows(source, sites, with_flag)
    return batch.drop_columns(["reason"])


def bad_rows(source: EventSource, sites: Sequence[str] | None, with_flag: bool) -> SourceError:
    """The error that names the bad rows."""
    return SourceError("bad-row", "the source has bad rows.", "Pass --on-bad-row drop to leave them out.")


def unreadable(source: EventSource, error: duckdb.Error, sites, with_flag) -> SourceError:
    """What DuckDB could not read, in our words."""
    return SourceError(
        "corrupt-file",
        f"a file of the source cannot be read ({str(error).splitlines()[0][:200]}).",
        "Copy or write it again.",
    )
