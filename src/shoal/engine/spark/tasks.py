"""What runs in tasks: rows of a Spark partition read, and callables over their Arrow batches.

Rows are read by the SQL that DuckDB runs on files, run on the rows at hand. So a row means the same wherever
it is read: one set of rules for times, places and what makes a row bad.

Everything public about a job is broadcast. The run key is in the closure of the task and nowhere else, and a
task's result is a function of its rows and the key: an attempt that is repeated gives the same sums.

Driver and workers must have the same libraries: another version may read, place or choose differently.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from shoal.engine.buckets import StreamCut, UserBuckets, by_user
from shoal.engine.engine import (
    MEBIBYTE,
    ROWS_PER_CALL,
    DuckEngine,
    Encoder,
    Sums,
    UserKernel,
    Watch,
    add_sums,
    cut_of,
)
from shoal.engine.spark.jobs import Slots, add_slots, as_bytes, in_pieces, pack, packed, unpack, whole
from shoal.engine.spark.session import in_task, task_failed
from shoal.errors import EngineError, ShoalError
from shoal.events.lines import lines_of
from shoal.events.readers import counts_sql, is_clean, scan_sql, source_changed, without_marks
from shoal.events.schema import EventSource, TripRule
from shoal.events.source import Prepared, limited_connection, prepared
from shoal.events.trips import numbered

if TYPE_CHECKING:
    from pyspark import Broadcast


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
        """Events in no order. The rows were checked before, so an error here reveals nothing about them."""
        time_styles: set[int] = set()
        with self._opened() as (cursor, site_type, _):
            query = scan_sql(self.source, site_type, self.window_us, self.with_flag)
            for batch in self._answers(cursor, query, rows):
                if not is_clean(batch, self.source, time_styles):
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


SPILL_MIB = 256  # rows of a part that may wait in memory
ROWS_TO_PACK = 1_000_000
NO_KEY = b""
Place = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches, bytes], Batches]  # a job without its key: batches of a partition, and the key


class Task:
    """A job, pickled and broadcast, and the run key. Plans and logs show its name alone."""

    def __init__(self, work: Broadcast[bytes], run_key: bytes = NO_KEY) -> None:
        self._work, self._run_key, self._versions = work, run_key, versions()

    def __repr__(self) -> str:
        return "Task()"

    def __call__(self, rows: Batches) -> Batches:
        try:
            check_versions(self._versions)
            yield from pickle.loads(self._work.value)(rows, self._run_key)
        except ShoalError as error:
            raise in_task(error) from None
        except Exception as error:  # its text may quote rows: Spark would log it
            raise in_task(task_failed(error)) from None


# Jobs are functions of public things (bound by `partial`), of the batches of a partition, and of the key.


def check(reader: RowReader, rows: Batches, run_key: bytes) -> Batches:
    """Rows counted by what is wrong with them."""
    return reader.report(rows)


def read(
    reader: RowReader, parts: int, place: Place | None, cuts: bool, rows: Batches, run_key: bytes
) -> Batches:
    """Rows read, placed, cut to the public cap of a user, packed by part."""
    events: Batches = reader(rows)
    if place is not None:
        events = place(events)
    cut = StreamCut(run_key) if cuts else None
    for batch in gathered(events, ROWS_TO_PACK):
        yield pack(batch if cut is None else cut(batch), parts, run_key)


def find(reader: RowReader, test: Callable[[pa.RecordBatch], bool], rows: Batches, run_key: bytes) -> Batches:
    """One row as soon as a batch of events passes a test."""
    if any(test(batch) for batch in reader(rows)):
        yield packed(0, b"")


def bring_users(rows: Batches, run_key: bytes) -> Batches:
    """Packed rows, each user's together, brought to the driver."""
    for batch in whole_users(unpack(rows, set()), run_key):
        yield packed(0, as_bytes(batch))


def sum_kernel(keyless: UserKernel, rows: Batches, run_key: bytes) -> Batches:
    """A kernel summed over the users of a part, by the engine of one machine."""
    kernel, parts = with_key(keyless, run_key), set[int]()
    engine, cut = DuckEngine(threads=1, spill_mib=SPILL_MIB), StreamCut(run_key)
    batches = (cut(batch) for batch in gathered(unpack(rows, parts), ROWS_PER_CALL))
    sums = engine.sum_users(batches, kernel)
    yield from Slots.of(kernel.zero()).spread(sums, parts)


