"""Jobs on a Spark session: a task over the rows of a frame, a shuffle by part, sums brought home."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shoal.engine.engine import Progress, Sums
from shoal.engine.spark.session import one_clear_error
from shoal.engine.spark.shuffle import PACKED, Slots
from shoal.engine.spark.tasks import NO_KEY, Task, Work, add_parts
from shoal.errors import PlanError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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

    def run(self, frame: DataFrame, work: Work, schema: str, run_key: bytes = NO_KEY) -> DataFrame:
        """`work` over every partition; public things are broadcast, the key is in the closure alone."""
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
