"""Whether synthetic trips give away whose trips they were made from: raw, published and protected ones.

open      points -> paths, as a release reads them                    exact, the owner's eyes only
draw      a pool of units, random halves of it as worlds; the rest is the adversary's sample
publish   each world's trips by each method: copied, by TGM, by mechanisms
score     usual and unusual targets in all worlds -> AUC with an interval
nearest   trips of some worlds against the half they were made from and the other half
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

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
from shoal.attacks.runs.findings import Column, Findings, plain, stacked, table_of
from shoal.attacks.runs.membership import allowed, told_apart
from shoal.attacks.runs.plans import SyntheticAttackPlan
from shoal.attacks.runs.synthetic_defences import Defence, defence_named
from shoal.errors import PlanError, SourceError
from shoal.kinds.commute.prepare import PreparedCommute
from shoal.kinds.describe import Table
from shoal.kinds.source import Progress
from shoal.kinds.synthetic.build import SyntheticBuild
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.kinds.synthetic.prepare import PreparedSynthetic, prepare_synthetic
from shoal.privacy.guarantee import TRIP
from shoal.stages.trips import ExactPaths

LEARN = 8  # releases of other people, to learn what one looks like
NEAREST_WORLDS = 3
MOST_GROUP = 2_500
LEAST_ALONE = 10  # targets of a class worth a row
MEMBERSHIP_LEGEND = (
    "AUC: share of cases in which the adversary tells one who is in the data from one who is not; 0.5 is "
    "guessing. Below it: 95 % of AUCs when worlds and targets are drawn again. alone: with a cell that no "
    "known other person visits. at most: what the guarantee allows any adversary."
)
NEAREST_COLUMNS = (
    Column("release", "release"),
    Column("set_at", "set at", "g"),
    Column("nearer_seen", "nearest\nseen", ".1%", missing="no trip of 5 cells"),
    Column("by_chance", "if it copied\nnothing"),
    Column("copies_seen", "copies of\nseen trips", ".1%"),
    Column("copies_held", "copies of\nothers", ".1%"),
    Column("median_m_seen", "metres to\nseen trips", ",.0f"),
    Column("median_m_held", "metres to\nothers", ",.0f"),
)
NEAREST_LEGEND = (
    "nearest seen: synthetic trips whose nearest real trip is one they were made from, and where that share "
    "lies in 95 % of cases if the release copied nothing. copies: the same cells in the same order as a real "
    "trip, 5 cells or more. metres: median distance to the nearest real trip."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticMembership:
    """One adversary's outcome for one class of targets."""

    targets: str  # "usual" | "unusual" | "alone"
    statistic: str
    roc: Roc = field(repr=False)
    interval: tuple[float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackedRelease:
    """The results on releases of one method."""

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


def run(settings: Mapping[str, Any], plan: SyntheticAttackPlan, progress: Progress) -> Findings:
    """Read the plan's trips and attack releases of groups of them."""
    delta = settings.get("delta") if plan.delta is None else plan.delta
    plan = replace(plan, delta=delta or None)
    prepared = _prepared(settings, plan)
    build = SyntheticBuild(prepared, progress)
    build.check()
    exact, _ = build.paths(plan.seed.to_bytes(16, "little")).gather()
    return _findings(_attack(prepared, exact, plan, progress))


def _prepared(settings: Mapping[str, Any], plan: SyntheticAttackPlan) -> PreparedSynthetic:
    """Grid, step, window and unit of a plan of synthetic trips; its price and method are the attack's."""
    values = {"population": "attack", **settings, "epsilon": plan.epsilons[0], "delta": plan.delta}
    values.pop("method", None)
    prepared = prepare_synthetic(SyntheticPlan.from_settings(values))
    if isinstance(prepared, PreparedCommute):
        raise PlanError("trips-need-points", "the attack on synthetic trips reads points.")
    return prepared


def _attack(
    prepared: PreparedSynthetic, exact: ExactPaths, plan: SyntheticAttackPlan, tell: Progress
) -> SyntheticAttack:
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
    for defence, epsilon in _published(plan):
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
        found, nearest = _attack_worlds(trips, worlds, classes, publish, plan.seed, tell)
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


def _published(plan: SyntheticAttackPlan) -> list[tuple[Defence, float | None]]:
    """Each method at each epsilon; once where none is set."""
    made = []
    for name in plan.defences:
        defence = defence_named(name)
        made += [(defence, each) for each in (plan.epsilons if defence.set_by_epsilon else (None,))]
    return made


def _attack_worlds(
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


def _findings(result: SyntheticAttack) -> Findings:
    membership = [
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
    nearest = [_nearest(each) for each in result.attacked]
    summary = [line for each in result.attacked for line in _text(each, result)]
    counted = ("unit", "units", "trips", "group", "worlds", "written")
    best: dict[str, float] = {}
    for row in membership:
        best[row["release"]] = max(best.get(row["release"], 0.0), row["auc"])
    return Findings(
        figures={
            "summary": summary,
            **{name: getattr(result, name) for name in counted},
            "membership": membership,
            "nearest": nearest,
        },
        summary=summary,
        tables=[_membership_table(membership, result), _nearest_table(nearest)],
        curves=_curves(result),
        sentence=_sentence(best, result.unit),
        chart={
            "bars": [{"name": name, "share": auc} for name, auc in best.items()],
            "bars_of": "cases in which in is told from out (0.5: guessing)",
        },
    )


def _membership_table(rows: list[dict[str, Any]], result: SyntheticAttack) -> Table:
    """The adversaries side by side, each AUC with its interval below."""
    statistics = list(dict.fromkeys(row["statistic"] for row in rows))
    lines: dict[tuple, dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault((row["release"], row["set_at"], row["targets"]), _named(row))
        line[row["statistic"]] = f"{row['auc']:.3f}\n{row['auc_low']:.2f}-{row['auc_high']:.2f}"
    columns = [Column("release", "release"), Column("set_at", "set at", "g"), Column("targets", "targets")]
    columns += [Column(name, name) for name in statistics]
    columns.append(Column("auc_at_most", "at most", ".3f"))
    title = f"In or out: AUC of four adversaries, releases of {result.group:,} {result.unit}s"
    return table_of(columns, [*lines.values()], title=title, below=MEMBERSHIP_LEGEND)


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its release as a table shows it."""
    return {**row, "release": defence_named(row["release"]).label}


def _nearest_table(rows: list[dict[str, Any]]) -> Table:
    shown = []
    for row in map(_named, rows):
        if row["nearer_seen"] is None:
            row = {name: row[name] for name in ("release", "set_at")}
        else:
            row = {**row, "by_chance": f"{row['by_chance_low']:.1%} to {row['by_chance_high']:.1%}"}
        shown.append(row)
    return table_of(NEAREST_COLUMNS, shown, below=NEAREST_LEGEND)


def _knows(unit: str) -> str:
    return "a trip" if unit == TRIP else f"the trips of a {unit}"


def _sentence(best: Mapping[str, float], unit: str) -> str:
    """The real trips and the first method, each by the most successful of four adversaries."""
    names = [*(["raw"] if "raw" in best else []), *[name for name in best if name != "raw"][:1]]
    shown = [
        ("the trips themselves" if name == "raw" else f"synthetic trips by {defence_named(name).label}", name)
        for name in names
    ]
    (published, first), *others = shown
    beside = "".join(f"; from {release} in {best[name]:.0%}" for release, name in others)
    return (
        f"From {published}, an adversary who knows {_knows(unit)} "
        f"{told_apart(best[first], unit=unit)}{beside} (guessing: 50%; the most successful of four "
        "adversaries)."
    )


def _curves(result: SyntheticAttack) -> pa.Table:
    """Every point of every curve, one row each."""
    return stacked(
        (
            {
                "release": each.defence.name,
                "set_at": each.epsilon,
                "targets": found.targets,
                "statistic": found.statistic,
                "false_positive": found.roc.false_positive,
                "true_positive": found.roc.true_positive,
            }
            for each in result.attacked
            for found in each.found
        ),
        text=("release", "targets", "statistic"),
    )


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


def _text(each: AttackedRelease, result: SyntheticAttack) -> list[str]:
    """The outcome in words, for the most successful adversary on targets that stand out."""
    tried = [one for one in each.found if one.targets != "usual"]
    best = max(tried, key=lambda one: one.roc.auc)
    name = each.defence.label + ("" if each.epsilon is None else f" set at {each.epsilon:g}")
    low, high = best.interval
    where = "in cells of its own" if best.targets == "alone" else "in unusual places"
    line = (
        f"{name}: an adversary who knows {_knows(result.unit)} {where} "
        f"{told_apart(best.roc.auc, digits=1, unit=result.unit)} ({low:.1%} to {high:.1%}; by "
        f"{best.statistic}, best of {len(tried)})."
    )
    near = _nearest(each)
    if near["nearer_seen"] is None:
        return [line]
    return [
        line,
        f"{name}: {near['nearer_seen']:.1%} of synthetic trips are nearest to a trip they were made from "
        f"({near['by_chance_low']:.1%} to {near['by_chance_high']:.1%} if nothing is copied); "
        f"{near['copies_seen']:.1%} copy one, {near['copies_held']:.1%} copy one they never saw.",
    ]
