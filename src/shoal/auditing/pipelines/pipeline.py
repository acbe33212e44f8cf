"""A pipeline at audit size: from a tiny table of events to released bytes, in steps that can be replaced.

They use the package's own steps (engine, kernels, area weights, cover, mechanism, post-processing) on a
public world of a few sites, zones and slots (shoal/mechanisms/audit_size.py). Each step is a field, so that
a planted bug replaces one step and nothing else (shoal/auditing/planted/mutants.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from shoal.auditing.pairs import HOUR_US, START_US, read_table, table_bytes
from shoal.engine.engine import DuckEngine, Progress, Sums, UserKernel
from shoal.mechanisms.audit_size import AuditSize
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import Noise
from shoal.space.geography import Setting
from shoal.stages.noisy import DensityEstimate

Step = Callable[..., Any]
Events = list[pa.RecordBatch]
SPILL_MIB = 170 / 2**20  # every third batch of four rows: a user has rows on disk and in memory


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """The public part of a run: a clock, sites, zones and the bounds on visits."""

    size: AuditSize
    edges_us: np.ndarray
    spills: bool = False  # all but the last rows of a table wait on disk, also for the sums of clipped users

    @property
    def engine(self) -> DuckEngine:
        return DuckEngine(threads=1, spill_mib=SPILL_MIB) if self.spills else DuckEngine(threads=1)

    @property
    def slots(self) -> int:
        return self.edges_us.size - 1


@cache
def small_world(size: AuditSize, uneven: bool = False) -> World:
    """The world of a size. `uneven`: a longer slot, as at a change of the clocks; an engine that spills."""
    edges = START_US + HOUR_US * np.arange(size.slots + 1, dtype=np.int64)
    if uneven:
        edges[size.slots // 2 :] += HOUR_US
    return World(size=size, edges_us=edges, spills=uneven)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pipeline:
    """Events to released bytes, in the order of a run; every step may be replaced."""

    mechanism: Any
    world: World
    kernel: Callable[..., Any]
    bound: Callable[..., Any]
    spread: Callable[[Any, Any], Any]
    estimate: Callable[[Any, Any, Setting], DensityEstimate]
    write: Callable[[DensityEstimate, Any], bytes] = lambda estimate, _: table_bytes(estimate)

    # What there is before the noise: (world, kernel, bound, events, run key) to what `spread` takes.
    count: ClassVar[Callable[[World, Step, Step, Events, bytes], Any]]

    def __call__(self, events: list[pa.RecordBatch], noise: Noise) -> bytes:
        return self.release(self.counted(events, noise.run_key()), noise)

    def counted(self, events: list[pa.RecordBatch], run_key: bytes) -> Any:
        """The part before the noise: it is handed the run key and nothing else of the noise."""
        return type(self).count(self.world, self.kernel, self.bound, events, run_key)

    def exact(self, counted: Any) -> Any:
        """The stage that the mechanism takes."""
        return self.spread(counted.bounded, self.public)

    @property
    def public(self) -> Any:
        """Public parameters of that stage."""
        return self.mechanism.setting

    def measure(self, counted: Any, noise: Noise) -> Any:
        return self.mechanism(self.exact(counted), noise)

    def release(self, counted: Any, noise: Noise) -> bytes:
        """From the noise on. A correct step after it ignores the bounded visits."""
        noisy = self.measure(counted, noise)
        estimate = self.estimate(noisy, counted.bounded, self.world.size.setting)
        return self.write(estimate, counted.bounded)

    def watched(self, released: bytes) -> np.ndarray:
        """The cells that an adversary looks at: the first ones, where `worst_events` puts the user.

        The upper ends of the intervals: unlike the people they are not tied to the slot's total.
        """
        return read_table(released, "high")[self.watched_cells]

    @property
    def watched_cells(self) -> slice:
        """Which of the released numbers: cells of the user's visits."""
        return slice(self.world.size.ell)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        """Named parts of the claim."""
        return self.mechanism.spends()


class WholeTable:
    """An engine for tables that fit a batch."""

    name = "whole table"

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums:
        batches = list(events)
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
        return kernel(rows[0]) if rows else kernel.zero()
