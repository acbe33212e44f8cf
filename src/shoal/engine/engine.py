"""Interfaces of kernels and engines, and the default engine.

An engine does one thing: bring all events of a user together and run a kernel over user-complete
batches, summing what it returns. A kernel turns a batch into named integer arrays of fixed shape.
Integer sums do not depend on order, and a kernel's choices depend on its key and the user alone; so
every engine, any split and any number of threads give the same sums bit by bit.

Trips are asked several times, each question chosen by the noisy answers before it: an engine encodes them
once, keeps them where it keeps data, and answers each question with a sum. Blocks of people are worked on
apart, where the engine has space for them.

The default engine works on one machine: DuckDB reads, users come together in buckets, threads run the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from shoal.engine.buckets import UserBuckets, cut_users
from shoal.errors import PlanError

Sums = dict[str, np.ndarray]
Progress = Callable[[str, int], None]  # what was done, how many rows of it
Cut = Callable[[pa.RecordBatch], pa.RecordBatch]
Item = TypeVar("Item")
Made = TypeVar("Made")


class UserKernel(Protocol):
    """A function of user-complete batches; frozen, picklable, and silent about its run key."""

    @property
    def run_key(self) -> bytes: ...

    def __call__(self, batch: pa.RecordBatch) -> Sums: ...

    def zero(self) -> Sums:
        """The sums over no users at all."""
        ...


class PointBatches(Protocol):
    """Points of trips in user-complete batches: `shoal.events.trips.TripPoints`."""

    def batches(self, cut: Cut | None = None) -> Iterator[pa.RecordBatch]:
        """`cut` bounds the points of a user before trips are found among them."""
        ...


class Encoder(Protocol):
    """Points to encoded trips, bounded per unit; frozen and picklable."""

    @property
    def run_key(self) -> bytes: ...

    @property
    def each_trip(self) -> bool: ...

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """The trips of a batch."""
        ...

    def join(self, parts: Sequence[Any]) -> Any:
        """Trips of many batches as one stage, checked to be user-complete."""
        ...

    def queries(self, stage: Any) -> Any:
        """Sums over a stage, and nothing else."""
        ...


class Watch(Protocol):
    """Counts of points, for the owner alone."""

    def zero(self) -> Sums: ...

    def __call__(self, batch: pa.RecordBatch) -> Sums: ...


class Held(Protocol):
    """Encoded trips where the engine keeps them."""

    @property
    def watched(self) -> Sums: ...

    def queries(self) -> Any:
        """The query interface of a mechanism: sums over all trips."""
        ...

    def gather(self) -> tuple[Any, float]:
        """The stage itself, for the owner's figures: all of it, or of a share of the units, and the share."""
        ...


class Engine(Protocol):
    """Brings each user's events together and sums a kernel over all users.

    `events` is any iterable of batches; runs pass `shoal.events.readers.PlacedEvents`, which also describes
    the source, so that an engine on a cluster can read it there instead of iterating it here.
    """

    @property
    def name(self) -> str: ...

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums: ...


@runtime_checkable
class ReadsSources(Protocol):
    """An engine that opens sources itself, where only it can reach them."""

    def open_source(self, plan: Any) -> Any: ...


@runtime_checkable
class WorksElsewhere(Protocol):
    """An engine that works on pieces apart from this process, several at a time."""

    def each(self, work: Callable[[Item], Made], items: Iterable[Item], count: int) -> Iterator[Made]:
        """work(item) for every item, in order."""
        ...


def no_progress(what: str, rows: int) -> None:
    """Shows nothing."""


def passed_on(name: str) -> Any:
    """A property that reads an attribute of an attribute, as "trips.grid"."""
    return property(attrgetter(name))


def add_sums(total: Sums, part: Sums) -> None:
    """Add `part` into `total`, in place."""
    for name, values in part.items():
        total[name] += values


MEBIBYTE = 2**20
ROWS_PER_CALL = 400_000  # of the kernel: fewer would cost more in sums than in rows


