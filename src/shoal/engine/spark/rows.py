"""Rows of a Spark partition read in a task: the SQL that DuckDB runs on files, run on the rows at hand.

So a row means the same wherever it is read: one set of rules for times, places and what makes a row bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from shoal.events.lines import lines_of
from shoal.events.readers import counts_sql, is_clean, scan_sql, source_changed, without_marks
from shoal.events.schema import EventSource
from shoal.events.source import Prepared, limited_connection, prepared

RELATION = "shoal_rows"
ROWS_AT_ONCE = 500_000
BYTES_AT_ONCE = 64 * 2**20
MEMORY = "512MB"
REPORT = "file string, code int, rows bigint, offsets bigint, naive bigint"


@dataclass(frozen=True, kw_only=True)
class RowReader:
    """Raw rows in, normalised events out; public and picklable."""

    source: EventSource  # with `relation`
    sites: Sequence[str] | None = field(repr=False)
    window_us: tuple[int, int] | None
    with_flag: bool = False

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Events in no order. The rows were checked before, so an error here tells nothing of them."""
        seen: set[int] = set()
        with self._opened() as (cursor, site_type, _):
            query = scan_sql(self.source, site_type, self.window_us, self.with_flag)
            for batch in self._answers(cursor, query, rows):
                if not is_clean(batch, self.source, seen):
                    raise source_changed()
                if batch.num_rows:
                    yield without_marks(batch)

    def report(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows and time styles per file and reason, as `check_rows` counts them."""
        with self._opened() as (cursor, site_type, _):
            query = counts_sql(self.source, site_type, 1, self.with_flag)
            for batch in self._answers(cursor, query, rows):
                columns = [batch.column(at) for at in range(5)]
                kinds = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int64()]
                cast = [column.cast(kind) for column, kind in zip(columns, kinds, strict=True)]
                yield pa.RecordBatch.from_arrays(cast, names=["file", "code", "rows", "offsets", "naive"])

    @contextmanager
    def _opened(self) -> Iterator[Prepared]:
        with (
            limited_connection(MEMORY, threads=1) as connection,
            prepared(self.source, self.sites, connection) as connected,
        ):
            yield connected

    def _answers(
        self, cursor: duckdb.DuckDBPyConnection, query: str, rows: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        for batch in gathered(rows, ROWS_AT_ONCE):
            table = pa.Table.from_batches([batch])
            if self.source.format == "csv":  # whole lines: see lines.py
                columns, which = lines_of(batch["line"], self.source)
                files = {"file": batch["file"].take(pa.array(which))} if "file" in table.schema.names else {}
                table = pa.table(columns | files)
            if "file" not in table.schema.names:
                table = table.append_column("file", pa.repeat("", table.num_rows))
            cursor.register(RELATION, table.append_column("row", pa.repeat(0, table.num_rows)))
            try:
                yield from cursor.sql(query).to_arrow_table().to_batches()
            finally:
                cursor.unregister(RELATION)


def gathered(batches: Iterable[pa.RecordBatch], least: int) -> Iterator[pa.RecordBatch]:
    """Batches put together until they have `least` rows, or many bytes (rows may hold whole trips)."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= least or size >= BYTES_AT_ONCE:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.concat_batches(waiting)
