"""Planted bugs around mechanisms on counts of visits, and of queries.

In the kernel and the bound, the weights, post-processing and the writer; rules that wait for a certain
number of people, or for what most people do, and are right on small tables; errors in queries and
multiplicative weights.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pairs import table_bytes
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.visits import CountsPipeline, PartsPipeline, QueryPipeline, ScaledPipeline
from shoal.auditing.planted.bug import (
    Bug,
    Families,
    Rule,
    call_bug,
    crowd_of,
    estimate_bug,
    light_among_heavy,
    method_bug,
    noise_bug,
    rule_bugs,
    spread_bug,
    step_bug,
    subclass,
)
from shoal.auditing.planted.calls import ONE_DRAW, Between, Draw, bare, call_bugs, scaled_bug
from shoal.engine.visits import VisitKernel, Visits, bound_visits
from shoal.mechanisms.query.answers import QueryAnswers
from shoal.privacy.noise import Noise
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import ExactCounts, UserSums
from shoal.stages.noisy import DensityEstimate, NoisyAnswers

Batches = list[pa.RecordBatch]


def _twice(visits: Visits) -> Visits:
    twice = Visits(*(np.repeat(column, 2) for column in visits))
    twice.one[1::2] = False
    return twice


def _count_events(kernel: VisitKernel, batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    """Counts events instead of visits of the user's slots."""
    sums = VisitKernel.__call__(kernel, batch)
    counts = np.zeros_like(sums["counts"])
    time_us, site = (batch.column(name).to_numpy() for name in ("time_us", "site"))
    inside = (site >= 0) & (time_us >= kernel.edges_us[0]) & (time_us < kernel.edges_us[-1])
    slot = np.searchsorted(kernel.edges_us, time_us[inside], side="right") - 1
    np.add.at(counts, (site[inside], slot), 1)
    return {**sums, "counts": counts}


# The check of the bound still stands behind the first two.
KeepsOneMore = subclass(
    VisitKernel, choose=lambda self, batch, *_: VisitKernel.choose(replace(self, ell=self.ell + 1), batch)
)
TwiceInASlot = subclass(
    VisitKernel, choose=lambda self, batch, *users: _twice(VisitKernel.choose(self, batch, *users))
)
CountsEveryEvent = subclass(VisitKernel, __call__=_count_events)
NoCap = subclass(
    VisitKernel, __call__=lambda self, batch: VisitKernel.__call__(replace(self, cap=10**6), batch)
)


def _bound_unchecked(engine: Any, events: Batches, kernel: VisitKernel) -> BoundedVisits:
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


def _bound_all_visits(engine: Any, events: Batches, kernel: VisitKernel) -> BoundedVisits:
    """The owner's uncapped density handed over as if it were bounded."""
    bounded, uncapped = bound_visits(engine, events, kernel)
    return replace(bounded, counts=uncapped.counts)


def _ell_from_mean(engine: Any, events: Batches, kernel: VisitKernel) -> BoundedVisits:
    """Keeps as many visits as users have on average: one user changes everybody's share."""
    first, uncapped = bound_visits(engine, events, kernel)
    mean = int(uncapped.counts.sum()) // max(first.users, 1)
    again, _ = bound_visits(engine, events, replace(kernel, ell=max(1, min(kernel.ell, mean))))
    return replace(again, ell=kernel.ell)


def _shared_places(engine: Any, events: Batches, kernel: VisitKernel) -> BoundedVisits:
    """The bound holds for the table as a whole (ell x users visits), not for each user."""
    bounded, uncapped = bound_visits(engine, events, kernel)
    taken = np.cumsum(uncapped.counts.ravel())
    counts = np.diff(np.minimum(taken, bounded.users * kernel.ell), prepend=0)
    return replace(bounded, counts=counts.reshape(uncapped.counts.shape))


def _popular_slots(engine: Any, events: Batches, kernel: VisitKernel) -> BoundedVisits:
    """Keeps the `ell` slots of a user into which most events of all users fall."""
    return _keep_popular(engine, events, kernel, lambda user, slot, site: (user, slot), most=kernel.ell)


