"""Several density methods on the same counts: utility against epsilon.

Events are counted once per bound and used for all methods, epsilons and repetitions. Nothing here is a
release: on a simulated city nothing private is touched; on private data the page is the owner's alone, and a
choice made by it is not covered by any promise.

Where methods are compared: a simulated city shaped like the declared population, or the owner's events.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import gcd, isfinite
from typing import Any

import numpy as np

from shoal.engine.engine import DuckEngine, Engine
from shoal.errors import GeometryError, PlanError
from shoal.events.simulate import preset_named
from shoal.events.simulate.city import can_simulate, simulate_in_memory, whole_weeks
from shoal.kinds.density.build import Counting, DensityBuild, stage_for
from shoal.kinds.density.plan import ComparePlan, Method, any_method
from shoal.kinds.density.prepare import PreparedDensity
from shoal.kinds.plan import WindowPlan
from shoal.kinds.run import Progress, Silent
from shoal.metrics.density import MAX_ZONES, BoxFigures, density_utility, emd_m
from shoal.postprocess.density.numbers import round_density
from shoal.privacy.accounting import Budget
from shoal.privacy.guarantee import bound_sentence
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.setting import part_of
from shoal.space.clock import Clock
from shoal.space.geography import Geography, Setting, open_geography, setting_of
from shoal.space.places import Zones
from shoal.space.plan import SpacePlan
from shoal.stages.noisy import DensityEstimate


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One method at one epsilon, once. `set_at` shaped the noise; `epsilon` is None where it has none."""

    method: str
    set_at: float
    epsilon: float | None
    delta: float | None
    repetition: int
    mre: float | None
    pc: float | None
    emd_m: float | None
    bias: float | None  # of the total, as a share of it
    mae: float | None  # people per zone and slot
    coverage: float | None  # of the 95 % intervals
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All runs, what each method truly promises, and series and boxes of the middle epsilon for the page."""

    runs: tuple[ComparedRun, ...]
    guarantees: dict[str, str]
    exact: np.ndarray = field(repr=False)
    shown: dict[str, np.ndarray] = field(repr=False)  # people of the first repetition at `shown_epsilon`
    shown_epsilon: float
    boxes: tuple[tuple[str, float, BoxFigures, BoxFigures], ...] = field(repr=False)


def compare(counting: Counting, plan: ComparePlan, progress: Progress | None = None) -> Comparison:
    """Every method at every epsilon, `repetitions` times, against the raw counts."""
    tell = progress or Silent()
    setting = counting.setting
    counting.bounded(plan.options.ell, plan.options.cap)  # what most methods take: one pass gives both
    exact = counting.people()
    middle = plan.epsilons[len(plan.epsilons) // 2]
    runs: list[ComparedRun] = []
    shown: dict[str, np.ndarray] = {}
    boxes = []
    guarantees = {}
    for name in plan.methods:
        method = any_method(name)
        tell.stage(f"compare {name}", len(plan.epsilons) * plan.repetitions)
        for epsilon in plan.epsilons:
            for repetition, mechanism, estimate, seconds in _runs(counting, plan, method, epsilon):
                run, utility = _measured(setting, plan, method, epsilon, exact, estimate)
                runs.append(replace(run, repetition=repetition, seconds=round(seconds, 3)))
                guarantees[name] = guarantee_words(method, mechanism, plan)
                if repetition == 1:
                    boxes.append((name, epsilon, utility.boxes["mre"], utility.boxes["pearson"]))
                    if epsilon == middle:
                        shown[name] = estimate.people
                tell.advance(1)
    return Comparison(
        runs=tuple(runs),
        guarantees=guarantees,
        exact=exact,
        shown=shown,
        shown_epsilon=middle,
        boxes=tuple(boxes),
    )


def _runs(
    counting: Counting, plan: ComparePlan, method: Method, epsilon: float
) -> Iterator[tuple[int, Any, DensityEstimate, float]]:
    setting, options = counting.setting, plan.options
    mechanism = method.build(Budget.of(epsilon, None if method.pure else plan.delta), setting, options)
    stage = stage_for(mechanism, counting, setting, options)
    for repetition in range(1, plan.repetitions + 1):
        noise = _noise(plan.seed, method.name, epsilon, repetition)
        start = time.perf_counter()
        estimate = method.finish(mechanism(stage, noise), setting, options)
        yield repetition, mechanism, round_density(estimate, options.decimals), time.perf_counter() - start


def _noise(seed: int | None, *run: object) -> Noise:
    """Random stream of one run, so that a figure does not depend on the other methods compared."""
    if seed is None:
        return OsNoise()
    digest = hashlib.sha256(repr((seed, *run)).encode()).digest()
    return SeededNoise(int.from_bytes(digest[:8], "little"))


def _measured(setting: Setting, plan: ComparePlan, method: Method, epsilon: float, exact, estimate):
    utility = density_utility(exact, estimate.people, estimate.low, estimate.high)
    distances = _emd(setting, plan.emd_slots, exact, estimate.people)
    released = method.sound
    return ComparedRun(
        method=method.name,
        set_at=epsilon,
        epsilon=epsilon if released else None,
        delta=plan.delta if released and not method.pure else None,
        repetition=0,
        mre=_plain(utility.mean_relative_error),
        pc=_plain(utility.pearson),
        emd_m=_plain(distances),
        bias=_plain(utility.total_bias_share),
        mae=_plain(utility.mean_absolute_error),
        coverage=utility.coverage if _has_intervals(estimate, plan.options.decimals) else None,
        seconds=0.0,
    ), utility


def _emd(setting: Setting, most: int, exact: np.ndarray, people: np.ndarray) -> float:
    """Mean over some slots, no hour of the day favoured."""
    if most < 1 or setting.zones > MAX_ZONES:
        return float("nan")
    step = max(1, setting.slots // most)
    while gcd(step, 24) > 1:
        step += 1
    distances = emd_m(exact, people, setting.zone_xy_m, np.arange(0, setting.slots, step))
    return float(np.nanmean(distances)) if np.isfinite(distances).any() else float("nan")


def _has_intervals(estimate: DensityEstimate, decimals: int) -> bool:
    """Whether any interval is wider than rounding makes it; some comparators come without."""
    return bool((estimate.high > estimate.low + 2 / 10**decimals).any())


def guarantee_words(method: Method, mechanism: Any, plan: ComparePlan) -> str:
    """One line of what a method truly promises, for any of the epsilons it was run at."""
    if not method.sound:
        return mechanism.true_guarantee()
    delta = 0.0 if method.pure else plan.delta
    return bound_sentence("e^epsilon", delta, "user")


def _plain(value: float) -> float | None:
    """The value, or None where it is not finite, which JSON cannot express."""
    return float(value) if isfinite(value) else None


MOST_USERS = 200_000  # where the owner declares none: larger cities take minutes
OWN_GROUND = "paris"  # whose people are put on given zones
NOT_PRIVATE = (
    "These figures were computed on private data. Choosing a method or a parameter by them is not covered by "
    "any promise: later manifests of this population say tuned_on_private_data: recorded."
)


@dataclass(frozen=True, kw_only=True)
class World:
    """Counts on which methods are compared, and the assumptions behind them."""

    counting: Counting
    zones: Zones
    private: bool
    subtitle: str
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    users: int | None = field(default=None)


def simulated_world(
    settings: Mapping[str, Any],
    *,
    city: str | None = None,
    users: int | None = None,
    seed: int = 1,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> World:
    """A simulated city on the plan's zones, sites and window where it has them; no event file is opened."""
    tell = progress or Silent()
    assumptions: list[str] = []
    geography = _given_ground(settings, assumptions)
    preset = preset_named(city or ("town" if geography is None else OWN_GROUND))
    if users is None:
        users = min(preset.users, MOST_USERS)
        assumptions.append(f"The population is not declared; {users:,} users were simulated. Say --users N.")
    preset = replace(preset, users=users)
    window = settings.get("window")
    clock = (
        Clock(**asdict(part_of(WindowPlan, window, "window")))
        if window
        else Clock.week(preset.start, preset.time_zone)
    )
    geography, events = simulate_in_memory(preset, clock, seed=seed, geography=geography)
    assumptions.append(
        f"Each user makes about {preset.visits_mean:g} visits a week (standard deviation "
        f"{preset.visits_sd:g}): what the simulated city `{preset.name}` is set to. Your people may differ."
    )
    counting = Counting(
        engine or DuckEngine(),
        lambda: events,
        setting_of(geography, clock),
        run_key=SeededNoise(seed).run_key(),
        progress=tell,
        rows=round(users * preset.visits_mean * whole_weeks(clock)[1]),
    )
    sites = "" if geography.sites is None else f", {geography.sites.count:,} sites"
    ground = f"{geography.zones.count:,} zones{sites}, {clock.slots} slots"
    return World(
        counting=counting,
        zones=geography.zones,
        private=False,
        subtitle=f"Simulated city: {users:,} users, {ground}",
        assumptions=tuple(assumptions),
        users=users,
    )


