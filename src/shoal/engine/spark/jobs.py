"""Jobs on a Spark session: a task over the rows of a frame, a shuffle by part, sums brought home.

Rows travel packed by the part of the users they belong to, so that Spark moves few large pieces. A part is a
share of the users by a keyed hash of their ids; all rows of a user are in one part, and Spark brings the
pieces of a part together by its number. Sums travel in slots, each as narrow as its numbers allow.
"""

from __future__ import annotations

import math
import pickle
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.engine.buckets import counting_sort, digest_users
from shoal.engine.engine import Progress, Sums
from shoal.engine.spark.session import one_clear_error
from shoal.errors import GuaranteeError, PlanError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shoal.engine.spark.tasks import Work


ROWS_PER_PART = 8_000_000
MOST_PARTS = 100_000
FEW_PARTS = 16  # up to here sums of all parts come to the driver; above they are added on the way
ADDERS = 64
LOOK_SECONDS = 0.3


@dataclass(eq=False)
class Jobs:
    """What the engine and its sources do with Spark; `partitions` is how many parts the users make."""

    session: SparkSession
    partitions: int | None = None
    _sent: list[Any] = field(default_factory=list, init=False, repr=False)
    _kept: list[Any] = field(default_factory=list, init=False, repr=False)

    def parts(self, rows: int | None, per_part: int = ROWS_PER_PART) -> int:
        """As asked; else one per core, and more where parts would be large."""
        if self.partitions is not None:
            return self.partitions
        cores = self.session.sparkContext.defaultParallelism
        return min(MOST_PARTS, max(cores, -(-(rows or 0) // per_part)))

    def run(self, frame: DataFrame, work: Work, schema: str, run_key: bytes = b"") -> DataFrame:
        """`work` over every partition; public things are broadcast, the key is in the closure alone."""
        from shoal.engine.spark.tasks import Task  # which imports the blobs of this module

        # As bytes: PySpark's encrypted broadcast fails on arrays, which pickle hands over as buffers.
        sent = self.session.sparkContext.broadcast(pickle.dumps(work, pickle.HIGHEST_PROTOCOL))
        self._sent.append(sent)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about pandas, which no task of ours uses
            return frame.mapInArrow(Task(sent, run_key), schema)  # pyright: ignore[reportArgumentType]

    def by_part(self, frame: DataFrame, parts: int) -> DataFrame:
        """All pieces of a part in one partition."""
        from pyspark.sql import functions as F

        return frame.repartitionById(parts, F.col("part"))

    def total(
        self, frame: DataFrame, slots: Slots, parts: int, progress: Callable[[str, float], None] | None = None
    ) -> Sums:
        """Slots of all partitions added up, here or, where there are many, on the way."""
        from shoal.engine.spark.tasks import add_parts

        if parts > FEW_PARTS:
            frame = self.run(self.by_part(frame, min(slots.count, ADDERS)), add_parts, PACKED)
        with self.watched(None, progress):
            rows = frame.collect()
        return slots.join(((row[0], bytes(row[1])) for row in rows), parts)

    @contextmanager
    def watched(
        self,
        share: Callable[[float], None] | None = None,
        stages: Callable[[str, float], None] | None = None,
    ) -> Iterator[None]:
        """Runs what is inside with clear errors; tells how far it is by the tasks that are done."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done, share, stages), daemon=True)
        if share or stages:
            watcher.start()
        try:
            with one_clear_error():
                yield
        finally:
            done.set()
            if watcher.is_alive():
                watcher.join()
        if share:
            share(1.0)

    def _watch(self, done: threading.Event, share: Any, stages: Any) -> None:
        tracker = self.session.sparkContext.statusTracker()
        first: int | None = None
        while not done.wait(LOOK_SECONDS):
            try:
                active = sorted(tracker.getActiveStageIds())
                info = tracker.getStageInfo(active[0]) if active else None
            except Exception:
                return
            if info is None or not info.numTasks:
                continue
            first = info.stageId if first is None else first
            part = info.numCompletedTasks / info.numTasks
            if share:
                share(part)
            if stages:
                stages("read" if info.stageId == first else "count", part)

    def keep(self, frame: DataFrame) -> DataFrame:
        """In memory and on disks of the cluster, until `forget`."""
        from pyspark import StorageLevel

        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._kept[-1]

    def forget(self) -> None:
        """What was kept and broadcast is not needed any more."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()
        for sent in self._sent:
            sent.destroy()
        self._sent.clear()


def check_partitions(partitions: int | None) -> None:
    if partitions is not None and not 1 <= partitions <= MOST_PARTS:
        raise PlanError(
            "spark-partitions",
            f"partitions must be from 1 to {MOST_PARTS}; got {partitions}.",
            "Pass --partitions 64, say, or leave it out.",
        )


def progress_by_rows(progress: Progress | None, rows: int | None) -> Callable[[str, float], None] | None:
    """Shares of tasks as rows, for a bar that counts rows."""
    if progress is None or not rows:
        return None
    shown: dict[str, int] = {}

    def show(what: str, share: float) -> None:
        done = int(share * rows)
        progress(what, max(0, done - shown.get(what, 0)))
        shown[what] = max(done, shown.get(what, 0))

    return show


PACKED = "part int, payload binary"
PACKED_ARROW = pa.schema([("part", pa.int32()), ("payload", pa.binary())])
PARTS_SLOT = 0  # the parts that a task has summed
SLOT_NUMBERS = 1 << 20
PIECE_BYTES = 32 * 2**20
LENGTH = 8  # bytes that say how long a content is


def pack(batch: pa.RecordBatch, parts: int, run_key: bytes) -> pa.RecordBatch:
    """One row per part that has rows in the batch."""
    # High bits: the low ones choose buckets within a part.
    part = ((digest_users(batch["user"], run_key) >> np.uint64(32)) % np.uint64(parts)).astype(np.int64)
    first, order = counting_sort(part, parts)
    ordered = batch.take(pa.array(order))
    filled = np.flatnonzero(np.diff(first))
    payloads = [as_bytes(ordered.slice(first[p], first[p + 1] - first[p])) for p in filled]
    return pa.RecordBatch.from_arrays(
        [pa.array(filled.astype(np.int32)), pa.array(payloads, pa.binary())], schema=PACKED_ARROW
    )


def as_bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def unpack(pieces: Iterable[pa.RecordBatch], parts: set[int]) -> Iterator[pa.RecordBatch]:
    """The rows of packed pieces; their parts are added to `parts`."""
    for batch in pieces:
        parts.update(batch["part"].unique().to_pylist())
        for payload in batch["payload"]:
            yield from pa.ipc.open_stream(payload.as_buffer())


def in_pieces(part: int, content: bytes) -> Iterator[pa.RecordBatch]:
    """Bytes as rows of one part, in order; the first row begins with the length."""
    content = len(content).to_bytes(LENGTH, "little") + content
    for at in range(0, len(content), PIECE_BYTES):
        yield packed(part, content[at : at + PIECE_BYTES])


def whole(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Contents put together again from pieces in order."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= LENGTH + int.from_bytes(waiting[:LENGTH], "little"):
            yield bytes(waiting[LENGTH:])
            waiting = bytearray()


def packed(part: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([part], pa.int32()), pa.array([payload], pa.binary())], schema=PACKED_ARROW
    )


@dataclass(frozen=True)
class Slots:
    """Where the numbers of named arrays go: `shapes` by name; slot 0 is for the numbers of the parts."""

    shapes: Mapping[str, tuple[int, ...]]

    @property
    def count(self) -> int:
        return 1 + sum(len(self._cuts(shape)) for shape in self.shapes.values())

    @classmethod
    def of(cls, zero: Sums) -> Slots:
        return cls({name: np.shape(values) for name, values in zero.items()})

    def spread(self, sums: Sums, parts: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """One row per slot."""
        yield packed(PARTS_SLOT, narrow(np.array(sorted(parts), np.int64)))
        slot = 1
        for name, shape in self.shapes.items():
            numbers = np.ascontiguousarray(sums[name], np.int64).reshape(-1)
            if np.shape(sums[name]) != tuple(shape):
                raise GuaranteeError("sums-shape", "a kernel returned sums of another shape.")
            for low in self._cuts(shape):
                yield packed(slot, narrow(numbers[low : low + SLOT_NUMBERS]))
                slot += 1

    def join(self, rows: Iterable[tuple[int, bytes]], parts: int) -> Sums:
        """Sums of all tasks; every part of the users was summed by one task alone."""
        flat = {name: np.zeros(math.prod(shape), np.int64) for name, shape in self.shapes.items()}
        homes: list[tuple[str, int]] = [
            (name, low) for name, shape in self.shapes.items() for low in self._cuts(shape)
        ]
        part_lists: list[np.ndarray] = []
        for slot, payload in rows:
            numbers = widened(payload)
            if slot == PARTS_SLOT:
                part_lists.append(numbers)
                continue
            name, low = homes[slot - 1]
            flat[name][low : low + numbers.size] += numbers
        check_parts(part_lists, parts)
        return {name: flat[name].reshape(shape) for name, shape in self.shapes.items()}

    @staticmethod
    def _cuts(shape: tuple[int, ...]) -> range:
        return range(0, max(math.prod(shape), 1), SLOT_NUMBERS)


def check_parts(part_lists: list[np.ndarray], parts: int) -> None:
    """Refuses a part summed by two tasks, which would count its users twice and break the bound on a user."""
    numbers = np.concatenate([np.empty(0, np.int64), *part_lists])
    if np.unique(numbers).size != numbers.size or (
        numbers.size and not 0 <= numbers.min() <= numbers.max() < parts
    ):
        raise GuaranteeError("bound-not-held", "the events of a user were summed in two places.")


def add_slots(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of the same slot as one; lists of parts are concatenated, so that duplicates remain."""
    totals: dict[int, np.ndarray] = {}
    lists: list[np.ndarray] = []
    for batch in pieces:
        for slot, payload in zip(batch["part"].to_pylist(), batch["payload"], strict=True):
            numbers = widened(payload.as_buffer())
            if slot == PARTS_SLOT:
                lists.append(numbers)
            elif slot in totals:
                totals[slot] += numbers
            else:
                totals[slot] = numbers
    if lists:
        yield packed(PARTS_SLOT, narrow(np.concatenate(lists)))
    for slot, numbers in totals.items():
        yield packed(slot, narrow(numbers))


def narrow(numbers: np.ndarray) -> bytes:
    """Whole numbers in as few bytes each as hold them all, after three letters that say how many."""
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    kind = next(
        kind
        for kind in ("<u1", "<i2", "<u2", "<i4", "<u4", "<i8")
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
    )
    return kind.encode() + numbers.astype(kind).tobytes()


def widened(payload: bytes | pa.Buffer) -> np.ndarray:
    """int64, as they were before `narrow`."""
    view = memoryview(payload)
    return np.frombuffer(view[3:], np.dtype(bytes(view[:3]).decode())).astype(np.int64)
