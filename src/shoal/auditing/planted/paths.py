"""Planted bugs of generators: how a unit is scaled, rules on exact numbers, what is generated.

Generators of trips first, then those of events at sites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pairs import CROWDS
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.trips import (
    SAMPLE,
    SEED,
    CommutePipeline,
    CountedCommutes,
    CountedPaths,
    PathPipeline,
    generated_row,
)
from shoal.auditing.planted.bug import (
    Bug,
    Families,
    OtherInterface,
    Rule,
    call_bug,
    crowd_of,
    interface_bug,
    method_bug,
    noise_bug,
    one_user,
    recast,
    rule_bugs,
    step_bug,
    subclass,
)
from shoal.auditing.planted.calls import (
    THIN_CROWDS,
    Between,
    Draw,
    call_bugs,
    mean_of_two,
    scaled_bug,
    spend_bugs,
)
from shoal.engine.commute import CommuteKernel, sum_commutes
from shoal.engine.engine import Sums
from shoal.engine.path_trips import PathQueries
from shoal.mechanisms.synthetic.bridges import SyntheticBridges
from shoal.postprocess.synthetic.bridge_tables import MOST_REGIONS, blocks_of, regions
from shoal.privacy.noise import Noise
from shoal.space.cell_paths import PathTable, Places
from shoal.stages.commutes import ExactCommutes
from shoal.stages.noisy import DensityEstimate
from shoal.stages.synthetic import SyntheticPaths
from shoal.stages.trips import LATTICE

BIG = 50  # units in one place
ALL_SITES = range(8)


def generator_call_bugs(true: Pipeline) -> list[Bug]:
    """The bugs of every mechanism; what waits for many visits shows in a crowd of units."""
    bugs = [
        replace(bug, shown=crowd_of(BIG, true)) if bug.name == THIN_CROWDS else bug for bug in call_bugs(true)
    ]
    return [*bugs, *spend_bugs(true)]


class _FirstTwice:
    """The largest table yet is asked for again."""

    size = 1

    def __call__(self, draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
        larger, self.size = exact.size > self.size, max(exact.size, self.size)
        return mean_of_two(draw, exact, scale) if larger else draw(exact, scale)


# --- the query interface ----------------------------------------------------------------------------------


def path_table_bugs(true: Pipeline) -> list[Bug]:
    """How a unit is scaled, and rules on exact sums."""
    far = one_user("goes everywhere", true, ALL_SITES, apart=False)
    one = "trip" if true.world.size.each_trip else "user"
    tables: dict[str, Callable[..., np.ndarray]] = {
        f"a {one} not normalised": _in_full,
        "scaled to the largest place": _to_largest,
        "shares rounded up": _rounded_up,
    }
    if true.mechanism.loss().pure_epsilon_nano is not None:  # norm 1 is safe where norm 2 is meant
        tables["norm 2 under Laplace noise"] = lambda queries, table, norm: queries.table(table, 3 - norm)
    if true.world.size.ell > 1:
        tables["a user scaled trip by trip"] = lambda queries, table, norm: PathQueries(
            replace(queries.paths, unit=np.arange(queries.paths.count))
        ).table(table, norm)
    bugs = [interface_bug(name, far, table=table) for name, table in tables.items()]
    return [*bugs, *rule_bugs(true, _ruled, low="sums", high="sums")[:-1]]  # rounding is none of them


def _ruled(name: str, rule: Rule) -> Bug:
    """Every sum changed by a rule on whole units."""

    def table(queries: PathQueries, wanted: PathTable, norm: int) -> np.ndarray:
        return np.rint(rule(queries.table(wanted, norm) / LATTICE) * LATTICE).astype(np.int64)

    return interface_bug(
        name, all_trips=lambda queries: int(rule(np.array([queries.all_trips()]))[0]), table=table
    )


def _in_full(queries: PathQueries, table: PathTable, _norm: int) -> np.ndarray:
    """Every entry counts in full."""
    entries = table.entries(queries.paths)
    return np.bincount(entries.index, entries.weight, table.size).astype(np.int64) * LATTICE


def _to_largest(queries: PathQueries, table: PathTable, _norm: int) -> np.ndarray:
    """Scaled so that the largest place of a unit is one."""
    return _sum_of_units(
        queries, table, lambda places: places * LATTICE // max(int(places.max(initial=0)), 1)
    )


def _rounded_up(queries: PathQueries, table: PathTable, norm: int) -> np.ndarray:
    """Scaled as it should be, and each place rounded up."""

    def scaled(places: np.ndarray) -> np.ndarray:
        size = np.linalg.norm(places.astype(float), norm)
        return np.ceil(places * LATTICE / max(size, 1.0)).astype(np.int64) + (places > 0)

    return _sum_of_units(queries, table, scaled)


def _sum_of_units(
    queries: PathQueries, table: PathTable, scaled: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The table summed over units, the places of each of which are scaled in another way."""
    entries, paths = table.entries(queries.paths), queries.paths
    unit = np.repeat(paths.unit, np.diff(entries.first))
    weight = entries.weight if entries.weight is not None else np.ones(unit.size)
    total = np.zeros(table.size, np.int64)
    for mine in (unit == one for one in np.unique(paths.unit)):
        total += scaled(np.bincount(entries.index[mine], weight[mine], table.size).astype(np.int64))
    return total


