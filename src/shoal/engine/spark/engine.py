"""Sums over users on Spark: read and validate, cut, shuffle by user, run the kernel, add partial sums.

The kernel, the cut and the reading of rows are those of the default engine; only where they run differs. The
sums are the same bit by bit, for any number of partitions, any order of rows, and after tasks were repeated.
Noise, ledger and post-processing stay in this process and see the sums alone. Independent pieces of work,
such as blocks of people to be anonymised, run as one Spark task each.

Encoded trips are kept on the cluster, a stage per part of the users; a question is one sum over all parts.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from shoal.engine.engine import Encoder, Progress, Sums, UserKernel, Watch, passed_on
from shoal.engine.path_trips import PathBound
from shoal.engine.spark.jobs import (
    PACKED,
    PIECE_BYTES,
    Jobs,
    Slots,
    check_partitions,
    pack,
    progress_by_rows,
    whole,
)
from shoal.engine.spark.session import one_clear_error, open_session
from shoal.engine.spark.source import SparkSource, open_spark_source
from shoal.engine.spark.tasks import (
    NO_KEY,
    ROWS_TO_PACK,
    ask,
    each_item,
    encode,
    gathered,
    read,
    sum_kernel,
    watched_sums,
    with_key,
)
from shoal.engine.trip_pieces import merge_stages
from shoal.engine.trip_queries import DistinctOnce
from shoal.events.readers import site_columns
from shoal.events.schema import SourcePlan
from shoal.events.trips import TripPoints
from shoal.space.cell_paths import PathTable
from shoal.space.cells import Rectangles
from shoal.stages.trips import BinsLike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Item = TypeVar("Item")
Made = TypeVar("Made")


class SparkEngine:
    """An engine on a Spark session: the active one, or one that it starts and `close` stops.

    `partitions`: how many parts the users make; None: by cores and rows.
    """

    name = "spark"

    def __init__(
        self,
        conf: Mapping[str, str] | None = None,
        *,
        partitions: int | None = None,
        session: SparkSession | None = None,
    ) -> None:
        self._own = False
        check_partitions(partitions)  # before Spark is started
        if session is None:
            session, self._own = open_session(conf)
        self.jobs = Jobs(session, partitions)
        self._shuffled: tuple[tuple[Any, ...], DataFrame] | None = None
        self._kept: DataFrame | None = None

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of what is kept on the cluster; stops a session that this engine started."""
        with contextlib.suppress(Exception):  # Spark may be lost: what is in hand must not be masked
            self._drop()
            self.jobs.forget()
        if self._own:
            with contextlib.suppress(Exception):
                self.jobs.session.stop()

    def open_source(self, plan: SourcePlan) -> SparkSource:
        return open_spark_source(self.jobs, plan)

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums:
        source = getattr(events, "source", None)
        rows = source.known.get("rows") if isinstance(source, SparkSource) else None
        parts = self.jobs.parts(rows)
        shuffled = self._by_user(events, parts, kernel.run_key)
        work = partial(sum_kernel, with_key(kernel, NO_KEY))
        summed = self.jobs.run(shuffled, work, PACKED, kernel.run_key)
        return self.jobs.total(summed, Slots.of(kernel.zero()), parts, progress_by_rows(progress, rows))

    def hold(
        self, points: Any, encoder: Encoder, watch: Watch, progress: Progress | None = None
    ) -> HeldOnSpark:
        if not isinstance(points, TripPoints) or not isinstance(points.source, SparkSource):
            raise TypeError("the Spark engine holds trips of sources that it has opened")
        return hold_trips(self.jobs, points, points.source, encoder, watch, progress)

    def each(self, work: Callable[[Item], Made], items: Iterable[Item], count: int) -> Iterator[Made]:
        return each_block(self.jobs, work, items, count)

    def _by_user(self, events: Any, parts: int, run_key: bytes) -> DataFrame:
        """Placed events, packed, each user's in one partition; kept on the cluster from the second use on."""
        source = getattr(events, "source", None)
        if not isinstance(source, SparkSource):
            return self.jobs.by_part(self._sent(events, parts, run_key), parts)
        sites = None if events.sites is None else tuple(events.sites)
        wanted = (source, getattr(events, "geography", None), sites, tuple(events.window_us), parts, run_key)
        if self._shuffled is not None and _same(self._shuffled[0], wanted):
            if self._kept is None:
                from pyspark import StorageLevel

                self._kept = self._shuffled[1].persist(StorageLevel.DISK_ONLY)
            return self._kept
        self._drop()
        reader = source.reader(events.sites, events.window_us, with_flag=False)
        place = events.geography.place if hasattr(events, "geography") else site_columns
        work = partial(read, reader, parts, place, True)
        frame = self.jobs.run(source.frame(), work, PACKED, run_key)
        self._shuffled = wanted, self.jobs.by_part(frame, parts)
        return self._shuffled[1]

    def _sent(self, events: Iterable[pa.RecordBatch], parts: int, run_key: bytes) -> DataFrame:
        """Batches of this process, packed and handed to Spark."""
        rows = [
            (part, payload)
            for batch in gathered(events, ROWS_TO_PACK)
            for part, payload in zip(*pack(batch, parts, run_key).to_pydict().values(), strict=True)
        ]
        return self.jobs.session.createDataFrame(rows, PACKED)

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.unpersist()
        self._shuffled = self._kept = None


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Objects by identity, the rest by value."""
    return all(a is b for a, b in zip(one[:2], other[:2], strict=True)) and one[2:] == other[2:]


WAVES = 2  # items per core that are on the cluster at a time


def each_block(jobs: Jobs, work: Callable[[Item], Made], items: Iterable[Item], count: int) -> Iterator[Made]:
    """work(item) for every item, in order; some at a time, so that this process holds few."""
    at_once = max(1, min(count, WAVES * jobs.session.sparkContext.defaultParallelism))
    waiting = iter(items)
    while wave := list(itertools.islice(waiting, at_once)):
        rows = [row for number, item in enumerate(wave) for row in _pieces(number, item)]
        context = jobs.session.sparkContext
        sent = jobs.session.createDataFrame(context.parallelize(rows, len(rows)), PACKED)
        done = jobs.run(jobs.by_part(sent, len(wave)), partial(each_item, work), PACKED)
        with jobs.watched():
            results = done.collect()
        pieces: dict[int, list[bytes]] = {}
        for row in results:
            pieces.setdefault(row[0], []).append(bytes(row[1]))
        for number in range(len(wave)):
            yield pickle.loads(next(whole(pieces.pop(number))))


def _pieces(number: int, item: object) -> Iterator[tuple[int, bytes]]:
    """A pickled item, in numbered pieces that fit into a message."""
    content = pickle.dumps(item, protocol=5)
    for piece, at in enumerate(range(0, len(content), PIECE_BYTES)):
        yield number, piece.to_bytes(8, "little") + content[at : at + PIECE_BYTES]


POINTS_PER_PART = 2_000_000
MOST_GATHERED = 2 * 2**30  # bytes of trips that the owner's figures are made of here


def hold_trips(
    jobs: Jobs,
    points: TripPoints,
    source: SparkSource,
    encoder: Encoder,
    watch: Watch,
    progress: Progress | None,
) -> HeldOnSpark:
    """Read, cut, shuffle by user, find trips, encode; the stages stay on the cluster."""
    rule, rows = points.rule, source.known.get("rows")
    with_flag = rule is not None and rule.flag
    parts = jobs.parts(rows, POINTS_PER_PART)
    reader = source.reader(None, points.window_us, with_flag)
    reading = partial(read, reader, parts, None, not encoder.each_trip)
    frame = jobs.run(source.frame(with_flag=with_flag), reading, PACKED, encoder.run_key)
    work = partial(encode, with_key(encoder, NO_KEY), watch, rule, source.planar)
    stages = jobs.keep(jobs.run(jobs.by_part(frame, parts), work, PACKED, encoder.run_key))
    slots = Slots.of(watch.zero())
    show_rows = progress_by_rows(progress, rows)

    def show(what: str, share: float) -> None:
        if show_rows is not None and what == "read":  # by far the longer of the two stages
            show_rows("encode", share)

    watched = jobs.total(jobs.run(stages, partial(watched_sums, slots), PACKED), slots, parts, show)
    return HeldOnSpark(jobs, stages, with_key(encoder, NO_KEY), parts, watched)


@dataclass(frozen=True, eq=False)
class HeldOnSpark:
    """Stages of all parts, and sums over them."""

    jobs: Jobs = field(repr=False)
    stages: DataFrame = field(repr=False)
    encoder: Any
    parts: int
    watched: Sums

    def queries(self) -> Any:
        return PathQueriesOnSpark(self) if isinstance(self.encoder, PathBound) else TripQueriesOnSpark(self)

    def ask(self, method: str, shape: tuple[int, ...], *arguments: Any) -> np.ndarray:
        """Sums the answers of all parts."""
        slots = Slots({"answer": shape})
        work = partial(ask, self.encoder, method, arguments, slots)
        return self.jobs.total(self.jobs.run(self.stages, work, PACKED), slots, self.parts)["answer"]

    def gather(self) -> tuple[Any, float]:
        """Stages of as many parts as fit here, and their share of all; parts are random samples of users."""
        gathered: list[Any] = []
        size, partitions = 0, 0
        with one_clear_error():
            for content in whole(bytes(row[1]) for row in self.stages.toLocalIterator()):
                gathered.append(pickle.loads(content)[2])
                size, partitions = size + len(content), partitions + 1
                if size > MOST_GATHERED:
                    break
        return merge_stages(gathered), partitions / self.parts


@dataclass(frozen=True, eq=False)
class QueriesOnSpark:
    """The part that both query interfaces over encoded trips share."""

    encoded: HeldOnSpark = field(repr=False)

    grid = passed_on("encoded.encoder.grid")
    cap = passed_on("encoded.encoder.counted")
    each_trip = passed_on("encoded.encoder.each_trip")

    def all_trips(self) -> int:
        return int(self.encoded.ask("all_trips", ()))


@dataclass(frozen=True, eq=False)
class TripQueriesOnSpark(QueriesOnSpark, DistinctOnce):
    """`UserTrips` over the parts: every answer is a sum over the parts."""

    per_unit = passed_on("encoded.encoder.per_unit")

    def count(self) -> int:
        return int(self.encoded.ask("count", ()))

    def count_distinct(self, rectangles: Rectangles) -> np.ndarray:
        return self.encoded.ask("distinct", (rectangles.count,), rectangles)

    def shared_faces(self, lattice: int) -> np.ndarray:
        return self.encoded.ask("shared_faces", (self.grid.rows, self.grid.columns), lattice)

    def binned(self, bins: BinsLike) -> np.ndarray:
        return self.encoded.ask("binned", (bins.count,), bins)

    def euler_counts(self, blocks: bool) -> np.ndarray:
        return self.encoded.ask("euler_counts", (4, self.grid.rows, self.grid.columns), blocks)


class PathQueriesOnSpark(QueriesOnSpark):
    """`UserPaths` over the parts."""

    step_s = passed_on("encoded.encoder.step_s")

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        return self.encoded.ask("table", (table.size,), table, norm)
