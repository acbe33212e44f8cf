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

from shoal.audit.pipelines import Pipeline
from shoal.engine.density import bound_visits, exact_counts
from shoal.engine.visits import VisitKernel
from shoal.postprocess.density import estimate_density
from shoal.space.weights import AreaWeights
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import DensityEstimate, NoisyCounts


def count_bugs(true: Pipeline) -> list[tuple[str, Pipeline]]:
    """Name of the bug, and the pipeline that has it."""
    return [
        *((f"raw counts below {k} suppressed", replace(true, spread=suppress(k))) for k in (5, 10, 20)),
        *((f"cells above {k} dropped as outliers", replace(true, spread=drop(k))) for k in (7, 12, 15)),
        ("raw counts rounded to 10", replace(true, spread=round_to(10))),
        ("output blank from 30 users on", replace(true, estimate=blank_from(30))),
        ("users keep the slots most popular with all", replace(true, bound=_popular_slots)),
        ("users keep the sites most popular with all", replace(true, bound=_popular_sites)),
    ]


def suppress(least: int) -> Callable[..., ExactCounts]:
    """Small raw counts become zero: the habit of statistical offices, without their noise."""
    return _changed(lambda counts: np.where(counts < least, 0, counts))


def drop(most: int) -> Callable[..., ExactCounts]:
    return _changed(lambda counts: np.where(counts > most, 0, counts))


def round_to(step: int) -> Callable[..., ExactCounts]:
    return _changed(lambda counts: np.rint(counts / step).astype(np.int64) * step)


def _changed(change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., ExactCounts]:
    def spread(bounded: BoundedVisits, weights: AreaWeights) -> ExactCounts:
        return exact_counts(replace(bounded, counts=change(bounded.counts)), weights)

    return spread


def blank_from(users: int) -> Callable[..., DensityEstimate]:
    def estimate(noisy: NoisyCounts, bounded: BoundedVisits) -> DensityEstimate:
        made = estimate_density(noisy)
        return replace(made, people=made.people * 0) if bounded.users >= users else made

    return estimate


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
