"""Planted bugs of synthetic events: in tables of homes, work places and calls, and in what is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pipelines.paths import SAMPLE, SEED, CountedCommutes, event_numbers
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.trips import row_of
from shoal.auditing.planted.calls import call_bugs, spend_bugs
from shoal.auditing.planted.patches import Bug, crowd_of, step_bug
from shoal.auditing.planted.paths import BIG, fresh_budget
from shoal.engine.commute import CommuteKernel, sum_commutes
from shoal.engine.protocol import Sums
from shoal.space.setting import Setting
from shoal.stages.commutes import ExactCommutes
from shoal.stages.noisy import DensityEstimate

THIN = "half the noise above 50 visits"


def commute_bugs(true: Pipeline) -> list[Bug]:
    """How a user is scaled, whose home is where, what is drawn."""
    bugs = [
        *(replace(bug, shown=crowd_of(BIG, true)) if bug.name == THIN else bug for bug in call_bugs(true)),
        *spend_bugs(true),
        step_bug("a user not normalised", kernel=_CountsAll),
        step_bug("users weighed by their events", bound=_by_events),
        step_bug("the busiest site is nobody's home", bound=_not_the_busiest),
        fresh_budget("fresh epsilon per person drawn"),
        step_bug("exactly as many people drawn as there are", estimate=_as_many),
        step_bug("people seeded by real events", estimate=_real_seed),
    ]
    if true.mechanism.norm == 1:
        bugs.append(step_bug("norm 2 under Laplace noise", spread=_other_norm))
    return bugs


class _CountsAll(CommuteKernel):
    """Every event counts in full in the tables of events, and nobody checks."""

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        sums = super().__call__(batch)
        events = batch.num_rows
        return {
            name: values * events if name in ("hours", "places", "elsewhere", "reach") else values
            for name, values in sums.items()
        }


def _unchecked(engine: Any, events: list[pa.RecordBatch], kernel: CommuteKernel) -> ExactCommutes:
    return ExactCommutes(tables=engine.sum_users(events, kernel), norm=kernel.norm)


def _by_events(engine: Any, events: list[pa.RecordBatch], kernel: CommuteKernel) -> ExactCommutes:
    """Each event a user of its own in the tables of homes and hours."""
    rows = pa.Table.from_batches(events) if events else None
    if rows is None:
        return _unchecked(engine, events, kernel)
    alone = rows.set_column(0, "user", pa.array(np.arange(rows.num_rows)))
    once = _unchecked(engine, events, kernel)
    many = _unchecked(engine, alone.to_batches(), kernel)
    return replace(once, tables={**once.tables, "homes": many.tables["homes"], "hours": many.tables["hours"]})


def _not_the_busiest(engine: Any, events: list[pa.RecordBatch], kernel: CommuteKernel) -> ExactCommutes:
    """The site with most events, a station say, is dropped: which one that is, one user may change."""
    if not events:
        return sum_commutes(engine, events, kernel)
    table = pa.Table.from_batches(events)
    site = table["site"].to_numpy()
    busiest = int(np.bincount(site[site >= 0], minlength=1).argmax())
    return sum_commutes(engine, table.filter(pa.array(site != busiest)).to_batches(), kernel)


def _other_norm(counted: CountedCommutes, norm: int) -> ExactCommutes:
    return replace(counted.tables(3 - norm), norm=norm)


def _as_many(model: Any, bounded: CountedCommutes, _setting: Setting) -> DensityEstimate:
    return row_of([*model.numbers().values(), *event_numbers(model.generate(bounded.users, SEED))])


def _real_seed(model: Any, bounded: CountedCommutes, _setting: Setting) -> DensityEstimate:
    seed = SEED + int(bounded.counts.sum())
    return row_of([*model.numbers().values(), *event_numbers(model.generate(SAMPLE, seed))])
