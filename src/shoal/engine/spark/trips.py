"""Encoded trips kept on the cluster, a stage per part of the users; a question is one sum over all parts."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.engine.engine import Encoder, Progress, Sums, Watch, passed_on
from shoal.engine.path_trips import PathBound
from shoal.engine.spark.failures import one_clear_error
from shoal.engine.spark.jobs import Jobs, progress_by_rows
from shoal.engine.spark.shuffle import PACKED, Slots, whole
from shoal.engine.spark.source import SparkSource
from shoal.engine.spark.tasks import NO_KEY, ask, encode, read, watched_sums, with_key
from shoal.engine.trip_pieces import merge_stages
from shoal.engine.trip_queries import DistinctOnce
from shoal.events.trips import TripPoints
from shoal.space.cell_paths import PathTable
from shoal.space.cells import Rectangles
from shoal.stages.trips import BinsLike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        """Parts are random shares of the users: where not all of them fit here, some stand for all."""
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
class TripQueriesOnSpark(DistinctOnce):
    """`UserTrips` over the parts: every answer is a sum over the parts."""

    held: HeldOnSpark = field(repr=False)

    grid = passed_on("held.encoder.grid")
    per_unit = passed_on("held.encoder.per_unit")
    cap = passed_on("held.encoder.counted")
    each_trip = passed_on("held.encoder.each_trip")

    def count(self) -> int:
        return int(self.held.ask("count", ()))

    def all_trips(self) -> int:
        return int(self.held.ask("all_trips", ()))

    def count_distinct(self, rectangles: Rectangles) -> np.ndarray:
        return self.held.ask("distinct", (rectangles.count,), rectangles)

    def shared_faces(self, lattice: int) -> np.ndarray:
        return self.held.ask("shared_faces", (self.grid.rows, self.grid.columns), lattice)

    def binned(self, bins: BinsLike) -> np.ndarray:
        return self.held.ask("binned", (bins.count,), bins)

    def euler_counts(self, blocks: bool) -> np.ndarray:
        return self.held.ask("euler_counts", (4, self.grid.rows, self.grid.columns), blocks)


@dataclass(frozen=True, eq=False)
class PathQueriesOnSpark:
    """`UserPaths` over the parts."""

    held: HeldOnSpark = field(repr=False)

    step_s = passed_on("held.encoder.step_s")
    each_trip = passed_on("held.encoder.each_trip")
    grid = passed_on("held.encoder.grid")
    cap = passed_on("held.encoder.counted")

    def all_trips(self) -> int:
        return int(self.held.ask("all_trips", ()))

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        return self.held.ask("table", (table.size,), table, norm)
