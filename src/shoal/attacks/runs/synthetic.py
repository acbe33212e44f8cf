"""Membership inference on synthetic trips: raw, published and protected ones.

open      points -> paths, as a release reads them                    exact, the owner's eyes only
draw      a pool of units, random halves of it as worlds; the rest is the adversary's sample
publish   each world's trips by each method: copied, by TGM, by mechanisms
score     usual and unusual targets in all worlds -> AUC with an interval
nearest   trips of some worlds against the half they were made from and the other half
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from shoal.attacks.runs.membership import allowed, success
from shoal.attacks.runs.plans import SyntheticAttackPlan
from shoal.attacks.runs.synthetic_defences import Defence, defence_named
from shoal.errors import PlanError, SourceError
from shoal.kinds.commute.prepare import PreparedCommute
from shoal.kinds.describe import Table
from shoal.kinds.run import Progress
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


def _chance_interval(row: Mapping[str, Any]) -> str | None:
    low, high = row["by_chance_low"], row["by_chance_high"]
    return None if row["nearer_seen"] is None else f"{low:.1%} to {high:.1%}"


RELEASE_COLUMNS = (
    Column("release", "release", read=lambda row: defence_named(row["release"]).label),
    Column("set_at", "set at", "g"),
)
NEAREST_COLUMNS = (
    *RELEASE_COLUMNS,
    Column("nearer_seen", "nearest\nseen", ".1%", missing="no trip of 5 cells"),
    Column("by_chance", "if it copied\nnothing", read=_chance_interval),
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
class Attacked:
    """The attacks on releases of one method: rows of both tables, and the ROC of each row of the first."""

    defence: Defence
    epsilon: float | None  # what it was set at
    membership: list[dict[str, Any]]
    curves: list[Roc] = field(repr=False)
    nearest: dict[str, Any]


def run(settings: Mapping[str, Any], plan: SyntheticAttackPlan, progress: Progress) -> Findings:
    """Read the plan's trips and attack releases of groups of them."""
    delta = settings.get("delta") if plan.delta is None else plan.delta
    plan = replace(plan, delta=delta or None)
    prepared = _prepared(settings, plan)
    build = SyntheticBuild(prepared, progress, allow_empty=True)  # nobody is an error of the attack
    build.check()
    exact, _ = build.paths(plan.seed.to_bytes(16, "little")).gather()
    return _findings(*_attack(prepared, exact, plan, progress))


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
) -> tuple[dict[str, Any], list[Attacked]]:
    """Sizes, and the results on every method at every epsilon."""
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
        publish = defence.publisher(prepared, plan, epsilon, count=written, share=group / trips.units)
        most = allowed(epsilon, plan.delta or 0.0)[0] if defence.sound and epsilon is not None else None
        named = {"release": defence.name, "set_at": epsilon}
        rows, curves, nearest = _attack_worlds(trips, worlds, classes, publish, plan.seed, tell)
        membership = [{**named, **row, "auc_at_most": most} for row in rows]
        attacked.append(
            Attacked(
                defence=defence,
                epsilon=epsilon,
                membership=membership,
                curves=curves,
                nearest={**named, **_nearest(nearest)},
            )
        )
    counted = {
        "unit": prepared.plan.unit,
        "units": trips.units,
        "trips": trips.paths.count,
        "group": group,
        "worlds": plan.worlds,
        "written": written,
    }
    return counted, attacked


def _published(plan: SyntheticAttackPlan) -> list[tuple[Defence, float | None]]:
    """Each method at each epsilon; once where none is set."""
    return [
        (defence, epsilon)
        for defence in map(defence_named, plan.defences)
        for epsilon in (plan.epsilons if defence.set_by_epsilon else (None,))
    ]


def _attack_worlds(
    trips: KnownTrips,
    worlds: Worlds,
    classes: dict[str, np.ndarray],
    publish: Publish,
    seed: int,
    tell: Progress,
) -> tuple[list[dict[str, Any]], list[Roc], list[SplitRecords]]:
    """A row and a ROC for each class of targets and statistic; nearest records of the first worlds."""
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
    rows, curves = [], []
    for kind, members in classes.items():
        at = np.searchsorted(targets, members)
        inside = worlds.inside[:, members]
        for name in STATISTICS:
            part = np.array(scores[name])[:, at]
            points = roc(part[inside], part[~inside])
            low, high = auc_interval(part, inside, seed=seed)
            row = {"targets": kind, "statistic": name, "auc": points.auc, "auc_low": low, "auc_high": high}
            rows.append({**row, "scores_in": points.members, "scores_out": points.others})
            curves.append(points)
    return rows, curves, nearest


