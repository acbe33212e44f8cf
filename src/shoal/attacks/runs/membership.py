"""Whether a person can be told to be in the counts, raw and protected, for people with few and many visits.

open     events -> known visits                                        exact, the owner's eyes only
draw     a pool of people, random halves of it as worlds, the rest is the adversary's sample
publish  each world's counts, raw and by each density method
score    all targets in all worlds -> ROC, AUC, members found at 0.1 % false alarms

The figures of a membership attack as plain values and in words, for the owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import exp
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

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
from shoal.attacks.runs.defences import defender_of
from shoal.attacks.runs.source import AttackSource, open_attack_source
from shoal.errors import PlanError
from shoal.kinds.density.methods import METHODS, any_method
from shoal.kinds.plan import DEFAULT_DELTA
from shoal.kinds.source import Progress, Silent
from shoal.privacy.accounting import check_delta, check_epsilon
from shoal.space.clock import Clock

FALSE_ALARMS = 0.001
KNOWS = ("visits", "past")
LEARN = 5  # runs of a method on other people, to learn how it errs
MOST_GROUP = 2000


@dataclass(frozen=True, kw_only=True)
class MembershipPlan:
    """Who is attacked, what is known of them, what the counts are protected with."""

    group: int | None = None  # people in the counts; None: a quarter of all, at most MOST_GROUP
    worlds: int = 20
    targets: int = 100  # of each class: few and many visits
    knows: str = "visits"
    defences: tuple[str, ...] = ("best",)
    epsilons: tuple[float, ...] = (1.0,)
    delta: float = DEFAULT_DELTA
    seed: int = 1

    def __post_init__(self) -> None:
        for name in self.defences:
            any_method(name)
        for epsilon in self.epsilons:
            check_epsilon(epsilon)
        check_delta(self.delta)
        if self.defences and not self.epsilons:
            raise PlanError("membership-epsilon", "defences need an epsilon.", "Pass --epsilon 1, say.")
        if self.knows not in KNOWS:
            raise PlanError(
                "membership-knows", f"there is no knowledge {self.knows!r}.", "Use visits or past."
            )
        for name, value in (("worlds", self.worlds), ("targets", self.targets)):
            if not 2 <= value <= 10_000:
                raise PlanError("membership-size", f"{name} must be from 2 to 10000; got {value}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Membership:
    """One ROC: people with few or many visits, on raw counts or those of a method."""

    visits: str  # "few" | "many"
    visits_median: float
    defence: str | None  # None: raw counts
    epsilon: float | None  # what the defence was set at
    roc: Roc = field(repr=False)
    auc_at_most: float | None  # by the guarantee, for any adversary
    tpr_at_most: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class MembershipResult:
    users: int
    group: int
    worlds: int
    slots: int
    knows: str
    found: list[Membership] = field(repr=False)


def attack_membership(
    settings: Mapping[str, Any], plan: MembershipPlan, progress: Progress | None = None
) -> MembershipResult:
    """Read the plan's events and attack groups of its people."""
    return attack_source(open_attack_source(settings, progress=progress), plan, progress)


