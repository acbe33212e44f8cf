"""Planted bugs of generators of trips: how a user is scaled, rules on exact numbers, what is generated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from shoal.auditing.pairs import CROWDS, NEW, Pair, at
from shoal.auditing.pipelines.paths import SAMPLE, SEED, CountedPaths, model_row
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.planted.calls import Between, Draw, call_bugs, mean_of_two, scaled_bug, spend_bugs
from shoal.auditing.planted.patches import (
    Bug,
    OtherDoor,
    Shown,
    call_bug,
    crowd_of,
    drop,
    method_bug,
    noise_bug,
    recast,
    spread_bug,
    step_bug,
    suppress,
)
from shoal.auditing.spend_runs import KeepsEverything
from shoal.engine.path_door import PathDoor
from shoal.mechanisms.synthetic.bridges import SyntheticBridges
from shoal.postprocess.synthetic.bridge_places import MOST_REGIONS, blocks_of, regions
from shoal.privacy.noise import Noise
from shoal.space.path_tables import PathTable, Places
from shoal.space.setting import Setting
from shoal.stages.noisy import DensityEstimate
from shoal.stages.synthetic import SyntheticPaths
from shoal.stages.trips import LATTICE

BIG = 50  # units in one place
ALL_SITES = range(8)


def path_call_bugs(true: Pipeline) -> list[Bug]:
    """The bugs of every mechanism, and a table measured twice."""
    bugs = []
    for bug in call_bugs(true):
        big = bug.name == "half the noise above 50 visits"
        bugs.append(replace(bug, shown=crowd_of(BIG, true)) if big else bug)
    again = noise_bug("a table measured twice for one price", lambda noise: Between(noise, add=_FirstTwice()))
    return [*bugs, again, *spend_bugs(true)]


class _FirstTwice:
    """The largest table yet is asked for again."""

    size = 1

    def __call__(self, draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
        larger, self.size = exact.size > self.size, max(exact.size, self.size)
        return mean_of_two(draw, exact, scale) if larger else draw(exact, scale)


def _everywhere(true: Pipeline) -> Shown:
    """One user whose trips go through all sites."""
    rows = tuple((NEW, at(slot), site) for slot in range(true.world.ell) for site in ALL_SITES)
    return Shown(Pair("nobody, and a user who goes everywhere", (), rows), KeepsEverything)


# --- the door ---------------------------------------------------------------------------------------------


class NotNormalised(OtherDoor):
    """Every entry counts in full."""

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        entries = table.entries(self.inner.paths)
        return np.bincount(entries.index, entries.weight, table.size).astype(np.int64) * LATTICE


class PerTrip(OtherDoor):
    """Every trip of a user is scaled by itself."""

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        paths = self.inner.paths
        return PathDoor(replace(paths, unit=np.arange(paths.count))).table(table, norm)


class OtherNorm(OtherDoor):
    """Scaled in norm 2 where the noise is for norm 1."""

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        return self.inner.table(table, 3 - norm)


class ToLargest(OtherDoor):
    """Scaled so that the largest place of a unit is one."""

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        out = np.zeros(table.size, np.int64)
        for places in _places_of_units(self.inner, table):
            out += places * LATTICE // max(int(places.max(initial=0)), 1)
        return out


class RoundedUp(OtherDoor):
    """Scaled as it should be, and each place rounded up."""

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        out = np.zeros(table.size, np.int64)
        for places in _places_of_units(self.inner, table):
            size = float(places.sum()) if norm == 1 else float(np.sqrt((places.astype(float) ** 2).sum()))
            out += np.ceil(places * LATTICE / max(size, 1.0)).astype(np.int64) + (places > 0)
        return out


def _places_of_units(door: PathDoor, table: PathTable) -> list[np.ndarray]:
    entries, paths = table.entries(door.paths), door.paths
    unit = np.repeat(paths.unit, np.diff(entries.first))
    weight = entries.weight if entries.weight is not None else np.ones(unit.size)
    return [
        np.bincount(entries.index[unit == one], weight[unit == one], table.size).astype(np.int64)
        for one in np.unique(paths.unit)
    ]


class _Changed(OtherDoor):
    """Every sum changed by a rule on whole units."""

    def all_trips(self) -> int:
        return int(self.rule(np.array([self.inner.all_trips()]))[0])

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        return np.rint(self.rule(self.inner.table(table, norm) / LATTICE) * LATTICE).astype(np.int64)


def path_door_bugs(true: Pipeline) -> list[Bug]:
    """How a unit is scaled, and rules on exact sums."""
    far = _everywhere(true)
    one = "trip" if true.world.size.each_trip else "user"
    bugs = [
        spread_bug(f"a {one} not normalised", NotNormalised, far),
        spread_bug("scaled to the largest place", ToLargest, far),
        spread_bug("shares rounded up", RoundedUp, far),
    ]
    if true.mechanism.loss().pure_epsilon_nano is not None:  # norm 1 is safe where norm 2 is meant
        bugs.append(spread_bug("norm 2 under Laplace noise", OtherNorm, far))
    if true.world.ell > 1:
        bugs.append(spread_bug("a user scaled trip by trip", PerTrip, far))
    rules = [
        *((f"sums below {k} suppressed", suppress(k - 0.5), k - 1) for k in (5, 10, 20)),
        *((f"sums above {k} dropped as outliers", drop(k + 0.5), k) for k in (7, 12, 15)),
    ]
    return [
        *bugs,
        *(spread_bug(name, partial(_Changed, rule=rule), crowd_of(k, true)) for name, rule, k in rules),
    ]


# --- what is generated ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _MeasuresAgain:
    """Measures anew, with the whole budget, for every trip that it draws."""

    model: Any
    measure: Callable[[], Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def generate(self, count: int, seed: int) -> Any:
        drawn = [self.measure().generate(1, seed + i) for i in range(count)]
        return drawn[-1]


def fresh_budget(name: str) -> Bug:
    return call_bug(
        name, lambda true, exact, noise: _MeasuresAgain(true(exact, noise), lambda: true(exact, noise))
    )


def _drawn_bug(name: str, draw: Callable[[Any, CountedPaths], SyntheticPaths]) -> Bug:
    """Other trips, drawn with a look at the real ones."""

    def estimate(model: Any, bounded: CountedPaths, _setting: Setting) -> DensityEstimate:
        return model_row(model, draw(model, bounded))

    return step_bug(name, estimate=estimate)


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


def _real_seed(model: Any, bounded: CountedPaths) -> SyntheticPaths:
    return model.generate(SAMPLE, SEED + int(bounded.paths.cells.sum()))


def _as_many(model: Any, bounded: CountedPaths) -> SyntheticPaths:
    return model.generate(max(bounded.paths.all_trips, 1), SEED)


def path_output_bugs(_true: Pipeline) -> list[Bug]:
    return [
        fresh_budget("fresh epsilon per generated trip"),
        _drawn_bug("start hours copied from real trips", _real_hours),
        _drawn_bug("a real trip among the generated ones", _real_trip),
        _drawn_bug("generated trips seeded by real ones", _real_seed),
        _drawn_bug("exactly as many trips generated as there are", _as_many),
    ]


# --- single mechanisms ------------------------------------------------------------------------------------


def generator_bugs(true: Pipeline) -> list[Bug]:
    mechanism = true.mechanism
    if isinstance(mechanism, SyntheticBridges):
        return _bridge_bugs(true)
    levels = [name for name, _ in true.spends() if name.startswith(("level_", "grams_"))]
    if not levels:
        return []
    return [
        noise_bug("contexts that nobody has do not go on", partial(Between, only=levels, add=_only_real)),
        scaled_bug("levels charged as if of different trips", 1 / len(levels), levels),
    ]


def _only_real(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    """Noise everywhere, but only what is there can pass."""
    noisy = draw(exact, scale)
    return np.where(exact == 0, np.minimum(noisy, 0), noisy)


def _bridge_bugs(true: Pipeline) -> list[Bug]:
    """Shares, regions, and the rule for corners."""
    bugs = [
        method_bug("shares add up to more than 1", _noise=_more_than_its_share),
        method_bug("regions from exact starts and ends", _regions=_exact_regions),
        scaled_bug("tables charged as if of different trips", 0.2, "tables"),
    ]
    if "corners" in true.mechanism.noises(float(CROWDS[-1])):  # a crowd of the audit comes over the rule
        rule = Bug(name="exact n in the second-order rule", plant=_exact_rule, shown=_at_the_rule(true))
        bugs.append(rule)
    return bugs


def _more_than_its_share(self: Any, part: Any) -> Any:
    return SyntheticBridges._noise(self, part * 6 / 5)


def _exact_regions(self: Any, ask: Any, bought: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of like weight in the trips themselves."""
    grid = self.setting.grid
    block, count = blocks_of(grid, 1)
    begin, end = (ask.paths.table(Places(block, count, last=last), 1) for last in (False, True))
    exact = regions(grid, (begin + end) / LATTICE, min(MOST_REGIONS, grid.count // 2))
    return exact, SyntheticBridges._regions(self, ask, bought)[1]


def _exact_rule(true: Pipeline) -> Pipeline:
    """Whether corners are bought follows from the number of trips itself; the noisy one is published."""
    kind: Any = type(true.mechanism)

    def measure(self: Any, paths: Any, noise: Noise) -> Any:
        exact = float(paths.all_trips())
        methods = {"noises": lambda inner, _noisy: kind.noises(inner, exact), "measure": kind.measure}
        return recast(self, methods).measure(paths, noise)

    return replace(true, mechanism=recast(true.mechanism, {"measure": measure}))


def _at_the_rule(true: Pipeline) -> Shown:
    """As many trips as the rule asks for, less one."""
    mechanism = true.mechanism
    many = next(n for n in CROWDS if "corners" in mechanism.noises(float(n)))
    return crowd_of(many - 1, true)
