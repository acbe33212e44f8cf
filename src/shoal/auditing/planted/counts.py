"""Planted bugs around mechanisms on counts of visits, and of queries.

In the kernel and the bound, the weights, post-processing and the writer; rules that wait for a certain
number of people, or for what most people do, and are right on small tables; what queries and multiplicative
weights may get wrong.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.auditing.pairs import table_bytes
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.visits import CountsPipeline, QueryPipeline, ScaledPipeline
from shoal.auditing.planted.bug import (
    Bug,
    Families,
    Rule,
    call_bug,
    crowd_of,
    light_among_heavy,
    noise_bug,
    rule_bugs,
    spread_bug,
    step_bug,
)
from shoal.auditing.planted.calls import Between, Draw, call_bugs, scaled_bug
from shoal.engine.buckets import UserOrder
from shoal.engine.visits import VisitKernel, Visits, bound_visits
from shoal.mechanisms.query.weights import QueryWeights
from shoal.privacy.noise import Noise
from shoal.space.setting import Setting
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import DensityEstimate, NoisyAnswers


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


def count_bugs(true: Pipeline) -> list[Bug]:
    """Bugs in bounded counts and their table."""
    bugs = [
        *rule_bugs(
            true, lambda name, rule: Bug(name=name, plant=changed(rule)), low="raw counts", high="cells"
        ),
        step_bug("users keep the sites most popular with all", bound=_popular_sites),
    ]
    if true.world.ell < true.world.slots:
        bugs.append(step_bug("users keep the slots most popular with all", bound=_popular_slots))
    return bugs


def median_bugs(true: Pipeline) -> list[Bug]:
    """Where half of the cells can be full, and a user is not in all of them."""
    clip = spread_bug("counts clipped at their median", _clip_at_median)
    return [clip] if true.world.ell < true.world.slots else []


def people_bugs(true: Pipeline) -> list[Bug]:
    return [Bug(name="output blank from 30 users on", plant=blank_from(30), shown=crowd_of(29, true))]


def changed(rule: Rule) -> Callable[[Pipeline], Pipeline]:
    """A rule on the bounded counts, before they are spread over zones."""

    def plant(true: Pipeline) -> Pipeline:
        def spread(bounded: BoundedVisits, public: Any) -> Any:
            return true.spread(replace(bounded, counts=rule(bounded.counts)), public)

        return replace(true, spread=spread)

    return plant


def _clip_at_median(exact: Any) -> Any:
    """One user may move the median, and with it half of the cells."""
    median = np.sort(exact.units, axis=None)[(exact.units.size - 1) // 2]
    return replace(exact, units=np.minimum(exact.units, median))


def blank_from(users: int) -> Callable[[Pipeline], Pipeline]:
    def plant(true: Pipeline) -> Pipeline:
        def estimate(noisy: Any, bounded: BoundedVisits, setting: Setting) -> DensityEstimate:
            made = true.estimate(noisy, bounded, setting)
            return replace(made, people=made.people * 0 - 1) if bounded.users >= users else made

        return replace(true, estimate=estimate)

    return plant


class _Row(NamedTuple):
    user: Any
    slot: int
    site: int
    number: int  # of the row in the table


def _popular_slots(engine: Any, events: list[pa.RecordBatch], kernel: VisitKernel) -> BoundedVisits:
    """Of a user's slots, the ell that most events of all users fall into."""
    return _keep_popular(
        engine, events, kernel, group=lambda row: row.user, choice=lambda row: row.slot, most=kernel.ell
    )


def _popular_sites(engine: Any, events: list[pa.RecordBatch], kernel: VisitKernel) -> BoundedVisits:
    """Of a user's sites in a slot, the one that most events of all users in the slot are at."""
    return _keep_popular(
        engine,
        events,
        kernel,
        group=lambda row: (row.user, row.slot),
        choice=lambda row: (row.slot, row.site),
        most=1,
    )