def attack_source(
    source: AttackSource, plan: MembershipPlan, progress: Progress | None = None
) -> MembershipResult:
    """The same on visits that were read already."""
    tell = progress or Silent()
    past, visits, clock = _split(source, plan.knows)
    group = plan.group or min(visits.users // 4, MOST_GROUP)
    worlds = draw_worlds(visits.users, group=group, worlds=plan.worlds, seed=plan.seed)
    classes = _classes(visits, worlds, plan)
    targets = np.concatenate([*classes.values()])
    known = _known(past, visits, worlds.pool[targets], clock)
    per_user = visits.per_user()[worlds.pool]
    found = []
    for defence, epsilon in _published(plan):
        tell.stage(f"attack {defence or 'raw counts'}", plan.worlds + (LEARN if defence else 0))
        publish = _publish(source, clock, plan, defence, epsilon)
        scores = attack_worlds(visits, worlds, known, publish, learn=LEARN, seed=plan.seed, tell=tell.advance)
        start = 0
        for name, members in classes.items():
            part, inside = scores[:, start : start + len(members)], worlds.inside[:, members]
            start += len(members)
            auc_at_most, tpr_at_most = bounds(defence, epsilon, plan.delta)
            found.append(
                Membership(
                    visits=name,
                    visits_median=float(np.median(per_user[members])),
                    defence=defence,
                    epsilon=epsilon,
                    roc=roc(part[inside], part[~inside]),
                    auc_at_most=auc_at_most,
                    tpr_at_most=tpr_at_most,
                )
            )
    return MembershipResult(
        users=visits.users,
        group=group,
        worlds=plan.worlds,
        slots=visits.slots,
        knows=plan.knows,
        found=found,
    )


def bounds(defence: str | None, epsilon: float | None, delta: float) -> tuple[float | None, float | None]:
    """Largest AUC, and share found at 0.1 % false alarms, that the guarantee allows any adversary.

    Worlds with and without a target have equal size, so they differ by two people's presence: 2 epsilon.

    >>> [round(each, 4) for each in bounds("laplace", 1.0, 1e-6)]
    [0.8808, 0.0074]
    """
    if defence is None or epsilon is None or defence not in METHODS:
        return None, None
    return allowed(epsilon, 0.0 if METHODS[defence].pure else delta)


def allowed(epsilon: float, delta: float) -> tuple[float, float]:
    """The same for any method that holds (epsilon, delta) for one unit."""
    double = 2 * epsilon
    lost = delta * (1 + exp(min(epsilon, 50.0)))
    auc = 1 / (1 + exp(-double)) + lost
    return min(1.0, auc), min(1.0, exp(min(double, 50.0)) * FALSE_ALARMS + lost)


def _published(plan: MembershipPlan) -> list[tuple[str | None, float | None]]:
    made: list[tuple[str | None, float | None]] = [(None, None)]
    for name in plan.defences:
        epsilons = plan.epsilons if any_method(name).set_by_epsilon else plan.epsilons[:1]
        made += [(name, epsilon) for epsilon in epsilons]
    return made


def _publish(
    source: AttackSource, clock: Clock, plan: MembershipPlan, defence: str | None, epsilon: float | None
) -> Publish | None:
    if defence is None or epsilon is None:
        return None

    def publish(group: KnownVisits, run: int) -> np.ndarray:
        seed = plan.seed * 1_000_003 + run
        defender = defender_of(group, source.setting, clock, delta=plan.delta, seed=seed)
        return defender.people(defence, epsilon)

    return publish


def _classes(visits: KnownVisits, worlds: Worlds, plan: MembershipPlan) -> dict[str, np.ndarray]:
    """Places in the pool of people with few visits (lowest third) and many (highest third).

    Who has no visit in the window is in no count, whatever the world, and no target.
    """
    per_user = visits.per_user()[worlds.pool]
    order = np.argsort(per_user, kind="stable")[int((per_user == 0).sum()) :]
    third = len(order) // 3
    if third < 2:
        raise PlanError("membership-targets", "too few people have a visit in the window.", "Lengthen it.")
    spread = np.linspace(0, third - 1, min(plan.targets, third)).astype(int)  # evenly over each third
    return {"few": order[:third][spread], "many": order[-third:][spread]}


def _split(source: AttackSource, knows: str) -> tuple[KnownVisits | None, KnownVisits, Clock]:
    """Known for certain: the whole window is attacked. From the past: its second half, cut at a day."""
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
    later = replace(clock, start=datetime.fromisoformat(clock.starts_local()[cut]).replace(tzinfo=None))
    if later.slots != visits.slots - cut:
        raise PlanError("membership-past", "the window is cut where the clocks change.", "Move its start.")
    return visits.between(0, cut), visits.between(cut, visits.slots), later


def _known(past: KnownVisits | None, visits: KnownVisits, targets: np.ndarray, clock: Clock) -> csr_matrix:
    if past is None:
        return known_visits(visits, targets)
    day = max(1, 1440 // clock.slot_minutes)
    period = 7 * day if past.slots >= 7 * day else day
    return expected_visits(past, targets, slots=visits.slots, period=period)


def membership_told(result: MembershipResult) -> dict[str, Any]:
    """Figures as plain values."""
    rows = [
        {
            "counts": each.defence or "raw",
            "set_at": each.epsilon,
            "visits": each.visits,
            "visits_median": each.visits_median,
            "auc": each.roc.auc,
            "auc_at_most": each.auc_at_most,
            "tpr_at_fpr_0.001": each.roc.tpr_at(FALSE_ALARMS),
            "tpr_at_most": each.tpr_at_most,
            "scores_in": each.roc.members,
            "scores_out": each.roc.others,
        }
        for each in result.found
    ]
    return {
        "summary": summary(rows, result),
        "users": result.users,
        "group": result.group,
        "worlds": result.worlds,
        "slots": result.slots,
        "knows": result.knows,
        "rows": rows,
    }


def summary(rows: list[dict[str, Any]], result: MembershipResult) -> list[str]:
    """The outcome in words, for people with many visits, who are found most easily."""
    knows = "the visits of a person" if result.knows == "visits" else "a person's habits from the past"
    said = []
    for row in rows:
        share = row["tpr_at_fpr_0.001"]
        found = "" if share is None else f", and finds {share:.1%} of members at 0.1 % false alarms"
        counts = "raw counts" if row["counts"] == "raw" else f"counts by {row['counts']} at {row['set_at']:g}"
        said.append(
            f"With {counts} of {result.group:,} people an adversary who knows {knows} with {row['visits']} "
            f"visits tells in from out in {row['auc']:.1%} of pairs{found}."
        )
    return said


def roc_columns(result: MembershipResult) -> dict[str, list[Any]]:
    """Every point of every curve, one row each."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("counts", "set_at", "visits", "false_positive", "true_positive")
    }
    for each in result.found:
        count = len(each.roc.false_positive)
        columns["counts"] += [each.defence or "raw"] * count
        columns["set_at"] += [each.epsilon] * count
        columns["visits"] += [each.visits] * count
        columns["false_positive"] += each.roc.false_positive.tolist()
        columns["true_positive"] += each.roc.true_positive.tolist()
    return columns
