"""Whole trajectories recovered from raw counts and from protected ones.

open      events -> everybody's place in every slot, gaps filled     exact, the owner's eyes only
raw       counts of those places -> trajectories -> score
defend    density methods at several epsilons, or a release          what is published
again     the same adversary on the protected counts
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.attacks.models.recovery import recover_trajectories, whole_people
from shoal.attacks.models.recovery_score import (
    MOSTLY,
    RecoveryScore,
    check_users,
    home_only,
    positions_of,
    score_recovery,
)
from shoal.attacks.models.visits import KnownVisits
from shoal.attacks.runs.counts import (
    RELEASE,
    Protection,
    open_attack_source,
    protected_counts,
    released_people,
)
from shoal.attacks.runs.findings import Column, Findings, spread, stacked, table_of
from shoal.attacks.runs.plans import RecoveryAttackPlan
from shoal.errors import PlanError
from shoal.kinds.density.methods import MethodOptions
from shoal.kinds.source import Progress, Silent
from shoal.space.clock import Clock

NIGHT_ENDS, DAY_BEGINS = 6.0, 4.0  # local hours: people rest until six; days are cut at four
COLUMNS = (
    Column("defence", "counts"),
    Column("set_at", "set at", "g"),
    Column("points_recovered", "slots\nright", ".1%"),
    Column("trajectories_recovered", "mostly\nright", ".1%"),
    Column("away_recovered", "right when\naway", ".1%"),
    Column("reidentified", "singled\nout", ".1%"),
    Column("home_only_points", "slots right,\nstaying home", ".1%"),
    Column("home_only_trajectories", "mostly right,\nstaying home", ".1%"),
    Column("seconds", "seconds", ".1f"),
)
LEGEND = (
    f"slots right: slots with the right place. mostly right: people with at least {MOSTLY:.0%} of their "
    "slots right. when away: right slots of those away from a person's main place. singled out: people whom "
    "the known points single out correctly. staying home: the same figures if no person ever left the place "
    "of the first night; only what lies above them was recovered from the counts."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Recovered:
    """The attack on one set of counts; under `home_only` no person leaves the place of the first night."""

    protection: Protection
    score: RecoveryScore = field(repr=False)
    home_only: RecoveryScore = field(repr=False)
    seconds: float

    def row(self) -> dict[str, Any]:
        return {
            "users": len(self.score.match),
            "defence": self.protection.method,
            "set_at": self.protection.set_at,
            "epsilon": self.protection.epsilon,
            "points_recovered": self.score.points_recovered,
            "trajectories_recovered": self.score.trajectories_recovered,
            "away_recovered": self.score.away_recovered,
            "reidentified": self.score.reidentified,
            "home_only_points": self.home_only.points_recovered,
            "home_only_trajectories": self.home_only.trajectories_recovered,
            "seconds": round(self.seconds, 2),
        }

    def text(self) -> str:
        score, resting = self.score, self.home_only
        away = "" if score.away_recovered is None else f", {score.away_recovered:.0%} of those away from home"
        return (
            f"From {self.protection.text()}: {score.points_recovered:.0%} of all points{away}; "
            f"{score.trajectories_recovered:.0%} of trajectories right in at least {MOSTLY:.0%} of slots "
            f"(staying home would give {resting.points_recovered:.0%} and "
            f"{resting.trajectories_recovered:.0%}). {score.known_points} known points single out "
            f"{score.reidentified:.0%}."
        )


def run(settings: Mapping[str, Any], plan: RecoveryAttackPlan, progress: Progress) -> Findings:
    """Read the events of a density plan, attack the raw counts and everything that protects them."""
    found = list(_attack(settings, plan, progress))
    rows = [each.row() for each in found]
    summary = [each.text() for each in found]
    per_user = [
        {
            "user": np.arange(len(each.score.match)),
            "counts": each.protection.method or "raw",
            "set_at": each.protection.set_at,
            "share_right": each.score.share_right,
            "share_right_home_only": each.home_only.share_right,
        }
        for each in found
    ]
    shown = [{**each.row(), "defence": each.protection.name} for each in found]
    return Findings(
        figures={"summary": summary, "rows": rows},
        summary=summary,
        tables=[table_of(COLUMNS, shown, below=LEGEND)],
        curves=stacked(per_user, text=("counts",)),
        sentence=_sentence(found),
        chart=_chart(found) if plan.release is not None else {},
    )


def _sentence(found: Sequence[Recovered]) -> str:
    """Raw counts, the first protected ones, and what needs no recovery."""
    raw, *protected = found
    beside = "".join(
        f", from {each.protection.text()} {each.score.points_recovered:.0%}" for each in protected[:1]
    )
    at_home = found[-1].home_only.points_recovered
    return (
        f"From raw counts alone, {raw.score.points_recovered:.0%} of all positions of people are recovered"
        f"{beside}; leaving all people at home would give {at_home:.0%}."
    )


def _chart(found: Sequence[Recovered]) -> dict[str, Any]:
    raw, released = found[:2]
    series = {
        "from raw counts": raw.score.share_right,
        "from the release": released.score.share_right,
        "guessing home all day": released.home_only.share_right,
    }
    return {"spread": spread(series, "share of a person's positions that were recovered")}


def _attack(settings: Mapping[str, Any], plan: RecoveryAttackPlan, tell: Progress) -> Iterator[Recovered]:
    source = open_attack_source(settings, progress=tell)
    check_users(source.visits.users)
    clock, true = source.clock, positions_of(source.visits)
    filled = visits_of_positions(true, source.visits.places)
    attacked = [(Protection(), filled.counts())]
    if plan.release is not None:
        released = _released(plan, list(source.geography.zones.ids), clock)
        attacked.append((Protection(RELEASE), released))
    options = MethodOptions(users=filled.users, cap=max(MethodOptions.cap, clock.slots))
    protected = protected_counts(filled, source.setting, clock, plan, options=options, progress=tell)
    for protection, counts in (*attacked, *protected):
        yield recover(true, source.setting.zone_xy_m, clock, protection, counts, plan.known_points, tell)


def _released(plan: RecoveryAttackPlan, zone_ids: list[str], clock: Clock) -> np.ndarray:
    assert plan.release is not None
    try:
        return released_people(plan.release, zone_ids, clock)
    except PlanError as error:
        if error.code != "attack-release-slots":
            raise
        raise PlanError(
            error.code,
            f"the slots of the release are not the {clock.slots} of the plan, which begin at "
            f"{clock.starts_local()[0]}.",
            "Set --start, --end and --slot-minutes to those of the release: recovery needs every slot.",
        ) from None


def recover(
    true: np.ndarray,
    place_xy_m: np.ndarray,
    clock: Clock,
    protection: Protection,
    counts: np.ndarray,
    known_points: int = 4,
    progress: Progress | None = None,
) -> Recovered:
    """The attack on counts [places, slots], scored against `true` [users, slots]."""
    tell = progress or Silent()
    night, day = rest_of(clock)
    start = time.perf_counter()
    tell.stage(f"recover, {protection.label}", clock.slots)
    found = recover_trajectories(
        counts, place_xy_m, users=len(true), night=night, day_of_slot=day, advance=tell.advance
    )
    seconds = time.perf_counter() - start
    tell.stage(f"score, {protection.label}")
    first_night = int(np.argmax(clock.hours_local >= DAY_BEGINS))
    resting = home_only(whole_people(counts, len(true)), first_night)
    return Recovered(
        protection=protection,
        score=score_recovery(true, found, known_points=known_points),
        home_only=score_recovery(true, resting, known_points=known_points),
        seconds=seconds,
    )


def rest_of(clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    """Which slots are night, bool [slots]; and which day each belongs to, cut at four in the morning."""
    if clock.slot_minutes > 360:
        raise PlanError(
            "recovery-slots",
            f"slots of {clock.slot_minutes} minutes hide every move; at most 360 are attacked.",
            "Use --slot-minutes 30 or 60.",
        )
    hours = clock.hours_local
    return hours < NIGHT_ENDS, np.maximum(clock.day_of_slot - (hours < DAY_BEGINS), 0)


def visits_of_positions(positions: np.ndarray, places: int) -> KnownVisits:
    """The place of every user in every slot as visits."""
    users, slots = positions.shape
    return KnownVisits.of(
        np.repeat(np.arange(users), slots),
        np.tile(np.arange(slots), users),
        positions,
        users=users,
        slots=slots,
        places=places,
    )
