"""Planted bugs around the mechanism: in the kernel, the weights, post-processing and the writer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.audit.pipelines import Pipeline, table_bytes
from shoal.engine.density import bound_visits, exact_counts
from shoal.engine.grouping import UserOrder
from shoal.engine.visits import VisitKernel, Visits
from shoal.postprocess.density import estimate_density
from shoal.space.weights import AreaWeights
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import DensityEstimate, NoisyCounts


class KeepsOneMore(VisitKernel):
    """Chooses ell + 1 visits; the check of the bound still stands."""

    def choose(self, batch: pa.RecordBatch, users: UserOrder | None = None) -> Visits:
        return VisitKernel.choose(replace(self, ell=self.ell + 1), batch)


class TwiceInASlot(VisitKernel):
    """Hands every visit over twice; the check of the bound still stands."""

    def choose(self, batch: pa.RecordBatch, users: UserOrder | None = None) -> Visits:
        visits = Visits(*(np.repeat(column, 2) for column in super().choose(batch, users)))
        visits.one[1::2] = False
        return visits


class CountsEveryEvent(VisitKernel):
    """Counts events instead of visits of the user's slots, and skips the check."""

    def __call__(self, batch: pa.RecordBatch) -> dict[str, np.ndarray]:
        sums = super().__call__(batch)
        counts = np.zeros_like(sums["counts"])
        time_us, site = (batch.column(name).to_numpy() for name in ("time_us", "site"))
        inside = (site >= 0) & (time_us >= self.edges_us[0]) & (time_us < self.edges_us[-1])
        slot = np.searchsorted(self.edges_us, time_us[inside], side="right") - 1
        np.add.at(counts, (site[inside], slot), 1)
        return {**sums, "counts": counts}


def _bound_unchecked(engine: Any, events: list[pa.RecordBatch], kernel: VisitKernel) -> BoundedVisits:
    """Sums without the check of the whole."""
    sums = engine.sum_users(events, kernel)
    return BoundedVisits(
        counts=sums["counts"],
        one_visit=sums["one_visit"],
        users=int(sums["users"]),
        visits_capped=int(sums["visits_capped"]),
        ell=kernel.ell,
        cap=kernel.cap,
    )


def _bound_all_visits(engine: Any, events: list[pa.RecordBatch], kernel: VisitKernel) -> BoundedVisits:
    """The owner's uncapped density handed over as if it were bounded."""
    bounded, uncapped = bound_visits(engine, events, kernel)
    return replace(bounded, counts=uncapped.counts)


def _ell_from_mean(engine: Any, events: list[pa.RecordBatch], kernel: VisitKernel) -> BoundedVisits:
    """Keeps as many visits as users have on average: one user changes everybody's share."""
    first, uncapped = bound_visits(engine, events, kernel)
    mean = int(uncapped.counts.sum()) // max(first.users, 1)
    again, _ = bound_visits(engine, events, replace(kernel, ell=max(1, min(kernel.ell, mean))))
    return replace(again, ell=kernel.ell)


def _shared_places(engine: Any, events: list[pa.RecordBatch], kernel: VisitKernel) -> BoundedVisits:
    """The bound holds for the table as a whole (ell x users visits), not for each user."""
    bounded, uncapped = bound_visits(engine, events, kernel)
    places = bounded.users * kernel.ell
    taken = np.cumsum(uncapped.counts.ravel())
    counts = np.diff(np.minimum(taken, places), prepend=0).reshape(uncapped.counts.shape)
    return replace(bounded, counts=counts)


def _double_weights(bounded: BoundedVisits, weights: AreaWeights) -> ExactCounts:
    """A visit counted in full in two zones, declared as one."""
    exact = exact_counts(bounded, weights)
    return replace(exact, units=exact.units + np.roll(exact.units, 1, axis=0))


def _honest_double_weights(bounded: BoundedVisits, weights: AreaWeights) -> ExactCounts:
    """The same, declared as it is: the mechanism was built for less and must refuse."""
    exact = _double_weights(bounded, weights)
    return replace(exact, column_l1=2 * exact.column_l1, column_l2_squared=4 * exact.column_l2_squared)


def _rescale_to(total) -> Any:
    def estimate(noisy: NoisyCounts, bounded: BoundedVisits) -> DensityEstimate:
        made = estimate_density(noisy)
        factor = total(bounded) / max(made.people.sum(), 1.0)
        return replace(made, people=np.round(made.people * factor, 1))

    return estimate


def _cut_at_truth(noisy: NoisyCounts, bounded: BoundedVisits) -> DensityEstimate:
    made = estimate_density(noisy)
    return replace(made, people=np.minimum(made.people, bounded.counts.max(initial=0)))


def _without(drop) -> Any:
    def write(estimate: DensityEstimate, bounded: BoundedVisits) -> bytes:
        header, *lines = table_bytes(estimate).decode().splitlines()
        kept = [line for line in lines if not drop(bounded, *map(int, line.split(",")[:2]))]
        return "\n".join([header, *kept, ""]).encode()

    return write


def _box(bounded: BoundedVisits, zone: int, slot: int) -> bool:
    visited = np.flatnonzero(bounded.counts.sum(axis=1))
    return not visited.size or not visited[0] <= zone <= visited[-1]


def _window(bounded: BoundedVisits, zone: int, slot: int) -> bool:
    visited = np.flatnonzero(bounded.counts.sum(axis=0))
    return not visited.size or not visited[0] <= slot <= visited[-1]


def _write_users(estimate: DensityEstimate, bounded: BoundedVisits) -> bytes:
    return table_bytes(estimate) + f"# {bounded.users} users\n".encode()


def _write_sorted(estimate: DensityEstimate, bounded: BoundedVisits) -> bytes:
    header, *lines = table_bytes(estimate).decode().splitlines()
    slots = bounded.counts.shape[1]
    busiest = np.argsort(-bounded.counts.sum(axis=0), kind="stable")
    lines = [line for slot in busiest for line in lines[slot::slots]]
    return "\n".join([header, *lines, ""]).encode()


def step_bugs(true: Pipeline) -> list[tuple[str, Pipeline]]:
    """Name of the bug, and the pipeline that has it."""
    return [
        ("kernel keeps ell + 1 visits", replace(true, kernel=KeepsOneMore)),
        ("kernel counts a user twice in a slot", replace(true, kernel=TwiceInASlot)),
        ("kernel counts events, unchecked", replace(true, kernel=CountsEveryEvent, bound=_bound_unchecked)),
        ("uncapped visits taken for bounded ones", replace(true, bound=_bound_all_visits)),
        ("ell from the data", replace(true, bound=_ell_from_mean)),
        ("users share ell x users places", replace(true, bound=_shared_places)),
        ("a visit counts in two zones", replace(true, spread=_double_weights)),
        ("a visit counts in two zones, as declared", replace(true, spread=_honest_double_weights)),
        (
            "output rescaled by the raw number of users",
            replace(true, estimate=_rescale_to(lambda b: b.users)),
        ),
        ("output rescaled by the exact total", replace(true, estimate=_rescale_to(lambda b: b.counts.sum()))),
        ("output cut at the largest exact count", replace(true, estimate=_cut_at_truth)),
        (
            "zones without visits left out",
            replace(true, write=_without(lambda b, z, t: not b.counts[z].any())),
        ),
        ("box from the data", replace(true, write=_without(_box))),
        ("window from the data", replace(true, write=_without(_window))),
        ("exact number of users written", replace(true, write=_write_users)),
        ("slots sorted by exact counts", replace(true, write=_write_sorted)),
    ]
