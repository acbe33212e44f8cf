"""Planted bugs around mechanisms on counts of visits, and of queries.

In the kernel and the bound, the weights, post-processing and the writer; rules that wait for a certain
number of people, or for what most people do, and are right on small tables; errors in queries and
multiplicative weights.
"""

from __future__ import annotations

import math
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
    light_among_heavy,
    method_bug,
    noise_bug,
    people_bug,
    result_bug,
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


def _keep_popular(engine: Any, events: Batches, kernel: VisitKernel, *, sites: bool) -> BoundedVisits:
    """Keeps the `ell` slots of a user into which most events of all users fall.

    With `sites`: the site of a user in a slot at which most events of all users in the slot are.
    """
    if not events:
        return bound_visits(engine, events, kernel)[0]
    table, slots = pa.Table.from_batches(events), kernel.edges_us.size - 1
    slot = np.searchsorted(kernel.edges_us, table["time_us"].to_numpy(), side="right") - 1
    site = table["site"].to_numpy()
    rows = np.flatnonzero((site >= 0) & (slot >= 0) & (slot < slots))
    user = np.unique(table["user"].to_numpy(), return_inverse=True)[1]
    group, choice = (user * slots + slot, slot * kernel.sites + site) if sites else (user, slot)
    group, choice = group[rows], choice[rows]
    _, number, times = np.unique(choice, return_inverse=True, return_counts=True)
    ranked = np.unique(np.column_stack([group, -times[number], choice]), axis=0)
    rank = np.arange(len(ranked)) - np.searchsorted(ranked[:, 0], ranked[:, 0])
    chosen = ranked[rank < (1 if sites else kernel.ell)][:, [0, 2]].tolist()
    remaining = [row for row, *pair in zip(rows, group, choice, strict=True) if pair in chosen]
    return bound_visits(engine, table.take(pa.array(remaining, pa.int64())).to_batches(), kernel)[0]


_popular_slots = partial(_keep_popular, sites=False)
_popular_sites = partial(_keep_popular, sites=True)


def bound_bugs(true: Pipeline) -> list[Bug]:
    """In the kernel and the bound of each user."""
    bugs = [
        step_bug("kernel counts a user twice in a slot", kernel=TwiceInASlot),
        step_bug("kernel counts events, unchecked", kernel=CountsEveryEvent, bound=_bound_unchecked),
        step_bug("uncapped visits taken for bounded ones", bound=_bound_all_visits),
        step_bug("ell from the data", light_among_heavy(true), bound=_ell_from_mean),
    ]
    if true.world.size.ell < true.world.slots:
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
        *rule_bugs(
            true, lambda name, rule: Bug(name=name, plant=changed(rule)), low="raw counts", high="cells"
        ),
        step_bug("users keep the sites most popular with all", bound=_popular_sites),
    ]
    if true.world.size.ell < true.world.slots:
        bugs.append(step_bug("users keep the slots most popular with all", bound=_popular_slots))
    return bugs


def changed(rule: Rule) -> Callable[[Pipeline], Pipeline]:
    """A rule on the bounded counts, before they are spread over zones."""

    def spread(true: Pipeline, bounded: BoundedVisits, public: Any) -> Any:
        return true.spread(replace(bounded, counts=rule(bounded.counts)), public)

    return lambda true: replace(true, spread=partial(spread, true))


def median_bugs(true: Pipeline) -> list[Bug]:
    """Where half of the cells can be full, and a user is not in all of them."""
    clip = spread_bug("counts clipped at their median", _clip_at_median)
    return [clip] if true.world.size.ell < true.world.slots else []