def encode(
    keyless: Encoder, watch: Watch, rule: TripRule | None, planar: bool, rows: Batches, run_key: bytes
) -> Batches:
    """Points of the users of a part as one stage of encoded trips, pickled; first what was watched."""
    encoder, parts, watched = with_key(keyless, run_key), set[int](), watch.zero()
    cut = cut_of(encoder)
    events = gathered(unpack(rows, parts), ROWS_PER_CALL)
    if cut is not None:
        events = map(StreamCut(run_key), events)
    encoded = []
    for users in whole_users(events, run_key):
        points = numbered(users if cut is None else cut(users), rule, planar)
        if points.num_rows:
            add_sums(watched, watch(points))
            encoded.append(encoder(points))
    stage = encoder.join(encoded)
    yield from in_pieces(0, pickle.dumps((sorted(parts), watched, stage), protocol=5))


def ask(
    encoder: Encoder, method: str, arguments: tuple[Any, ...], slots: Slots, rows: Batches, run_key: bytes
) -> Batches:
    """Answers one query on the encoded trips of a part by an array."""
    for parts, _, stage in stages(rows):
        answer = getattr(encoder.queries(stage), method)(*arguments)
        yield from slots.spread({"answer": answer}, parts)


def watched_sums(slots: Slots, rows: Batches, run_key: bytes) -> Batches:
    """What was watched while the trips of a part were encoded."""
    for parts, watched, _ in stages(rows):
        yield from slots.spread(watched, parts)


def each_item(work: Callable[[Any], Any], rows: Batches, run_key: bytes) -> Batches:
    """work(item) for the pickled items of a partition."""
    items: dict[int, list[bytes]] = {}
    for batch in rows:
        for number, payload in zip(batch["part"].to_pylist(), batch["payload"].to_pylist(), strict=True):
            items.setdefault(number, []).append(payload)
    for number, pieces in items.items():
        pieces.sort(key=lambda piece: int.from_bytes(piece[:8], "little"))
        item = pickle.loads(b"".join(piece[8:] for piece in pieces))
        yield from in_pieces(number, pickle.dumps(work(item), protocol=5))


def add_parts(rows: Batches, run_key: bytes) -> Batches:
    """Slots of many parts added up."""
    return add_slots(rows)


def stages(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[list[int], Sums, Any]]:
    """The one stage of a partition, from its pieces in order."""
    for content in whole(payload for batch in rows for payload in batch["payload"].to_pylist()):
        yield pickle.loads(content)


def with_key(keyed: Any, run_key: bytes) -> Any:
    """A kernel or encoder with the key put in, or taken out."""
    return replace(keyed, run_key=run_key)


def whole_users(rows: Iterable[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
    """User-complete batches, each user's rows together, with bounded memory."""
    with UserBuckets(run_key, spill_bytes=SPILL_MIB * MEBIBYTE) as buckets:
        for batch in gathered(rows, ROWS_PER_CALL):
            buckets.add(batch)
        buckets.finish()
        for group in buckets.groups(ROWS_PER_CALL, least=1):
            if (batch := buckets.read(group)) is not None:
                yield batch.take(pa.array(by_user(batch["user"], run_key).order))


COMPARED = ("shoal", "duckdb", "numba", "numpy", "pyarrow", "shapely", "tzdata")


@lru_cache
def versions() -> tuple[tuple[str, str], ...]:
    """What is installed in this process."""
    return tuple((name, _version(name)) for name in COMPARED)


def check_versions(expected: tuple[tuple[str, str], ...]) -> None:
    if versions() == expected:
        return
    here = dict(versions())
    other = [f"{name} {here[name]}, not {wanted}" for name, wanted in expected if here[name] != wanted]
    raise EngineError(
        "worker-versions",
        f"a worker has other versions than this machine: {'; '.join(other)}.",
        "Install the same versions on every worker, and point PYSPARK_PYTHON at them.",
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