def private_world(
    prepared: PreparedDensity,
    ledger: Ledger,
    where: str,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> World:
    """The owner's own events; the ledger lists the look and the choice before anything is counted."""
    population = prepared.plan.population
    making = DensityBuild(prepared, progress, engine=engine)
    ledger.state().population(population)
    making.check()
    ledger.look(population, "comparison of density methods with exact counts", where)
    zones, clock = prepared.geography.zones, prepared.clock
    return World(
        counting=making.counts_under(OsNoise().run_key()),
        zones=zones,
        private=True,
        subtitle=f"{population}: {zones.count:,} zones, {clock.slots} slots",
        warnings=(NOT_PRIVATE,),
    )


def _given_ground(settings: Mapping[str, Any], assumptions: list[str]) -> Geography | None:
    """The plan's zones and sites, where it has them and a city can lie on them."""
    if not settings.get("space"):
        return None
    space = part_of(SpacePlan, settings["space"], "space")
    try:
        geography = open_geography(space, has_sites=space.sites is not None, planar=False)
    except (PlanError, GeometryError) as error:
        if error.code not in ("plan-planar", "crs-missing"):
            raise
        geography = None
    if geography is None or not can_simulate(geography):
        assumptions.append(
            "The zones of the plan have no place on the globe, or too many places, for the simulator: a city "
            "of its own was used instead."
        )
        return None
    return geography