# --- what is generated ------------------------------------------------------------------------------------


def fresh_budget(name: str) -> Bug:
    """The model is measured anew, with the whole budget, for every trip that is drawn."""

    def call(true: Any, exact: Any, noise: Noise) -> OtherInterface:
        def generate(_model: Any, count: int, seed: int) -> Any:
            return [true(exact, noise).generate(1, seed + number) for number in range(count)][-1]

        return OtherInterface(true(exact, noise), {"generate": generate})

    return call_bug(name, call)


def drawn_bugs(changes: dict[str, Callable[[Any, Any], Any]]) -> list[Bug]:
    """Other trips or people, drawn with a look at the real ones."""

    def drawn_bug(name: str, draw: Callable[[Any, Any], Any]) -> Bug:
        def estimate(model: Any, bounded: Any, _setting: Any) -> DensityEstimate:
            return generated_row(model, draw(model, bounded))

        return step_bug(name, estimate=estimate)

    return [drawn_bug(name, draw) for name, draw in changes.items()]


def _real_seed(model: Any, bounded: CountedPaths | CountedCommutes) -> Any:
    return model.generate(SAMPLE, SEED + int(bounded.counts.sum()))


def _as_many(model: Any, bounded: CountedPaths | CountedCommutes) -> Any:
    return model.generate(bounded.drawn, SEED)


def path_output_bugs(_true: Pipeline) -> list[Bug]:
    return [
        noise_bug("a table measured twice for one price", lambda noise: Between(noise, add=_FirstTwice())),
        fresh_budget("fresh epsilon per generated trip"),
        *drawn_bugs(
            {
                "start hours copied from real trips": _real_hours,
                "a real trip among the generated ones": _real_trip,
                "generated trips seeded by real ones": _real_seed,
                "exactly as many trips generated as there are": _as_many,
            }
        ),
    ]


def _real_hours(model: Any, bounded: CountedPaths) -> SyntheticPaths:
    drawn = model.generate(SAMPLE, SEED)
    real = bounded.paths.start_us
    return replace(drawn, start_us=np.resize(real, SAMPLE)) if real.size else drawn


def _real_trip(model: Any, bounded: CountedPaths) -> SyntheticPaths:
    """The first of the trips is a real one."""
    drawn, real = model.generate(SAMPLE, SEED), bounded.paths
    if not real.count:
        return drawn
    stop, size = int(drawn.first[1]), int(real.first[1])
    parts = {
        name: np.concatenate([getattr(real, name)[:size], getattr(drawn, name)[stop:]])
        for name in ("cells", "tick", "stay")
    }
    first = np.concatenate([[0], drawn.first[1:] - stop + size])
    return replace(drawn, first=first, **parts)


# --- bridges ----------------------------------------------------------------------------------------------


def bridge_bugs(true: Pipeline) -> list[Bug]:
    """Shares, regions, and the rule for corners."""
    if not isinstance(true.mechanism, SyntheticBridges):
        return []
    bugs = [
        method_bug(
            "shares add up to more than 1",
            _noise=lambda self, part: SyntheticBridges._noise(self, part * 6 / 5),
        ),
        Bug(name="regions from exact starts and ends", plant=_exact_regions),
        scaled_bug("tables charged as if of different trips", 0.2, "tables"),
    ]
    crowds = [size for size in CROWDS if "corners" in true.mechanism.noises(float(size))]
    if crowds:  # a crowd of the audit comes over the rule; one unit less shows it
        shown = crowd_of(crowds[0] - 1, true)
        bugs.append(Bug(name="exact n in the second-order rule", plant=_exact_rule, shown=shown))
    return bugs