@dataclass(frozen=True, kw_only=True)
class DuckEngine:
    """Sums over users on one machine with bounded memory.

    `spill_mib` is what may wait in memory before rows go to the temporary folder; the order in which
    threads finish does not matter, since sums are of integers.
    """

    name: str = "duckdb"
    threads: int = 0  # 0: one per core
    spill_mib: float = 768
    temp_folder: str | None = None

    def __post_init__(self) -> None:
        if self.threads < 0:
            rule = f"threads must be 0 (one per core) or more; got {self.threads}."
            raise PlanError("engine-threads", rule, "Pass --threads 4, say.")

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums:
        tell = progress or no_progress
        run_key = kernel.run_key
        with UserBuckets(
            run_key, spill_bytes=int(self.spill_mib * MEBIBYTE), folder=self.temp_folder
        ) as buckets:
            for batch in events:
                buckets.add(batch)
                tell("read", batch.num_rows)
            buckets.finish()
            return self._sum_buckets(buckets, kernel, tell)

    def _sum_buckets(self, buckets: UserBuckets, kernel: UserKernel, tell: Progress) -> Sums:
        total = kernel.zero()

        def one(group: range) -> tuple[int, Sums | None]:
            batch = buckets.read(group)
            if batch is None:
                return 0, None
            return batch.num_rows, kernel(cut_users(batch, kernel.run_key))

        threads = self.threads or os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            groups = buckets.groups(ROWS_PER_CALL, least=threads)
            results = map(one, groups) if threads == 1 else pool.map(one, groups)
            for rows, part in results:
                if part is not None:
                    add_sums(total, part)
                    tell("count", rows)
        return total

    def hold(
        self, points: PointBatches, encoder: Encoder, watch: Watch, progress: Progress | None = None
    ) -> HeldHere:
        """Trips encoded in threads, kept in memory."""
        watched = watch.zero()

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in points.batches(cut_of(encoder)):
                add_sums(watched, watch(batch))
                yield batch

        return HeldHere(encoder, encode_trips(batches(), encoder, progress or no_progress), watched)


@dataclass(frozen=True, eq=False)
class HeldHere:
    """Encoded trips in the memory of this process."""

    encoder: Encoder
    stage: Any = field(repr=False)
    watched: Sums

    def queries(self) -> Any:
        return self.encoder.queries(self.stage)

    def gather(self) -> tuple[Any, float]:
        return self.stage, 1.0


def encode_trips(
    batches: Iterable[pa.RecordBatch], encoder: Encoder, progress: Progress = no_progress
) -> Any:
    """All batches encoded, in threads, as one stage; the batches are user-complete."""
    parts = []
    for rows, part in in_threads(batches, encoder):
        parts.append(part)
        progress("encode", rows)
    return encoder.join(parts)


def in_threads(
    batches: Iterable[pa.RecordBatch], work: Callable[[pa.RecordBatch], Made]
) -> Iterator[tuple[int, Made]]:
    """Rows and results in order of the batches; only a few batches wait at a time."""
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        waiting = []
        for batch in batches:
            waiting.append((batch.num_rows, pool.submit(work, batch)))
            if len(waiting) > threads:
                rows, future = waiting.pop(0)
                yield rows, future.result()
        for rows, future in waiting:
            yield rows, future.result()


def sum_parts(count: int, part: Callable[[int, int], Any], at_least: int = 2000) -> Any:
    """part(begin, end) summed over a split of `count` trips among the cores."""
    threads = max(1, min(os.cpu_count() or 1, count // at_least))
    if threads == 1:
        return part(0, count)
    cuts = np.linspace(0, count, 4 * threads + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        results = pool.map(part, cuts[:-1].tolist(), cuts[1:].tolist())
        total = next(results)
        for more in results:
            total += more
    return total


def cut_of(encoder: Encoder) -> Cut | None:
    """How a user's points are cut; where the unit is a trip they are not, since trips would share a cut."""
    return None if encoder.each_trip else partial(cut_users, run_key=encoder.run_key)