def _keep_popular(
    engine: Any,
    events: list[pa.RecordBatch],
    kernel: VisitKernel,
    *,
    group: Callable[[_Row], Any],
    choice: Callable[[_Row], Any],
    most: int,
) -> BoundedVisits:
    """Each group keeps the rows of its `most` choices that are the most common in the whole table."""
    if not events:
        return bound_visits(engine, events, kernel)[0]
    table = pa.Table.from_batches(events)
    slots = np.searchsorted(kernel.edges_us, table["time_us"].to_numpy(), side="right") - 1
    columns = (table["user"].to_pylist(), slots.tolist(), table["site"].to_pylist(), range(table.num_rows))
    rows = [row for row in map(_Row, *columns) if row.site >= 0 and 0 <= row.slot < kernel.edges_us.size - 1]
    popularity = Counter(map(choice, rows))
    choices = defaultdict(set)
    for row in rows:
        choices[group(row)].add(choice(row))
    kept = {
        one: set(sorted(wanted, key=lambda c: (-popularity[c], c))[:most]) for one, wanted in choices.items()
    }
    left = table.take(pa.array([row.number for row in rows if choice(row) in kept[group(row)]], pa.int64()))
    return bound_visits(engine, left.to_batches(), kernel)[0]


def query_call_bugs(true: Pipeline) -> list[Bug]:
    """The bugs of every mechanism; weights ask for one value at a time: one draw for all is right there."""
    alone = isinstance(true.mechanism, QueryWeights)
    return [bug for bug in call_bugs(true) if not (alone and bug.name == "one draw for all values")]


def query_bugs(true: Pipeline) -> list[Bug]:
    ell = min(true.world.ell, true.world.slots)
    bugs = [
        scaled_bug("sensitivity for ell - 1 visits", (ell - 1) / ell),
        scaled_bug("sqrt(ell) where ell is needed", 1 / math.sqrt(ell)),
        call_bug("answers mixed with the exact ones", _mixed),
        call_bug("interval as wide as the largest exact count", _wide),
    ]
    if not isinstance(true.mechanism, QueryWeights):
        return bugs
    return [
        *bugs,
        call_bug(
            "two updates more than are paid for",
            lambda true, exact, noise: true(exact, noise, updates=true.mechanism.updates + 2),
        ),
        call_bug(
            "prior from the data", lambda true, exact, noise: true(exact, noise, prior=1.0 + exact.units)
        ),
        call_bug("unsurprising questions answered exactly", _exact_where_unbought),
        noise_bug("every question tested at a threshold of its own", partial(Between, above=_one_by_one)),
    ]


def _mixed(true, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
    noisy = true(exact, noise)
    return replace(noisy, values=noisy.values + 1e-9 * float(exact.units.sum()))


def _wide(true, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
    noisy = true(exact, noise)
    return replace(noisy, half=noisy.half + float(exact.units.max(initial=0)))


def _exact_where_unbought(true, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
    """The sparse vector technique pays for the answer "below", not for the value."""
    noisy = true(exact, noise)
    learned = np.array([how == "weights" for how in noisy.how])
    return replace(noisy, values=np.where(learned, float(exact.units.sum()), noisy.values))


def _one_by_one(draw: Draw, margins: np.ndarray, scale: float) -> int:
    """A fresh test for every question, charged as one: no longer the sparse vector technique."""
    for number in range(margins.size):
        if draw(margins[number : number + 1], scale) == 0:
            return number
    return int(margins.size)


FAMILIES: Families = {
    CountsPipeline: (bound_bugs, zone_bugs, declared_bugs, count_bugs, median_bugs, table_bugs),
    ScaledPipeline: (bound_bugs, cap_bugs, count_bugs, table_bugs),
    QueryPipeline: (query_call_bugs, query_bugs, bound_bugs, zone_bugs, declared_bugs, count_bugs),
}
