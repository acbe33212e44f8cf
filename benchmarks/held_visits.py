"""All visits in memory, behind the query interface of the engine's: many repetitions read the events once.

The sums are those of `shoal.engine.clipped.EngineVisits`, bit by bit: the same visits, the package's own
weights and views, integer sums. `same_sums` checks it. For benchmarks only: memory grows with the visits.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import scipy.sparse

from shoal.engine.buckets import by_user, split_key
from shoal.engine.clipped import (
    THIN_PURPOSE,
    EngineVisits,
    Measure,
    apply_view,
    count_sizes,
    thin,
    user_weights,
)
from shoal.engine.engine import Sums
from shoal.engine.visits import find_visits
from shoal.space.setting import MOST_VISITS, SIZE_BINS
from shoal.stages.exact import TIME_LATTICE, ClippedSum, View

Chunk = tuple[np.ndarray, np.ndarray, np.ndarray]  # user number, slot, place; each user's visits together


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldVisits:
    """A `UserVisits` over arrays."""

    chunks: list[Chunk] = field(repr=False)
    places: int
    slots: int
    users: int

    def clipped(self, *views: View) -> list[ClippedSum]:
        return [ClippedSum(values=apply_view(self._units(view), view), clip=view.clip) for view in views]

    def sizes(self, per_visit: np.ndarray, lattice: int) -> np.ndarray:
        sizes = np.zeros(SIZE_BINS, np.int64)
        for user, _, place in self.chunks:
            count_sizes(user, place, per_visit, lattice, sizes)
        return sizes

    def _units(self, view: View) -> np.ndarray:
        """Weighted visits per place and slot, int64 [places, slots]."""
        measure = Measure.of(view, self.places)

        def one(chunk: Chunk) -> np.ndarray:
            user, slot, place = chunk
            weight = user_weights(
                user,
                slot,
                place,
                measure.gram,
                *measure.lists,
                measure.quad,
                measure.time.shape[1],
                measure.clip,
            )
            cell = place.astype(np.int64) * self.slots + slot
            # floating-point sums of whole numbers below 2**53 are exact
            return np.bincount(cell, weight, self.places * self.slots).astype(np.int64)

        total = np.zeros(self.places * self.slots, np.int64)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for part in pool.map(one, self.chunks):
                total += part
        return total.reshape(self.places, self.slots)


def hold(visits: EngineVisits) -> HeldVisits:
    """Read the events once, through the engine, and keep every visit that its kernel would count."""
    keeper = _Keeper(edges_us=visits.edges_us, places=visits.places, run_key=visits.run_key)
    visits.engine.sum_users(visits.events(), keeper, visits.progress)
    return HeldVisits(
        chunks=keeper.chunks, places=visits.places, slots=visits.edges_us.size - 1, users=visits.users
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Keeper:
    """A kernel that sums nothing and keeps the visits of each batch."""

    edges_us: np.ndarray
    places: int
    run_key: bytes = field(repr=False)
    chunks: list[Chunk] = field(default_factory=list, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def zero(self) -> Sums:
        return {}

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        if batch.num_rows:
            users = by_user(batch.column("user"), self.run_key)
            visits = find_visits(batch, users, self.edges_us, self.places)
            kept = thin(*visits, users.digest, MOST_VISITS, split_key(self.run_key, THIN_PURPOSE))
            with self.lock:
                self.chunks.append(kept)
        return {}


def same_sums(visits: EngineVisits, held: HeldVisits, weights: scipy.sparse.csr_array, lattice: int) -> bool:
    """Whether the engine and the arrays answer two views alike: all zones and slots, and four waves."""
    slots = held.slots
    waves = np.cos(np.outer(np.arange(slots) + 0.5, np.arange(4)) * np.pi / slots)
    views = [
        View(
            space=weights,
            space_lattice=lattice,
            time=np.rint(time * TIME_LATTICE).astype(np.int64),
            clip=clip,
        )
        for time, clip in ((np.eye(slots), 2.0), (waves, 1.5))
    ]
    pairs = zip(visits.clipped(*views), held.clipped(*views), strict=True)
    inside = np.asarray(weights.sum(axis=0), np.int64), lattice
    same = np.array_equal(visits.sizes(*inside), held.sizes(*inside))
    return same and all(np.array_equal(ours.values, theirs.values) for ours, theirs in pairs)
