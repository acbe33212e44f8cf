"""Planted bugs in the bound of each user's paths, in the grid they are laid on, and in tables of commutes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.audit.bugs import Bug, Shown, call_bug, step_bug
from shoal.audit.pairs import NEW, Pair, at
from shoal.audit.path_pipelines import SAMPLE, SEED, CountedCommutes, event_numbers, row_of
from shoal.audit.pipeline import Pipeline
from shoal.audit.planted_calls import call_bugs, spend_bugs
from shoal.audit.planted_paths import BIG, MeasuresAgain, crowd_of
from shoal.audit.spend_runs import KeepsEverything
from shoal.engine.commute import CommuteKernel, sum_commutes
from shoal.engine.path_trips import PathBound, encode_paths
from shoal.engine.protocol import Sums
from shoal.space.setting import Setting
from shoal.stages.commutes import ExactCommutes
from shoal.stages.noisy import DensityEstimate
from shoal.stages.paths import ExactPaths

THIN = "half the noise above 50 visits"
ALL = 10**6  # more trips than any user has


def path_bound_bugs(true: Pipeline) -> list[Bug]:
    """In what is a unit and how many trips it has; in the grid."""
    slots, each_trip = true.world.slots, true.world.size.each_trip
    bugs = [
        step_bug("points of a user in several batches", bound=_apart),
        step_bug("box from the data", bound=_box_from_data),
        step_bug("step of time from the data", bound=_step_from_data),
    ]
    pieces = tuple((NEW, at(0, 2 * k + j), 0 if j else -1) for k in range(5) for j in (0, 1))
    cut = Shown(Pair("nobody, and a trip cut into many pieces", (), pieces), KeepsEverything)
    shown = cut if each_trip else None
    if "trips" in dict(true.spends()):
        bugs.append(replace(step_bug("cap on the number of trips not enforced", bound=_no_cap), shown=shown))
    if each_trip:
        bugs.append(replace(step_bug("each piece of a trip taken for a unit", bound=_each_a_unit), shown=cut))
        return bugs
    torn = tuple((user, at(slot), slot % 2) for user in range(2 * slots) for slot in range(slots))
    breaks = tuple((NEW, at(slot), 1) for slot in range(true.world.ell))
    tie = Shown(Pair("a tie of two places, broken", torn, breaks), KeepsEverything)
    return [
        *bugs,
        step_bug("each trip taken for a unit", bound=_each_a_unit),
        replace(step_bug("users keep the trips most popular with all", bound=_popular), shown=tie),
    ]


def _unbounded(bound: PathBound) -> PathBound:
    return replace(bound, per_unit=ALL, cap=ALL, each_trip=False)


def _declared(paths: ExactPaths, batches: list[pa.RecordBatch], bound: PathBound) -> ExactPaths:
    """The paths as if they were bounded; the number of trips is right."""
    true = encode_paths(batches, bound)
    return replace(paths, cap=bound.counted, all_trips=true.all_trips, each_trip=bound.each_trip)


def _each_a_unit(batches: list[pa.RecordBatch], bound: PathBound) -> ExactPaths:
    """All trips of a user, each a unit of its own: the check of the door is content."""
    every = encode_paths(batches, _unbounded(bound))
    return _declared(replace(every, unit=np.arange(every.count, dtype=np.int64)), batches, bound)


def _no_cap(batches: list[pa.RecordBatch], bound: PathBound) -> ExactPaths:
    """The number of trips without its cap."""
    every = encode_paths(batches, _unbounded(bound))
    return replace(encode_paths(batches, bound), all_trips=every.all_trips)


def _popular(batches: list[pa.RecordBatch], bound: PathBound) -> ExactPaths:
    """Of a user's trips the m whose first cells are the most popular with all."""
    every = encode_paths(batches, _unbounded(bound))
    begins = every.starts
    liked = Counter(begins.tolist())
    order = sorted(range(every.count), key=lambda i: (every.unit[i], -liked[begins[i]], begins[i]))
    rank: Counter[int] = Counter()
    kept = []
    for trip in order:
        if rank[int(every.unit[trip])] < bound.per_unit:
            kept.append(trip)
        rank[int(every.unit[trip])] += 1
    return _declared(_only(every, kept), batches, bound)


def _only(paths: ExactPaths, kept: list[int]) -> ExactPaths:
    """Some of the trips."""
    rows = [np.arange(paths.first[i], paths.first[i + 1]) for i in kept]
    visits = np.concatenate([np.empty(0, np.int64), *rows])
    return replace(
        paths,
        first=np.cumsum([0, *(each.size for each in rows)]).astype(np.int64),
        cells=paths.cells[visits],
        tick=paths.tick[visits],
        stay=paths.stay[visits],
        start_us=paths.start_us[kept],
        unit=paths.unit[kept],
    )


def _apart(batches: list[pa.RecordBatch], bound: PathBound) -> ExactPaths:
    """Batches of one row, so that users and trips are torn apart."""
    return encode_paths([batch.slice(row, 1) for batch in batches for row in range(batch.num_rows)], bound)


def _box_from_data(batches: list[pa.RecordBatch], bound: PathBound) -> ExactPaths:
    """The grid laid over where people are: one user moves the cells of all."""
    x, y = (np.concatenate([np.empty(0), *(b[name].to_numpy() for b in batches)]) for name in ("x", "y"))
    west, south, east, north = bound.grid.box
    inside = (x >= west) & (x < east) & (y >= south) & (y < north)
    if inside.any():
        west, south = float(x[inside].min()) - 0.5, float(y[inside].min()) - 0.5
        east, north = float(x[inside].max()) + 0.5, float(y[inside].max()) + 0.5
    laid = replace(bound.grid, box=(west, south, east, north))
    return replace(encode_paths(batches, replace(bound, grid=laid)), grid=bound.grid)


def _step_from_data(batches: list[pa.RecordBatch], bound: PathBound) -> ExactPaths:
    """Steps as long as points are apart on average: one user moves the ticks of all."""
    apart = np.concatenate([np.empty(0), *(np.diff(b["time_us"].to_numpy()) / 1e6 for b in batches)])
    usual = apart[(apart > 0) & (apart < 1800)]
    step_s = max(float(np.rint(usual.mean())), 1.0) if usual.size else bound.step_s
    return replace(encode_paths(batches, replace(bound, step_s=step_s)), step_s=bound.step_s)


# --- commutes ---------------------------------------------------------------------------------------------


def commute_bugs(true: Pipeline) -> list[Bug]:
    """How a user is scaled, whose home is where, what is drawn."""
    bugs = [
        *(replace(bug, shown=crowd_of(BIG, true)) if bug.name == THIN else bug for bug in call_bugs(true)),
        *spend_bugs(true),
        step_bug("a user not normalised", kernel=_CountsAll),
        step_bug("users weighed by their events", bound=_by_events),
        step_bug("the busiest site is nobody's home", bound=_not_the_busiest),
        call_bug(
            "fresh epsilon per person drawn",
            lambda call, exact, noise: MeasuresAgain(call(exact, noise), lambda: call(exact, noise)),
        ),
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
