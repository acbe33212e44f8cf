"""The default engine: one machine, DuckDB reads, users come together in buckets, threads run the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from shoal.engine.buckets import UserBuckets, cut_users
from shoal.engine.protocol import (
    Cut,
    Encoder,
    PointBatches,
    Progress,
    Sums,
    UserKernel,
    Watch,
    add_sums,
    no_progress,
)
from shoal.engine.trip_pieces import encode_trips
from shoal.errors import PlanError

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


def cut_of(encoder: Encoder) -> Cut | None:
    """How a user's points are cut; where the unit is a trip they are not, since trips would share a cut."""
    return None if encoder.each_trip else partial(cut_users, run_key=encoder.run_key)
