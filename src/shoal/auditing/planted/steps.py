"""Planted bugs around the mechanism: in the kernel, the weights, post-processing and the writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.planted.patches import Bug, light_among_heavy, spread_bug, step_bug
from shoal.auditing.tables import table_bytes
from shoal.engine.buckets import UserOrder
from shoal.engine.density import bound_visits
from shoal.engine.visits import VisitKernel, Visits
from shoal.space.setting import Setting
from shoal.stages.bounded import BoundedVisits
from shoal.stages.noisy import DensityEstimate


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


class NoCap(VisitKernel):
    """Counts all visits of a user into the number of visits."""

    def __call__(self, batch: pa.RecordBatch) -> dict[str, np.ndarray]:
        return VisitKernel.__call__(replace(self, cap=10**6), batch)


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


def _double(exact: Any) -> Any:
    """A visit counted in full in two zones, declared as one."""
    return replace(exact, units=exact.units + np.roll(exact.units, 1, axis=0))


def _honest_double(exact: Any) -> Any:
    """The same, declared as it is: the mechanism was built for less and must refuse."""
    more = {"column_l1": 2 * exact.column_l1, "column_l2_squared": 4 * exact.column_l2_squared}
    return replace(_double(exact), **more)


def _after(change: Callable[[DensityEstimate, BoundedVisits], np.ndarray]) -> Callable[[Pipeline], Pipeline]:
    """People changed after post-processing, with a look at the bounded visits."""

    def plant(true: Pipeline) -> Pipeline:
        def estimate(noisy: Any, bounded: BoundedVisits, setting: Setting) -> DensityEstimate:
            made = true.estimate(noisy, bounded, setting)
            return replace(made, people=change(made, bounded))

        return replace(true, estimate=estimate)

    return plant


def _rescale_to(total: Callable[[BoundedVisits], float]) -> Callable[[Pipeline], Pipeline]:
    def change(made: DensityEstimate, bounded: BoundedVisits) -> np.ndarray:
        return np.round(made.people * (1 + total(bounded)) / max(made.people.sum(), 1.0), 1)

    return _after(change)


def _without(drop: Callable[[BoundedVisits, int, int], bool]) -> Callable[..., bytes]:
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


def _empty(bounded: BoundedVisits, zone: int, slot: int) -> bool:
    return not bounded.counts[min(zone, len(bounded.counts) - 1)].any()


def _write_users(estimate: DensityEstimate, bounded: BoundedVisits) -> bytes:
    return table_bytes(estimate) + f"# {bounded.users} users\n".encode()


def _write_sorted(estimate: DensityEstimate, bounded: BoundedVisits) -> bytes:
    header, *lines = table_bytes(estimate).decode().splitlines()
    slots = bounded.counts.shape[1]
    busiest = np.argsort(-bounded.counts.sum(axis=0), kind="stable")
    lines = [line for slot in busiest for line in lines[slot::slots]]
    return "\n".join([header, *lines, ""]).encode()


def bound_bugs(true: Pipeline) -> list[Bug]:
    """In the kernel and the bound of each user."""
    bugs = [
        step_bug("kernel counts a user twice in a slot", kernel=TwiceInASlot),
        step_bug("kernel counts events, unchecked", kernel=CountsEveryEvent, bound=_bound_unchecked),
        step_bug("uncapped visits taken for bounded ones", bound=_bound_all_visits),
        step_bug("ell from the data", light_among_heavy(true), bound=_ell_from_mean),
    ]
    if true.world.ell < true.world.slots:
        bugs += [
            step_bug("kernel keeps ell + 1 visits", kernel=KeepsOneMore),
            step_bug("users share ell x users places", bound=_shared_places),
        ]
    return bugs


def zone_bugs(true: Pipeline) -> list[Bug]:
    return [spread_bug("a visit counts in two zones", _double)]


def declared_bugs(true: Pipeline) -> list[Bug]:
    return [spread_bug("a visit counts in two zones, as declared", _honest_double)]


def cap_bugs(true: Pipeline) -> list[Bug]:
    """Where the number of visits is bought."""
    bought = "visits" in dict(true.spends())
    return [step_bug("cap on the number of visits not enforced", kernel=NoCap)] if bought else []


def output_bugs(true: Pipeline) -> list[Bug]:
    """After the noise, with a look back."""
    return [
        Bug(name="output rescaled by the raw number of users", plant=_rescale_to(lambda b: b.users)),
        Bug(name="output rescaled by the exact total", plant=_rescale_to(lambda b: b.counts.sum())),
        Bug(
            name="output cut at the largest exact count",
            plant=_after(lambda made, b: np.minimum(made.people, b.counts.max(initial=0))),
        ),
        step_bug("exact number of users written", write=_write_users),
    ]


def table_bugs(true: Pipeline) -> list[Bug]:
    """In a table of zones and slots: what is in it, and in which order."""
    return [
        step_bug("zones without visits left out", write=_without(_empty)),
        step_bug("box from the data", write=_without(_box)),
        step_bug("window from the data", write=_without(_window)),
        step_bug("slots sorted by exact counts", write=_write_sorted),
    ]
