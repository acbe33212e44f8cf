"""Whole pipelines at audit size: a tiny table of events to released bytes, keyed by mechanism.

They use the package's own steps (engine, kernel, area weights, mechanism, post-processing) on a public
world of four sites, three zones and six slots. Each step is a field, so that a planted bug replaces one
step and nothing else (shoal/audit/mutants.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import scipy.sparse

from shoal.engine.density import bound_visits, exact_counts
from shoal.engine.duck import DuckEngine
from shoal.engine.visits import VisitKernel
from shoal.mechanisms.registry import Entry, Mechanism, entry_of
from shoal.postprocess.density import estimate_density
from shoal.privacy.noise import Noise
from shoal.space.weights import LATTICE, AreaWeights
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import DensityEstimate, NoisyCounts

HOUR_US = 3_600_000_000
START_US = 1_700_000_000_000_000
Event = tuple[int | str, int, int]  # user, time_us, site


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """The public part of a run: a clock, sites, zones and the bound on visits."""

    edges_us: np.ndarray
    weights: AreaWeights
    ell: int
    cap: int

    @property
    def sites(self) -> int:
        return self.weights.shape[1]

    @property
    def slots(self) -> int:
        return self.edges_us.size - 1


@cache
def small_world(slots: int, ell: int, uneven: bool = False) -> World:
    """Four sites over three zones: two within a zone, one shared by two, one that loses a part outside."""
    half, third = LATTICE // 2, LATTICE // 3
    rows = [[LATTICE, half, 0, 0], [0, half, third, 0], [0, 0, third, LATTICE]]
    matrix = scipy.sparse.csr_array(np.array(rows, dtype=np.int64))
    lost = 1.0 - np.asarray(matrix.sum(axis=0), dtype=np.float64) / LATTICE
    edges = START_US + HOUR_US * np.arange(slots + 1, dtype=np.int64)
    if uneven:  # a clock change inside the window
        edges[slots // 2 :] += HOUR_US
    weights = AreaWeights(matrix=matrix, lattice=LATTICE, lost=lost)
    return World(edges_us=edges, weights=weights, ell=ell, cap=4)


@dataclass(frozen=True, kw_only=True, eq=False)
class DensityPipeline:
    """Events to released bytes, in the order of the flow; every step may be replaced."""

    mechanism: Mechanism
    world: World
    kernel: Callable[..., VisitKernel] = VisitKernel
    bound: Callable[..., BoundedVisits] = lambda engine, events, kernel: bound_visits(engine, events, kernel)[
        0
    ]
    spread: Callable[[BoundedVisits, AreaWeights], ExactCounts] = exact_counts
    estimate: Callable[[NoisyCounts, BoundedVisits], DensityEstimate] = lambda noisy, _: estimate_density(
        noisy
    )
    write: Callable[[DensityEstimate, BoundedVisits], bytes] = lambda estimate, _: table_bytes(estimate)

    def __call__(self, events: list[pa.RecordBatch], noise: Noise) -> bytes:
        return self.release(self.bounded(events, noise.run_key()), noise)

    def bounded(self, events: list[pa.RecordBatch], run_key: bytes) -> BoundedVisits:
        """The part before the noise: it is handed the run key and nothing else of the noise."""
        return bound_events(self.kernel, self.bound, self.world, events, run_key)

    def measure(self, bounded: BoundedVisits, noise: Noise) -> NoisyCounts:
        return self.mechanism(self.spread(bounded, self.world.weights), noise)

    def release(self, bounded: BoundedVisits, noise: Noise) -> bytes:
        """From the noise on. A correct step after it ignores the bounded visits."""
        return self.write(self.estimate(self.measure(bounded, noise), bounded), bounded)


def bound_events(
    kernel: Callable[..., VisitKernel],
    bound: Callable[..., BoundedVisits],
    world: World,
    events: list[pa.RecordBatch],
    run_key: bytes,
) -> BoundedVisits:
    made = kernel(edges_us=world.edges_us, sites=world.sites, ell=world.ell, cap=world.cap, run_key=run_key)
    return bound(DuckEngine(threads=1), events, made)


PIPELINES: dict[str, type[DensityPipeline]] = {
    "density-gaussian": DensityPipeline,
    "density-laplace": DensityPipeline,
}


def pipeline_of(name: str, epsilon: float, delta: float | None, *, uneven: bool = False) -> DensityPipeline:
    """The correct pipeline of a registered mechanism at its audit size."""
    entry: Entry = entry_of(name)
    world = small_world(entry.size.slots, entry.size.ell, uneven)
    return PIPELINES[name](mechanism=entry.build(epsilon, delta, entry.size), world=world)


def table_bytes(estimate: DensityEstimate) -> bytes:
    """Every zone and slot as a line of CSV, also the zeros."""
    zones, slots = estimate.people.shape
    people, low, high = estimate.people.tolist(), estimate.low.tolist(), estimate.high.tolist()
    lines = [
        f"{zone},{slot},{people[zone][slot]},{low[zone][slot]},{high[zone][slot]}"
        for zone in range(zones)
        for slot in range(slots)
    ]
    return "\n".join(["zone,slot,people,low,high", *lines, ""]).encode()


def read_table(released: bytes, column: str = "high") -> np.ndarray:
    """One column of released bytes, in order of the rows: what an adversary reads."""
    header, *lines = released.decode().split("\n")[:-1]
    position = header.split(",").index(column)
    return np.array([float(line.split(",")[position]) for line in lines])


def event_table(events: list[Event], *, batch_rows: int = 4) -> list[pa.RecordBatch]:
    """Normalised events as small Arrow batches; ids are all int64 or all strings."""
    users = [user for user, _, _ in events]
    kind = pa.string() if any(isinstance(user, str) for user in users) else pa.int64()
    ids = [str(user) for user in users] if kind == pa.string() else users
    table = pa.table(
        {
            "user": pa.array(ids, kind),
            "time_us": pa.array([time for _, time, _ in events], pa.int64()),
            "site": pa.array([site for _, _, site in events], pa.int32()),
        }
    )
    return table.to_batches(max_chunksize=batch_rows)
