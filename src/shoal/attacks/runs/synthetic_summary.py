"""The figures of an attack on synthetic trips as plain values and in words, for the owner."""

from __future__ import annotations

from math import sqrt
from typing import Any

from shoal.attacks.runs.output import plain
from shoal.attacks.runs.synthetic import AttackedRelease, SyntheticAttack


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
