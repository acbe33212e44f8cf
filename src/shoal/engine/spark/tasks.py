"""What runs in tasks: callables over the Arrow batches of one Spark partition.

Everything public about a job is broadcast. The run key is in the closure of the task and nowhere else, and a
task's result is a function of its rows and the key: an attempt that is repeated gives the same sums.

Driver and workers must have the same libraries: another version may read, place or choose differently.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from shoal.engine.buckets import StreamCut, UserBuckets, by_user
from shoal.engine.duck import MEBIBYTE, ROWS_PER_CALL, DuckEngine, cut_of
from shoal.engine.protocol import Encoder, Sums, UserKernel, Watch, add_sums
from shoal.engine.spark.failures import in_task, task_failed
from shoal.engine.spark.rows import RowReader, gathered
from shoal.engine.spark.shuffle import Slots, as_bytes, in_pieces, pack, packed, unpack, whole
from shoal.errors import EngineError, ShoalError
from shoal.events.schema import TripRule
from shoal.events.trip_reader import numbered

if TYPE_CHECKING:
    from pyspark import Broadcast


SPILL_MIB = 256  # rows of a part that may wait in memory
ROWS_TO_PACK = 1_000_000
NO_KEY = b""
Place = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Work(Protocol):
    """A job without its key."""

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]: ...


class Task:
    """A job, pickled and broadcast, and the run key. Plans and logs show its name alone."""

    def __init__(self, work: Broadcast[bytes], run_key: bytes = NO_KEY) -> None:
        self._work, self._run_key, self._versions = work, run_key, versions()

    def __repr__(self) -> str:
        return "Task()"

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            check_versions(self._versions)
            yield from pickle.loads(self._work.value)(rows, self._run_key)
        except ShoalError as error:
            raise in_task(error) from None
        except Exception as error:  # its text may quote rows: Spark would log it
            raise in_task(task_failed(error)) from None


@dataclass(frozen=True)
class Check:
    """Rows counted by what is wrong with them."""

    reader: RowReader

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
        return self.reader.report(rows)


@dataclass(frozen=True)
class Read:
    """Rows read, placed, cut to the public cap of a user, packed by part."""

    reader: RowReader
    parts: int
    place: Place | None = field(default=None, repr=False)
    cuts: bool = True

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
        found: Iterator[pa.RecordBatch] = self.reader(rows)
        if self.place is not None:
            found = self.place(found)
        cut = StreamCut(run_key) if self.cuts else None
        for batch in gathered(found, ROWS_TO_PACK):
            yield pack(batch if cut is None else cut(batch), self.parts, run_key)


@dataclass(frozen=True)
class Find:
    """One row as soon as a batch of events passes a test."""

    reader: RowReader
    test: Callable[[pa.RecordBatch], bool] = field(repr=False)

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
        if any(self.test(batch) for batch in self.reader(rows)):
            yield packed(0, b"")


@dataclass(frozen=True)
class BringUsers:
    """Packed rows, each user's together, brought to the driver."""

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
        for batch in whole_users(unpack(rows, set()), run_key):
            yield packed(0, as_bytes(batch))


@dataclass(frozen=True)
class Sum:
    """A kernel summed over the users of a part, by the engine of one machine."""

    kernel: UserKernel = field(repr=False)

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
        kernel, seen = with_key(self.kernel, run_key), set[int]()
        engine, cut = DuckEngine(threads=1, spill_mib=SPILL_MIB), StreamCut(run_key)
        batches = (cut(batch) for batch in gathered(unpack(rows, seen), ROWS_PER_CALL))
        sums = engine.sum_users(batches, kernel)
        yield from Slots.of(kernel.zero()).spread(sums, seen)


@dataclass(frozen=True)
class Encode:
    """Points of the users of a part as one stage of encoded trips, pickled; first what was watched."""

    encoder: Encoder = field(repr=False)
    watch: Watch
    rule: TripRule | None
    planar: bool

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
        encoder, seen, watched = with_key(self.encoder, run_key), set[int](), self.watch.zero()
        cut = cut_of(encoder)
        found = gathered(unpack(rows, seen), ROWS_PER_CALL)
        if cut is not None:
            found = map(StreamCut(run_key), found)
        encoded = []
        for users in whole_users(found, run_key):
            points = numbered(users if cut is None else cut(users), self.rule, self.planar)
            if points.num_rows:
                add_sums(watched, self.watch(points))
                encoded.append(encoder(points))
        stage = encoder.join(encoded)
        yield from in_pieces(0, pickle.dumps((sorted(seen), watched, stage), protocol=5))


@dataclass(frozen=True)
class Ask:
    """Answers one query on the encoded trips of a part by an array."""

    encoder: Encoder = field(repr=False)
    method: str
    arguments: tuple[Any, ...] = field(repr=False)
    slots: Slots

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
        for seen, _, stage in stages(rows):
            answer = getattr(self.encoder.queries(stage), self.method)(*self.arguments)
            yield from self.slots.spread({"answer": answer}, seen)


@dataclass(frozen=True)
class Watched:
    """What was watched while the trips of a part were encoded."""

    slots: Slots

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
        for seen, watched, _ in stages(rows):
            yield from self.slots.spread(watched, seen)


@dataclass(frozen=True)
class Each:
    """work(item) for the pickled item of a partition."""

    work: Callable[[Any], Any] = field(repr=False)

    def __call__(self, rows: Iterator[pa.RecordBatch], run_key: bytes) -> Iterator[pa.RecordBatch]:
        items: dict[int, list[bytes]] = {}
        for batch in rows:
            for number, payload in zip(batch["part"].to_pylist(), batch["payload"].to_pylist(), strict=True):
                items.setdefault(number, []).append(payload)
        for number, pieces in items.items():
            pieces.sort(key=piece_number)
            item = pickle.loads(b"".join(piece[8:] for piece in pieces))
            yield from in_pieces(number, pickle.dumps(self.work(item), protocol=5))


def piece_number(piece: bytes) -> int:
    return int.from_bytes(piece[:8], "little")


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
