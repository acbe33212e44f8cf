"""Membership inference on counts: raw counts, and those of methods.

open     events -> known visits                                        exact, the owner's eyes only
draw     a pool of people, random halves of it as worlds, the rest is the adversary's sample
publish  each world's counts, raw and by each density method
score    all targets in all worlds -> ROC, AUC, members found at 0.1 % false alarms

Targets are people with few visits (the lowest third) and with many (the highest).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from shoal.attacks.models.known_trips import evenly
from shoal.attacks.models.membership import (
    Publish,
    Roc,
    Worlds,
    attack_worlds,
    draw_worlds,
    expected_visits,
    known_visits,
    roc,
)
from shoal.attacks.models.visits import KnownVisits
from shoal.attacks.runs.counts import (
    AttackSource,
    Protection,
    clock_from,
    counts_name,
    open_attack_source,
    protection_of,
    protections,
    publisher,
)
from shoal.attacks.runs.findings import Column, Findings, drawn_curve, stacked, table_of
from shoal.attacks.runs.plans import MembershipPlan
from shoal.errors import PlanError
from shoal.kinds.density.plan import METHODS
from shoal.kinds.run import Progress, Silent
from shoal.space.clock import Clock

FALSE_ALARMS = 0.001
LEARN = 5  # runs of a method on other people, to learn how it errs
MOST_GROUP = 2000
COLUMNS = (
    Column("counts", "counts", read=counts_name),
    Column("set_at", "set at", "g"),
    Column("visits", "visits of\nthe person"),
    Column("visits_median", "median", "g"),
    Column("auc", "AUC", ".3f"),
    Column("auc_at_most", "AUC\nat most", ".3f"),
    Column("tpr_at_fpr_0.001", "found at\n0.1 % false", ".1%"),
    Column("tpr_at_most", "found\nat most", ".1%"),
)
LEGEND = (
    "AUC: area under the ROC curve; the probability that a member of the group scores higher than a "
    "non-member; 0.5 is guessing. found: true positive rate at a false positive rate of 0.1 %; empty with "
    "fewer than 1,000 scores of non-members: raise --worlds or --targets. at most: upper bound by the "
    "guarantee, for any adversary; figures measured on few scores vary around it."
)
KNOWLEDGE = {"visits": "the visits of a person", "past": "a person's habits from the past"}


def success(auc: float, *, digits: int = 0, unit: str = "person") -> str:
    """An AUC as part of a sentence.

    >>> success(0.972)
    'tells a person who is in the data from one who is not in 97% of cases'
    """
    which = "that" if unit == "trip" else "who"
    return f"tells a {unit} {which} is in the data from one {which} is not in {auc:.{digits}%} of cases"


def run(settings: Mapping[str, Any], plan: MembershipPlan, progress: Progress) -> Findings:
    """Read the plan's events and attack groups of its people."""
    source = open_attack_source(settings, progress=progress)
    counted, attacked = attack_source(source, plan, progress)
    rows, curves = [row for row, _ in attacked], [_curve(row, points) for row, points in attacked]
    summary = [_text(row, counted) for row in rows]
    return Findings(
        figures={"summary": summary, **counted, "rows": rows},
        summary=summary,
        tables=[table_of(COLUMNS, rows, below=LEGEND)],
        curves=stacked(curves, text=("counts", "visits")),
        sentence=_sentence(rows, counted),
        chart={
            "curves": [
                drawn_curve(
                    f"{each['counts']}, {each['visits']} visits",
                    each["false_positive"],
                    each["true_positive"],
                )
                for each in curves
            ]
        },
    )


def _curve(row: Mapping[str, Any], points: Roc) -> dict[str, Any]:
    named = {name: row[name] for name in ("counts", "set_at", "visits")}
    return {**named, "false_positive": points.false_positive, "true_positive": points.true_positive}


def _text(row: Mapping[str, Any], counted: Mapping[str, Any]) -> str:
    share = row["tpr_at_fpr_0.001"]
    alarms = "" if share is None else f", and finds {share:.1%} of members at 0.1 % false alarms"
    outcome, people = success(row["auc"], digits=1), f" of {counted['group']:,} people"
    return (
        f"From {protection_of(row).text(people)}, an adversary who knows "
        f"{KNOWLEDGE[counted['knows']]} with {row['visits']} visits {outcome}{alarms}."
    )


def _sentence(rows: Sequence[Mapping[str, Any]], counted: Mapping[str, Any]) -> str:
    """One sentence about people with many visits: AUC on raw counts, and on those of the first method."""
    raw, *protected = (row for row in rows if row["visits"] == "many")
    beside = "".join(f"; with {protection_of(row).text()} in {row['auc']:.0%}" for row in protected[:1])
    return (
        f"From raw counts of {counted['group']:,} people, an adversary who knows "
        f"{KNOWLEDGE[counted['knows']]} with many visits {success(raw['auc'])}{beside} (guessing: 50%)."
    )