def _popular_sites(engine: Any, events: Batches, kernel: VisitKernel) -> BoundedVisits:
    """Keeps the site of a user in a slot at which most events of all users in the slot are."""
    return _keep_popular(
        engine, events, kernel, lambda user, slot, site: ((user, slot), (slot, site)), most=1
    )


def _keep_popular(
    engine: Any, events: Batches, kernel: VisitKernel, key: Callable[..., tuple[Any, Any]], *, most: int
) -> BoundedVisits:
    """Each group keeps the rows of its `most` choices that are the most common in the whole table.

    Args:
        key: group and choice of a row, from its user, slot and site.
    """
    if not events:
        return bound_visits(engine, events, kernel)[0]
    table = pa.Table.from_batches(events)
    slots = np.searchsorted(kernel.edges_us, table["time_us"].to_numpy(), side="right") - 1
    columns = zip(table["user"].to_pylist(), slots.tolist(), table["site"].to_pylist(), strict=True)
    inside = range(kernel.edges_us.size - 1)
    rows = {number: key(*row) for number, row in enumerate(columns) if row[1] in inside and row[2] >= 0}
    popularity = Counter(choice for _, choice in rows.values())
    choices = defaultdict(set)
    for group, choice in rows.values():
        choices[group].add(choice)
    chosen = {
        group: sorted(some, key=lambda c: (-popularity[c], c))[:most] for group, some in choices.items()
    }
    remaining = [number for number, (group, choice) in rows.items() if choice in chosen[group]]
    return bound_visits(engine, table.take(pa.array(remaining, pa.int64())).to_batches(), kernel)[0]


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


def cap_bugs(true: Pipeline) -> list[Bug]:
    """Where the number of visits is measured."""
    measured = "visits" in dict(true.spends())
    return [step_bug("cap on the number of visits not enforced", kernel=NoCap)] if measured else []


# --- weights and raw counts -------------------------------------------------------------------------------


def _double(exact: Any) -> Any:
    """A visit counted in full in two zones, declared as one."""
    return replace(exact, units=exact.units + np.roll(exact.units, 1, axis=0))


def _honest_double(exact: Any) -> Any:
    """The same, declared as it is: the mechanism was built for less and must refuse."""
    more = {"column_l1": 2 * exact.column_l1, "column_l2_squared": 4 * exact.column_l2_squared}
    return replace(_double(exact), **more)


def zone_bugs(true: Pipeline) -> list[Bug]:
    return [spread_bug("a visit counts in two zones", _double)]


def declared_bugs(true: Pipeline) -> list[Bug]:
    return [spread_bug("a visit counts in two zones, as declared", _honest_double)]


def count_bugs(true: Pipeline) -> list[Bug]:
    """Bugs in bounded counts and their table."""
    bugs = [
        *rule_bugs(true, _ruled, low="raw counts", high="cells"),
        step_bug("users keep the sites most popular with all", bound=_popular_sites),
    ]
    if true.world.ell < true.world.slots:
        bugs.append(step_bug("users keep the slots most popular with all", bound=_popular_slots))
    return bugs


def _ruled(name: str, rule: Rule) -> Bug:
    return Bug(name=name, plant=changed(rule))


def changed(rule: Rule) -> Callable[[Pipeline], Pipeline]:
    """A rule on the bounded counts, before they are spread over zones."""

    def plant(true: Pipeline) -> Pipeline:
        def spread(bounded: BoundedVisits, public: Any) -> Any:
            return true.spread(replace(bounded, counts=rule(bounded.counts)), public)

        return replace(true, spread=spread)

    return plant


def median_bugs(true: Pipeline) -> list[Bug]:
    """Where half of the cells can be full, and a user is not in all of them."""
    clip = spread_bug("counts clipped at their median", _clip_at_median)
    return [clip] if true.world.ell < true.world.slots else []


