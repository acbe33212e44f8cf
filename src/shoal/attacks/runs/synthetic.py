"""Whether synthetic trips give away whose trips they were made from: raw, published and protected ones.

open      points -> paths, as a release reads them                    exact, the owner's eyes only
draw      a pool of units, random halves of it as worlds; the rest is the adversary's sample
publish   each world's trips by each method: copied, by TGM, by mechanisms
score     usual and unusual targets in all worlds -> AUC with an interval
nearest   trips of some worlds against the half they were made from and the other half

The figures of an attack on synthetic trips as plain values and in words, for the owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from shoal.attacks.models.known_trips import KnownTrips, evenly
from shoal.attacks.models.membership import Roc, Worlds, draw_worlds, roc
from shoal.attacks.models.nearest_record import SplitRecords, split_records
from shoal.attacks.models.synthetic_membership import (
    STATISTICS,
    Publish,
    alone,
    auc_interval,
    learn,
    rareness,
)
from shoal.attacks.runs.membership import allowed
from shoal.attacks.runs.source import plain
from shoal.attacks.runs.synthetic_defences import Defence, defence_named
from shoal.errors import PlanError, SourceError
from shoal.kinds.commute.prepare import PreparedCommute
from shoal.kinds.source import Progress, Silent
from shoal.kinds.synthetic.build import SyntheticBuild
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.kinds.synthetic.prepare import PreparedSynthetic, prepare_synthetic
from shoal.privacy.accounting import check_delta, check_epsilon
from shoal.stages.trips import ExactPaths

LEARN = 8  # releases of other people, to learn what one looks like
NEAREST_WORLDS = 3
MOST_GROUP = 2_500
LEAST_ALONE = 10  # targets of a class worth a row


@dataclass(frozen=True, kw_only=True)
class SyntheticAttackPlan:
    """Who is attacked, in how many releases, by which methods."""

    group: int | None = None  # units in a release; None: a quarter of all, at most MOST_GROUP
    worlds: int = 12
    targets: int = 100  # of each class: usual and unusual
    defences: tuple[str, ...] = ("raw", "tgm", "bridges")
    epsilons: tuple[float, ...] = (1.0,)
    delta: float | None = None  # None: pure
    seed: int = 1

    def __post_init__(self) -> None:
        for name in self.defences:
            defence_named(name)
        for epsilon in self.epsilons:
            check_epsilon(epsilon)
        if self.delta is not None:
            check_delta(self.delta)
        if not self.defences or not self.epsilons:
            raise PlanError(
                "attack-defence", "there is nothing to attack.", "Pass --defence raw,bridges and --epsilon 1."
            )
        for name, value in (("worlds", self.worlds), ("targets", self.targets)):
            if not 2 <= value <= 10_000:
                raise PlanError("membership-size", f"{name} must be from 2 to 10000; got {value}.")

    def published(self) -> list[tuple[Defence, float | None]]:
        """Each method at each epsilon; once where none is set."""
        made = []
        for name in self.defences:
            defence = defence_named(name)
            made += [(defence, each) for each in (self.epsilons if defence.set_by_epsilon else (None,))]
        return made


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticMembership:
    """One adversary's outcome for one class of targets."""

    targets: str  # "usual" | "unusual" | "alone"
    statistic: str
    roc: Roc = field(repr=False)
    interval: tuple[float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackedRelease:
    """All that was found on releases of one method."""

    defence: Defence
    epsilon: float | None  # what it was set at
    auc_at_most: float | None  # by the guarantee, for any adversary
    found: list[SyntheticMembership] = field(repr=False)
    nearest: list[SplitRecords] = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticAttack:
    unit: str
    units: int
    trips: int
    group: int
    worlds: int
    written: int  # synthetic trips of a release
    attacked: list[AttackedRelease] = field(repr=False)


def attack_synthetic(
    settings: Mapping[str, Any], plan: SyntheticAttackPlan, progress: Progress | None = None
) -> SyntheticAttack:
    """Read the plan's trips and attack releases of groups of them."""
    tell = progress or Silent()
    prepared = prepared_from(settings, plan)
    build = SyntheticBuild(prepared, tell)
    build.check()
    exact, _ = build.paths(plan.seed.to_bytes(16, "little")).gather()
    return attack_paths(prepared, exact, plan, tell)


def prepared_from(settings: Mapping[str, Any], plan: SyntheticAttackPlan) -> PreparedSynthetic:
    """Grid, step, window and unit of a plan of synthetic trips; its price and method are the attack's."""
    values = {"population": "attack", **settings, "epsilon": plan.epsilons[0], "delta": plan.delta}
    values.pop("method", None)
    prepared = prepare_synthetic(SyntheticPlan.from_settings(values))
    if isinstance(prepared, PreparedCommute):
        raise PlanError("trips-need-points", "the attack on synthetic trips reads points.")
    return prepared


def attack_paths(
    prepared: PreparedSynthetic, exact: ExactPaths, plan: SyntheticAttackPlan, tell: Progress
) -> SyntheticAttack:
    """The same on paths that were read already."""
    if not exact.count:
        raise SourceError(
            "nobody",
            "no trip lies in the window and the box: there is nobody to attack.",
            "Check --box, the order of coordinates, --start, --end and --time-zone.",
        )
    trips = KnownTrips.of(exact, exact.unit)
    group = plan.group or min(trips.units // 4, MOST_GROUP)
    worlds = draw_worlds(trips.units, group=group, worlds=plan.worlds, seed=plan.seed)
    written = max(round(trips.paths.count * group / trips.units), 1)
    classes = _classes(trips, worlds, plan.targets)
    attacked = []
    for defence, epsilon in plan.published():
        at = "" if epsilon is None else f" at {epsilon:g}"
        tell.stage(f"attack {defence.name}{at}", LEARN + plan.worlds)
        publish = defence.publisher(
            prepared,
            epsilon=epsilon,
            delta=plan.delta,
            count=written,
            seed=plan.seed,
            share=group / trips.units,
        )
        found, nearest = _attack(trips, worlds, classes, publish, plan.seed, tell)
        most = allowed(epsilon, plan.delta or 0.0)[0] if defence.sound and epsilon is not None else None
        attacked.append(
            AttackedRelease(defence=defence, epsilon=epsilon, auc_at_most=most, found=found, nearest=nearest)
        )
    return SyntheticAttack(
        unit=prepared.plan.unit,
        units=trips.units,
        trips=trips.paths.count,
        group=group,
        worlds=plan.worlds,
        written=written,
        attacked=attacked,
    )


def _attack(
    trips: KnownTrips,
    worlds: Worlds,
    classes: dict[str, np.ndarray],
    publish: Publish,
    seed: int,
    tell: Progress,
) -> tuple[list[SyntheticMembership], list[SplitRecords]]:
    targets = np.unique(np.concatenate([*classes.values()]))
    adversary = learn(trips, worlds, targets, publish, runs=LEARN, seed=seed, tell=tell.advance)
    scores: dict[str, list[np.ndarray]] = {name: [] for name in STATISTICS}
    nearest = []
    for number, inside in enumerate(worlds.inside):
        members = trips.of_units(worlds.pool[inside])
        release = publish(members, LEARN + number)
        for name, values in adversary.scores(release).items():
            scores[name].append(values)
        if number < NEAREST_WORLDS:
            nearest.append(split_records(release, members, trips.of_units(worlds.pool[~inside])))
        tell.advance(1)
    found = []
    for kind, members in classes.items():
        at = np.searchsorted(targets, members)
        inside = worlds.inside[:, members]
        for name in STATISTICS:
            part = np.array(scores[name])[:, at]
            found.append(
                SyntheticMembership(
                    targets=kind,
                    statistic=name,
                    roc=roc(part[inside], part[~inside]),
                    interval=auc_interval(part, inside, seed=seed),
                )
            )
    return found, nearest


def _classes(trips: KnownTrips, worlds: Worlds, most: int) -> dict[str, np.ndarray]:
    """Places in the pool of units in usual cells (lowest third of rareness) and in unusual ones (highest);
    and, where there are some, of units with a cell that nobody of the sample visits."""
    order = np.argsort(rareness(trips, worlds), kind="stable")
    third = len(order) // 3
    if third < 2:
        raise PlanError("membership-targets", "there are too few people to attack.", "Pass a larger --group.")
    spread = evenly(third, most)
    found = {"usual": np.sort(order[:third][spread]), "unusual": np.sort(order[-third:][spread])}
    lone = np.flatnonzero(alone(trips, worlds))
    if lone.size >= LEAST_ALONE:
        found["alone"] = lone[evenly(lone.size, most)]
    return found


def synthetic_told(result: SyntheticAttack) -> dict[str, Any]:
    """Figures as plain values."""
    rows = [
        {
            "release": each.defence.name,
            "set_at": each.epsilon,
            "targets": found.targets,
            "statistic": found.statistic,
            "auc": found.roc.auc,
            "auc_low": found.interval[0],
            "auc_high": found.interval[1],
            "auc_at_most": each.auc_at_most,
            "scores_in": found.roc.members,
            "scores_out": found.roc.others,
        }
        for each in result.attacked
        for found in each.found
    ]
    return {
        "summary": [line for each in result.attacked for line in _summary(each, result)],
        **{name: getattr(result, name) for name in ("unit", "units", "trips", "group", "worlds", "written")},
        "membership": rows,
        "nearest": [_nearest(each) for each in result.attacked],
    }


def _nearest(each: AttackedRelease) -> dict[str, Any]:
    """Means over the worlds looked at."""
    worlds = each.nearest
    mean = lambda values: plain(sum(values) / len(worlds))  # noqa: E731
    error = sqrt(sum(world.standard_error**2 for world in worlds)) / len(worlds)
    return {
        "release": each.defence.name,
        "set_at": each.epsilon,
        "nearer_seen": mean([world.nearer_seen for world in worlds]),
        "by_chance_low": plain(0.5 - 1.96 * error),
        "by_chance_high": plain(0.5 + 1.96 * error),
        **{
            f"{name}_{side}": mean([getattr(getattr(world, side), name) for world in worlds])
            for name in ("copies", "median_m", "ratio")
            for side in ("seen", "held")
        },
        "worlds": len(worlds),
    }


def _summary(each: AttackedRelease, result: SyntheticAttack) -> list[str]:
    """The outcome in words, for the adversary who did best on those who stand out."""
    tried = [one for one in each.found if one.targets != "usual"]
    best = max(tried, key=lambda one: one.roc.auc)
    at = "" if each.epsilon is None else f" set at {each.epsilon:g}"
    low, high = best.interval
    where = "in cells of its own" if best.targets == "alone" else "in unusual places"
    near = _nearest(each)
    said = f"{each.defence.name}{at}: who knows the trips of a {result.unit} {where} tells in from out in "
    said += (
        f"{best.roc.auc:.1%} of pairs ({low:.1%} to {high:.1%}; by {best.statistic}, best of {len(tried)})."
    )
    if near["nearer_seen"] is None:
        return [said]
    return [
        said,
        f"{each.defence.name}{at}: {near['nearer_seen']:.1%} of synthetic trips are nearest to a trip they "
        f"were made from ({near['by_chance_low']:.1%} to {near['by_chance_high']:.1%} by chance); "
        f"{near['copies_seen']:.1%} copy one, {near['copies_held']:.1%} copy one they never saw.",
    ]


def roc_columns(result: SyntheticAttack) -> dict[str, list[Any]]:
    """Every point of every curve, one row each."""
    keys = ("release", "set_at", "targets", "statistic", "false_positive", "true_positive")
    columns: dict[str, list[Any]] = {name: [] for name in keys}
    for each in result.attacked:
        for found in each.found:
            count = len(found.roc.false_positive)
            for name, value in zip(
                keys, (each.defence.name, each.epsilon, found.targets, found.statistic), strict=False
            ):
                columns[name] += [value] * count
            columns["false_positive"] += found.roc.false_positive.tolist()
            columns["true_positive"] += found.roc.true_positive.tolist()
    return columns