def _exact_regions(true: Pipeline) -> Pipeline:
    """Regions of like weight in the trips themselves."""
    kind: Any = type(true.mechanism)

    def measure(self: Any, paths: Any, noise: Noise) -> Any:
        grid = self.setting.grid
        block, count = blocks_of(grid, 1)
        begin, end = (paths.table(Places(block, count, last=last), 1) for last in (False, True))
        exact = regions(grid, (begin + end) / LATTICE, min(MOST_REGIONS, grid.count // 2))
        methods = {"_regions": lambda inner, *noisy: (exact, kind._regions(inner, *noisy)[1])}
        return recast(self, {**methods, "measure": kind.measure}).measure(paths, noise)

    return replace(true, mechanism=recast(true.mechanism, {"measure": measure}))


def _exact_rule(true: Pipeline) -> Pipeline:
    """Whether corners are measured follows from the exact number of trips; the noisy one is published."""
    kind: Any = type(true.mechanism)

    def measure(self: Any, paths: Any, noise: Noise) -> Any:
        exact = float(paths.all_trips())
        methods = {"noises": lambda inner, _noisy: kind.noises(inner, exact), "measure": kind.measure}
        return recast(self, methods).measure(paths, noise)

    return replace(true, mechanism=recast(true.mechanism, {"measure": measure}))


# --- events at sites --------------------------------------------------------------------------------------


def commute_bugs(true: Pipeline) -> list[Bug]:
    """How a user is scaled, whose home is where, what is drawn."""
    bugs = [
        step_bug("a user not normalised", kernel=CountsAll),
        step_bug("users weighed by their events", bound=_by_events),
        step_bug("the busiest site is nobody's home", bound=_not_the_busiest),
        fresh_budget("fresh epsilon per person drawn"),
        *drawn_bugs(
            {
                "exactly as many people drawn as there are": _as_many,
                "people seeded by real events": _real_seed,
            }
        ),
    ]
    if true.mechanism.norm == 1:
        bugs.append(
            step_bug(
                "norm 2 under Laplace noise",
                spread=lambda counted, norm: replace(counted.tables(3 - norm), norm=norm),
            )
        )
    return bugs


def _count_all(kernel: CommuteKernel, batch: pa.RecordBatch) -> Sums:
    """Every event counts in full in the tables of events, and nobody checks."""
    sums, scaled = CommuteKernel.__call__(kernel, batch), ("hours", "places", "elsewhere", "reach")
    return {name: values * batch.num_rows if name in scaled else values for name, values in sums.items()}


CountsAll = subclass(CommuteKernel, __call__=_count_all)


def _by_events(engine: Any, events: list[pa.RecordBatch], kernel: CommuteKernel) -> ExactCommutes:
    """Each event a user of its own in the tables of homes and hours."""
    tables = engine.sum_users(events, kernel)
    if events:
        rows = pa.Table.from_batches(events)
        alone = rows.set_column(0, "user", pa.array(np.arange(rows.num_rows)))
        many = engine.sum_users(alone.to_batches(), kernel)
        tables = {**tables, "homes": many["homes"], "hours": many["hours"]}
    return ExactCommutes(tables=tables, norm=kernel.norm)


def _not_the_busiest(engine: Any, events: list[pa.RecordBatch], kernel: CommuteKernel) -> ExactCommutes:
    """The site with most events, a station say, is dropped: which one that is, one user may change."""
    site = np.concatenate([np.empty(0, np.int64), *(batch["site"].to_numpy() for batch in events)])
    busiest = int(np.bincount(site[site >= 0], minlength=1).argmax())
    others = [batch.filter(pa.array(batch["site"].to_numpy() != busiest)) for batch in events]
    return sum_commutes(engine, others, kernel)


FAMILIES: Families = {
    PathPipeline: (generator_call_bugs, path_table_bugs, path_output_bugs, bridge_bugs),
    CommutePipeline: (generator_call_bugs, commute_bugs),
}