def attack_source(
    source: AttackSource, plan: MembershipPlan, progress: Progress | None = None
) -> tuple[dict[str, Any], list[tuple[dict[str, Any], Roc]]]:
    """Attacks groups of people whose visits were read: sizes, and a row with its ROC for each set of counts
    and each class of targets."""
    tell = progress or Silent()
    past, visits, clock = _split(source, plan.knows)
    group = plan.group or min(visits.users // 4, MOST_GROUP)
    worlds = draw_worlds(visits.users, group=group, worlds=plan.worlds, seed=plan.seed)
    classes = _classes(visits, worlds, plan)
    targets = np.concatenate([*classes.values()])
    known = _known(past, visits, worlds.pool[targets], clock)
    per_user = visits.per_user()[worlds.pool]
    attacked = []
    for protection in (Protection(), *protections(plan)):
        publish = _publish(source, clock, plan, protection)
        tell.stage(f"attack {protection.label}", plan.worlds + (LEARN if publish else 0))
        scores = attack_worlds(visits, worlds, known, publish, learn=LEARN, seed=plan.seed, tell=tell.advance)
        auc_at_most, tpr_at_most = bounds(protection, plan.delta)
        start = 0
        for name, members in classes.items():
            part, inside = scores[:, start : start + len(members)], worlds.inside[:, members]
            start += len(members)
            points = roc(part[inside], part[~inside])
            row = {
                "counts": protection.method or "raw",
                "set_at": protection.set_at,
                "visits": name,
                "visits_median": float(np.median(per_user[members])),
                "auc": points.auc,
                "auc_at_most": auc_at_most,
                "tpr_at_fpr_0.001": points.tpr_at(FALSE_ALARMS),
                "tpr_at_most": tpr_at_most,
                "scores_in": points.members,
                "scores_out": points.others,
            }
            attacked.append((row, points))
    counted = {
        "users": visits.users,
        "group": group,
        "worlds": plan.worlds,
        "slots": visits.slots,
        "knows": plan.knows,
    }
    return counted, attacked


def bounds(protection: Protection, delta: float) -> tuple[float | None, float | None]:
    """Largest AUC, and share found at 0.1 % false alarms, that the guarantee allows any adversary.

    Worlds with and without a target have equal size, so they differ by two people's presence: 2 epsilon.

    >>> [round(each, 4) for each in bounds(Protection("laplace", 1.0), 1e-6)]
    [0.8808, 0.0074]
    """
    if protection.method is None or protection.epsilon is None:
        return None, None
    return allowed(protection.epsilon, 0.0 if METHODS[protection.method].pure else delta)


def allowed(epsilon: float, delta: float) -> tuple[float, float]:
    """The same for any method that holds (epsilon, delta) for one unit."""
    double = 2 * epsilon
    lost = delta * (1 + exp(min(epsilon, 50.0)))
    auc = 1 / (1 + exp(-double)) + lost
    return min(1.0, auc), min(1.0, exp(min(double, 50.0)) * FALSE_ALARMS + lost)


def _publish(
    source: AttackSource, clock: Clock, plan: MembershipPlan, protection: Protection
) -> Publish | None:
    """Publishes a group's visits; None: its raw counts are attacked."""
    if protection.method is None:
        return None

    def publish(group: KnownVisits, run: int) -> np.ndarray:
        seed = plan.seed * 1_000_003 + run
        return publisher(group, source.setting, clock, delta=plan.delta, seed=seed)(protection)

    return publish


def _classes(visits: KnownVisits, worlds: Worlds, plan: MembershipPlan) -> dict[str, np.ndarray]:
    """Places in the pool of people with few visits (lowest third) and many (highest third).

    A person without a visit in the window is in no count, whatever the world, and is no target.
    """
    per_user = visits.per_user()[worlds.pool]
    order = np.argsort(per_user, kind="stable")[int((per_user == 0).sum()) :]
    third = len(order) // 3
    if third < 2:
        raise PlanError("membership-targets", "too few people have a visit in the window.", "Lengthen it.")
    spread = evenly(third, plan.targets)
    return {"few": order[:third][spread], "many": order[-third:][spread]}


def _split(source: AttackSource, knows: str) -> tuple[KnownVisits | None, KnownVisits, Clock]:
    """`visits`: the whole window is attacked. `past`: its second half, split at a day boundary."""
    visits, clock = source.visits, source.clock
    if knows == "visits":
        return None, visits, clock
    day = max(1, 1440 // clock.slot_minutes)
    cut = visits.slots // 2 // day * day
    if cut < day:
        raise PlanError(
            "membership-past",
            f"the window has {visits.slots} slots; half of it is less than a day to learn from.",
            "Lengthen the window, or use --knows visits.",
        )
    rest = clock_from(clock, cut)
    if rest.slots != visits.slots - cut:
        raise PlanError("membership-past", "the window is cut where the clocks change.", "Move its start.")
    return visits.between(0, cut), visits.between(cut, visits.slots), rest


def _known(past: KnownVisits | None, visits: KnownVisits, targets: np.ndarray, clock: Clock) -> csr_matrix:
    if past is None:
        return known_visits(visits, targets)
    day = max(1, 1440 // clock.slot_minutes)
    period = 7 * day if past.slots >= 7 * day else day
    return expected_visits(past, targets, slots=visits.slots, period=period)