def _clip_at_median(exact: Any) -> Any:
    """One user may move the median, and with it half of the cells."""
    median = np.sort(exact.units, axis=None)[(exact.units.size - 1) // 2]
    return replace(exact, units=np.minimum(exact.units, median))


# --- output -----------------------------------------------------------------------------------------------


def _rescaled_to(total: Callable[[BoundedVisits], float]) -> Callable[..., DensityEstimate]:
    def change(estimate: DensityEstimate, bounded: BoundedVisits) -> DensityEstimate:
        factor = (1 + total(bounded)) / max(estimate.people.sum(), 1.0)
        return replace(estimate, people=np.round(estimate.people * factor, 1))

    return change


def _cut_at_largest(estimate: DensityEstimate, bounded: BoundedVisits) -> DensityEstimate:
    return replace(estimate, people=np.minimum(estimate.people, bounded.counts.max(initial=0)))


def output_bugs(true: Pipeline) -> list[Bug]:
    """After the noise, with a look back."""
    return [
        estimate_bug("output rescaled by the raw number of users", _rescaled_to(lambda b: b.users)),
        estimate_bug("output rescaled by the exact total", _rescaled_to(lambda b: b.counts.sum())),
        estimate_bug("output cut at the largest exact count", _cut_at_largest),
        step_bug(
            "exact number of users written",
            write=lambda estimate, bounded: table_bytes(estimate) + f"# {bounded.users} users\n".encode(),
        ),
    ]


def people_bugs(true: Pipeline) -> list[Bug]:
    return [replace(blank_from(30), shown=crowd_of(29, true))]


def blank_from(users: int) -> Bug:
    """No output from a number of users on."""

    def change(estimate: DensityEstimate, bounded: BoundedVisits) -> DensityEstimate:
        return replace(estimate, people=estimate.people * 0 - 1) if bounded.users >= users else estimate

    return estimate_bug(f"output blank from {users} users on", change)


def table_bugs(true: Pipeline) -> list[Bug]:
    """In a table of zones and slots: its rows, and their order."""
    return [
        step_bug("zones without visits left out", write=_without(_empty)),
        step_bug("box from the data", write=_without(partial(_beyond, axis=1))),
        step_bug("window from the data", write=_without(partial(_beyond, axis=0))),
        step_bug("slots sorted by exact counts", write=_write_sorted),
    ]


def _without(left_out: Callable[[BoundedVisits, tuple[int, ...]], bool]) -> Callable[..., bytes]:
    """Writes the table without some zones and slots."""

    def write(estimate: DensityEstimate, bounded: BoundedVisits) -> bytes:
        header, *lines = table_bytes(estimate).decode().splitlines()
        cells = [tuple(map(int, line.split(",")[:2])) for line in lines]
        remaining = [line for line, cell in zip(lines, cells, strict=True) if not left_out(bounded, cell)]
        return "\n".join([header, *remaining, ""]).encode()

    return write


def _beyond(bounded: BoundedVisits, cell: tuple[int, ...], axis: int) -> bool:
    """Before the first or after the last zone (axis 1) or slot (axis 0) that has visits."""
    visited = np.flatnonzero(bounded.counts.sum(axis=axis))
    return not visited.size or not visited[0] <= cell[1 - axis] <= visited[-1]


def _empty(bounded: BoundedVisits, cell: tuple[int, ...]) -> bool:
    return not bounded.counts[min(cell[0], len(bounded.counts) - 1)].any()


def _write_sorted(estimate: DensityEstimate, bounded: BoundedVisits) -> bytes:
    header, *lines = table_bytes(estimate).decode().splitlines()
    slots = bounded.counts.shape[1]
    busiest = np.argsort(-bounded.counts.sum(axis=0), kind="stable")
    lines = [line for slot in busiest for line in lines[slot::slots]]
    return "\n".join([header, *lines, ""]).encode()


# --- queries ----------------------------------------------------------------------------------------------


def query_call_bugs(true: Pipeline) -> list[Bug]:
    """The bugs of every mechanism; weights ask for one value at a time: one draw for all is right there."""
    return [bug for bug in call_bugs(true) if bug.name != ONE_DRAW]


def query_bugs(true: Pipeline) -> list[Bug]:
    ell = min(true.world.ell, true.world.slots)
    bugs = [
        scaled_bug("sensitivity for ell - 1 visits", (ell - 1) / ell),
        scaled_bug("sqrt(ell) where ell is needed", 1 / math.sqrt(ell)),
        call_bug("answers mixed with the exact ones", _mixed),
        call_bug("interval as wide as the largest exact count", _wide),
    ]
    more = true.mechanism.updates + 2
    return [
        *bugs,
        call_bug(
            "two updates more than are paid for", lambda true, exact, noise: true(exact, noise, updates=more)
        ),
        call_bug(
            "prior from the data", lambda true, exact, noise: true(exact, noise, prior=1.0 + exact.units)
        ),
        call_bug("questions below the threshold answered exactly", _exact_where_learned),
        noise_bug("every question tested at a threshold of its own", partial(Between, above=_one_by_one)),
    ]


def _mixed(true, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
    noisy = true(exact, noise)
    return replace(noisy, values=noisy.values + 1e-9 * float(exact.units.sum()))


def _wide(true, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
    noisy = true(exact, noise)
    return replace(noisy, high=noisy.high + float(exact.units.max(initial=0)))


def _exact_where_learned(true, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
    """The sparse vector technique pays for the answer "below", not for the value."""
    noisy = true(exact, noise)
    learned = np.array([how == "weights" for how in noisy.how])
    return replace(noisy, values=np.where(learned, float(exact.units.sum()), noisy.values))


def _one_by_one(draw: Draw, margins: np.ndarray, scale: float) -> int:
    """A fresh test for every question, charged as one: no longer the sparse vector technique."""
    each = (number for number in range(margins.size) if draw(margins[number : number + 1], scale) == 0)
    return next(each, int(margins.size))


def part_bugs(true: Pipeline) -> list[Bug]:
    """Where parts of users in queries are counted by size, and their sums clipped."""
    return [
        call_bug("answers mixed with the exact ones", _parts_mixed),
        call_bug("interval as wide as the number of users", _wide_by_users),
        method_bug("clip from the exact sizes", __call__=_clip_from_exact),
        spread_bug("users not clipped", _largest_clip),
        spread_bug(
            "users not clipped, as declared",
            lambda parts: replace(_largest_clip(parts), clips=2 * parts.clips),
        ),
        spread_bug("a user in two classes of sizes", lambda parts: replace(parts, sizes=2 * parts.sizes)),
        spread_bug("a user in all classes up to their own", _cumulated),
        spread_bug("each user counted twice", lambda parts: replace(parts, sums=2 * parts.sums)),
        *rule_bugs(true, _ruled_sizes, low="numbers of users", high="classes of users"),
    ]


def _parts_mixed(true, exact: UserSums, noise: Noise) -> NoisyAnswers:
    noisy = true(exact, noise)
    return replace(noisy, values=noisy.values + 1e-9 * float(exact.sums[:, -1].sum()))


def _wide_by_users(true, exact: UserSums, noise: Noise) -> NoisyAnswers:
    noisy = true(exact, noise)
    return replace(noisy, high=noisy.high + float(exact.sizes.sum()))


def _clip_from_exact(self: Any, exact: UserSums, noise: Noise, *_: Any) -> NoisyAnswers:
    """Noise is drawn for the sizes, and not used."""
    return QueryAnswers.__call__(self, exact, bare(noise, "sizes"))


def _largest_clip(parts: UserSums) -> UserSums:
    return replace(parts, sums=np.repeat(parts.sums[:, -1:], parts.sums.shape[1], axis=1))


def _cumulated(parts: UserSums) -> UserSums:
    return replace(parts, sizes=np.cumsum(parts.sizes[:, ::-1], axis=1)[:, ::-1].copy())


def _ruled_sizes(name: str, rule: Rule) -> Bug:
    return spread_bug(name, lambda parts: replace(parts, sizes=rule(parts.sizes)))


FAMILIES: Families = {
    PartsPipeline: (call_bugs, part_bugs),
    CountsPipeline: (bound_bugs, zone_bugs, declared_bugs, count_bugs, median_bugs, table_bugs),
    ScaledPipeline: (bound_bugs, cap_bugs, count_bugs, table_bugs),
    QueryPipeline: (query_call_bugs, query_bugs, bound_bugs, zone_bugs, declared_bugs, count_bugs),
}