def _clip_at_median(exact: Any) -> Any:
    """One user may move the median, and with it half of the cells."""
    median = np.sort(exact.units, axis=None)[(exact.units.size - 1) // 2]
    return replace(exact, units=np.minimum(exact.units, median))


# --- output -----------------------------------------------------------------------------------------------


def _rescaled(people: np.ndarray, total: float) -> np.ndarray:
    return np.round(people * (1 + total) / max(people.sum(), 1.0), 1)


def output_bugs(true: Pipeline) -> list[Bug]:
    """After the noise, with a look back."""
    return [
        people_bug("output rescaled by the raw number of users", lambda p, b: _rescaled(p, b.users)),
        people_bug("output rescaled by the exact total", lambda p, b: _rescaled(p, b.counts.sum())),
        people_bug(
            "output cut at the largest exact count", lambda p, b: np.minimum(p, b.counts.max(initial=0))
        ),
        step_bug(
            "exact number of users written",
            write=lambda estimate, bounded: table_bytes(estimate) + f"# {bounded.users} users\n".encode(),
        ),
    ]


def people_bugs(true: Pipeline) -> list[Bug]:
    return [replace(blank_from(30), shown=crowd_of(29, true))]


def blank_from(users: int) -> Bug:
    """No output from a number of users on."""
    return people_bug(
        f"output blank from {users} users on",
        lambda people, bounded: people * 0 - 1 if bounded.users >= users else people,
    )


def table_bugs(true: Pipeline) -> list[Bug]:
    """In a table of zones and slots: its rows, and their order."""
    return [
        step_bug("zones without visits left out", write=_writing(_of_visited_zones)),
        step_bug("box from the data", write=_writing(lambda counts, zone, _: _within(counts.any(1), zone))),
        step_bug(
            "window from the data", write=_writing(lambda counts, _, slot: _within(counts.any(0), slot))
        ),
        step_bug("slots sorted by exact counts", write=_writing(_busiest_slots_first)),
    ]


def _writing(rows: Callable[..., np.ndarray]) -> Callable[..., bytes]:
    """Writes some rows of the table, in any order: `rows(exact counts, zone, slot)` of all rows."""

    def write(estimate: DensityEstimate, bounded: BoundedVisits) -> bytes:
        header, *lines = table_bytes(estimate).decode().splitlines()
        zone, slot = np.divmod(np.arange(len(lines)), bounded.counts.shape[1])
        return "\n".join([header, *(lines[row] for row in rows(bounded.counts, zone, slot)), ""]).encode()

    return write


def _of_visited_zones(counts: np.ndarray, zone: np.ndarray, _slot: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.isin(np.minimum(zone, len(counts) - 1), np.nonzero(counts)[0]))


def _within(visited: np.ndarray, place: np.ndarray) -> np.ndarray:
    """From the first to the last zone, or slot, that has visits."""
    there = np.flatnonzero(visited)
    return np.flatnonzero((place >= there[0]) & (place <= there[-1])) if there.size else there


def _busiest_slots_first(counts: np.ndarray, zone: np.ndarray, slot: np.ndarray) -> np.ndarray:
    return np.lexsort((zone, slot, -counts.sum(axis=0)[slot]))


# --- queries ----------------------------------------------------------------------------------------------


def query_call_bugs(true: Pipeline) -> list[Bug]:
    """The bugs of every mechanism; weights ask for one value at a time: one draw for all is right there."""
    return [bug for bug in call_bugs(true) if bug.name != ONE_DRAW]


def query_bugs(true: Pipeline) -> list[Bug]:
    ell = min(true.world.size.ell, true.world.slots)
    bugs = [
        scaled_bug("sensitivity for ell - 1 visits", (ell - 1) / ell),
        scaled_bug("sqrt(ell) where ell is needed", 1 / math.sqrt(ell)),
        result_bug(
            "answers mixed with the exact ones",
            values=lambda noisy, exact: noisy.values + 1e-9 * float(exact.units.sum()),
        ),
        result_bug(
            "interval as wide as the largest exact count",
            high=lambda noisy, exact: noisy.high + float(exact.units.max(initial=0)),
        ),
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
        result_bug("questions below the threshold answered exactly", values=_exact_where_learned),
        noise_bug("every question tested at a threshold of its own", partial(Between, above=_one_by_one)),
    ]


def _exact_where_learned(noisy: NoisyAnswers, exact: ExactCounts) -> np.ndarray:
    """The sparse vector technique pays for the answer "below", not for the value."""
    return np.where(np.array(noisy.how) == "weights", float(exact.units.sum()), noisy.values)


def _one_by_one(draw: Draw, margins: np.ndarray, scale: float) -> int:
    """A fresh test for every question, charged as one: no longer the sparse vector technique."""
    each = (number for number in range(margins.size) if draw(margins[number : number + 1], scale) == 0)
    return next(each, int(margins.size))


def part_bugs(true: Pipeline) -> list[Bug]:
    """Where parts of users in queries are counted by size, and their sums clipped."""
    return [
        result_bug(
            "answers mixed with the exact ones",
            values=lambda noisy, exact: noisy.values + 1e-9 * float(exact.sums[:, -1].sum()),
        ),
        result_bug(
            "interval as wide as the number of users",
            high=lambda noisy, exact: noisy.high + float(exact.sizes.sum()),
        ),
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
