"""The default engine: one machine, DuckDB reads, users come together in buckets, threads run the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from shoal.engine.buckets import UserBuckets
from shoal.engine.protocol import Progress, Sums, UserKernel, add_sums

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
    spill_mib: int = 768
    temp_folder: str | None = None

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums:
        tell = progress or (lambda what, rows: None)
        run_key = kernel.run_key
        with UserBuckets(run_key, spill_bytes=self.spill_mib * MEBIBYTE, folder=self.temp_folder) as buckets:
            for batch in events:
                buckets.add(batch)
                tell("read", batch.num_rows)
            buckets.finish()
            return self._sum_buckets(buckets, kernel, tell)

    def _sum_buckets(self, buckets: UserBuckets, kernel: UserKernel, tell: Progress) -> Sums:
        total = kernel.zero()

        def one(group: range) -> tuple[int, Sums | None]:
            batch = buckets.read(group)
            return (0, None) if batch is None else (batch.num_rows, kernel(batch))

        threads = self.threads or os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            groups = buckets.groups(ROWS_PER_CALL, least=threads)
            results = map(one, groups) if threads == 1 else pool.map(one, groups)
            for rows, part in results:
                if part is not None:
                    add_sums(total, part)
                    tell("count", rows)
        return total
