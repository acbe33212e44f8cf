"""Planted bugs that wait for a certain number of people, or for what most people do.

On small tables, or far from their threshold, these pipelines are right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.planted.patches import Bug, Rule, crowd_of, drop, round_to, spread_bug, step_bug, suppress
from shoal.engine.density import bound_visits
from shoal.engine.visits import VisitKernel
from shoal.space.setting import Setting
from shoal.stages.bounded import BoundedVisits
from shoal.stages.noisy import DensityEstimate


def count_bugs(true: Pipeline) -> list[Bug]:
    """Bugs in bounded counts and their table."""

    def from_crowd(name: str, rule: Rule, users: int) -> Bug:
        return Bug(name=name, plant=changed(rule), shown=crowd_of(users, true))

    bugs = [
        *(from_crowd(f"raw counts below {k} suppressed", suppress(k), k - 1) for k in (5, 10, 20)),
        *(from_crowd(f"cells above {k} dropped as outliers", drop(k), k) for k in (7, 12, 15)),
        from_crowd("raw counts rounded to 10", round_to(10), 5),
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