def _classes(trips: KnownTrips, worlds: Worlds, most: int) -> dict[str, np.ndarray]:
    """Places in the pool of units in usual cells (lowest third of rareness) and in unusual ones (highest);
    and, where there are some, of units with a cell that nobody of the sample visits."""
    order = np.argsort(rareness(trips, worlds), kind="stable")
    third = len(order) // 3
    if third < 2:
        raise PlanError("membership-targets", "there are too few people to attack.", "Pass a larger --group.")
    spread = evenly(third, most)
    classes = {"usual": np.sort(order[:third][spread]), "unusual": np.sort(order[-third:][spread])}
    lone = np.flatnonzero(alone(trips, worlds))
    if lone.size >= LEAST_ALONE:
        classes["alone"] = lone[evenly(lone.size, most)]
    return classes


def _findings(counted: dict[str, Any], attacked: Sequence[Attacked]) -> Findings:
    membership = [row for each in attacked for row in each.membership]
    nearest = [each.nearest for each in attacked]
    summary = [line for each in attacked for line in _text(each, counted["unit"])]
    tables = [
        _membership_table(membership, counted),
        table_of(NEAREST_COLUMNS, nearest, below=NEAREST_LEGEND),
    ]
    best: dict[str, float] = {}
    for row in membership:
        best[row["release"]] = max(best.get(row["release"], 0.0), row["auc"])
    return Findings(
        figures={"summary": summary, **counted, "membership": membership, "nearest": nearest},
        summary=summary,
        tables=tables,
        curves=_curves(attacked),
        sentence=_sentence(best, counted["unit"]),
        chart={
            "bars": [{"name": name, "share": auc} for name, auc in best.items()],
            "bars_of": "cases in which members and others are distinguished (0.5: guessing)",
        },
    )


def _membership_table(rows: list[dict[str, Any]], counted: dict[str, Any]) -> Table:
    """The adversaries side by side, each AUC with its interval below."""
    lines: dict[tuple, dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault((row["release"], row["set_at"], row["targets"]), dict(row))
        line[row["statistic"]] = f"{row['auc']:.3f}\n{row['auc_low']:.2f}-{row['auc_high']:.2f}"
    columns = [*RELEASE_COLUMNS, Column("targets", "targets")]
    columns += [Column(name, name) for name in STATISTICS]
    columns.append(Column("auc_at_most", "at most", ".3f"))
    title = f"In or out: AUC of four adversaries, releases of {counted['group']:,} {counted['unit']}s"
    return table_of(columns, [*lines.values()], title=title, below=MEMBERSHIP_LEGEND)


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
        f"{success(best[first], unit=unit)}{beside} (guessing: 50%; the most successful of four "
        "adversaries)."
    )


def _curves(attacked: Sequence[Attacked]) -> pa.Table:
    """Every point of every curve, one row each."""
    return stacked(
        (
            {
                **{name: row[name] for name in ("release", "set_at", "targets", "statistic")},
                "false_positive": points.false_positive,
                "true_positive": points.true_positive,
            }
            for each in attacked
            for row, points in zip(each.membership, each.curves, strict=True)
        ),
        text=("release", "targets", "statistic"),
    )


def _nearest(worlds: Sequence[SplitRecords]) -> dict[str, Any]:
    """Means over the worlds looked at."""

    def mean(values: Iterable[float]) -> float | None:
        return plain(sum(values) / len(worlds))

    error = sqrt(sum(world.standard_error**2 for world in worlds)) / len(worlds)
    return {
        "nearer_seen": mean(world.nearer_source for world in worlds),
        "by_chance_low": plain(0.5 - 1.96 * error),
        "by_chance_high": plain(0.5 + 1.96 * error),
        **{
            f"{name}_{key}": mean(getattr(getattr(world, half), name) for world in worlds)
            for name in ("copies", "median_m", "ratio")
            for key, half in (("seen", "source"), ("held", "held_out"))
        },
        "worlds": len(worlds),
    }


def _text(each: Attacked, unit: str) -> list[str]:
    """The outcome in words, for the most successful adversary on targets that stand out."""
    tried = [row for row in each.membership if row["targets"] != "usual"]
    best = max(tried, key=lambda row: row["auc"])
    name = each.defence.label + ("" if each.epsilon is None else f" set at {each.epsilon:g}")
    where = "in cells of its own" if best["targets"] == "alone" else "in unusual places"
    line = (
        f"{name}: an adversary who knows {_knows(unit)} {where} "
        f"{success(best['auc'], digits=1, unit=unit)} ({best['auc_low']:.1%} to {best['auc_high']:.1%}; "
        f"by {best['statistic']}, best of {len(tried)})."
    )
    near = each.nearest
    if near["nearer_seen"] is None:
        return [line]
    return [
        line,
        f"{name}: {near['nearer_seen']:.1%} of synthetic trips are nearest to a trip they were made from "
        f"({near['by_chance_low']:.1%} to {near['by_chance_high']:.1%} if nothing is copied); "
        f"{near['copies_seen']:.1%} copy one, {near['copies_held']:.1%} copy one they never saw.",
    ]
