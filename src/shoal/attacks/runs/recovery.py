"""Whole trajectories recovered from raw counts and from protected ones.

open      events -> everybody's place in every slot, gaps filled     exact, the owner's eyes only
raw       counts of those places -> trajectories -> score
defend    density methods at several epsilons, or a release          what is published
again     the same adversary on the protected counts
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shoal.attacks.models.recovery import RecoveryPlan, recover_trajectories, whole_people
from shoal.attacks.models.recovery_score import (
    MOSTLY,
    RecoveryScore,
    check_users,
    home_only,
    positions_of,
    score_recovery,
)
from shoal.attacks.models.visits import KnownVisits
from shoal.attacks.runs.defences import Defender, defender_of, released_people
from shoal.attacks.runs.source import open_attack_source
from shoal.errors import PlanError
from shoal.kinds.density.methods import METHODS, MethodOptions
from shoal.kinds.plan import DEFAULT_DELTA
from shoal.kinds.source import Progress, Silent
from shoal.space.clock import Clock

NIGHT_ENDS, DAY_BEGINS = 6.0, 4.0  # local hours: people rest until six; days are cut at four


@dataclass(frozen=True, kw_only=True)
class RecoveryAttackPlan:
    """Which counts are attacked beside the raw ones, and what is known to single people out."""

    defences: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = (1.0,)
    delta: float = DEFAULT_DELTA
    release: Path | None = None
    known_points: int = 4
    seed: int | None = None  # of the noise of defences; None: the operating system's
    adversary: RecoveryPlan = field(default_factory=RecoveryPlan)


@dataclass(frozen=True, kw_only=True, eq=False)
class Recovered:
    """The attack on one set of counts; `home_only` never lets anybody leave the place of the first night."""

    defence: str | None  # None: raw counts
    epsilon: float | None
    score: RecoveryScore = field(repr=False)
    home_only: RecoveryScore = field(repr=False)
    seconds: float

    def row(self) -> dict[str, Any]:
        """The figures, in the order of the table."""
        return {
            "users": len(self.score.match),
            "defence": self.defence,
            "set_at": self.epsilon,
            "epsilon": self.epsilon if self.defence in METHODS else None,  # others promise no user anything
            "points_recovered": self.score.points_recovered,
            "trajectories_recovered": self.score.trajectories_recovered,
            "away_recovered": self.score.away_recovered,
            "reidentified": self.score.reidentified,
            "home_only_points": self.home_only.points_recovered,
            "home_only_trajectories": self.home_only.trajectories_recovered,
            "seconds": round(self.seconds, 2),
        }


def attack_recovery(
    settings: Mapping[str, Any], plan: RecoveryAttackPlan, *, progress: Progress | None = None
) -> list[Recovered]:
    """Read the events of a density plan, attack the raw counts and everything that protects them."""
    tell = progress or Silent()
    source = open_attack_source(settings, progress=tell)
    check_users(source.visits.users)
    true = positions_of(source.visits)
    filled = visits_of_positions(true, source.visits.places)
    published = []
    if plan.release is not None:
        people = _released(plan.release, list(source.geography.zones.ids), source.clock)
        published.append(("release", None, people))
    defender = None
    if plan.defences:
        options = MethodOptions(users=filled.users, cap=max(MethodOptions.cap, source.clock.slots))
        defender = defender_of(
            filled, source.setting, source.clock, delta=plan.delta, options=options, seed=plan.seed
        )
    protected = _protected(defender, plan, tell)
    return [
        recover(true, counts, source.setting.zone_xy_m, source.clock, plan, name, epsilon, tell)
        for name, epsilon, counts in ((None, None, filled.counts()), *published, *protected)
    ]


def _released(release: Path, zone_ids: list[str], clock: Clock) -> np.ndarray:
    try:
        return released_people(release, zone_ids, clock)
    except PlanError as error:
        if error.code != "attack-release-slots":
            raise
        raise PlanError(
            error.code,
            f"the slots of the release are not the {clock.slots} of the plan, which begin at "
            f"{clock.starts_local()[0]}.",
            "Set --start, --end and --slot-minutes to those of the release: recovery needs every slot.",
        ) from None


def _protected(
    defender: Defender | None, plan: RecoveryAttackPlan, tell: Progress
) -> Iterator[tuple[str, float, np.ndarray]]:
    if defender is None:
        return
    for name in plan.defences:
        for epsilon in plan.epsilons:
            tell.stage(f"protect, {name} {epsilon:g}")
            yield name, epsilon, defender.people(name, epsilon)


def recover(
    true: np.ndarray,
    counts: np.ndarray,
    place_xy_m: np.ndarray,
    clock: Clock,
    plan: RecoveryAttackPlan,
    defence: str | None = None,
    epsilon: float | None = None,
    progress: Progress | None = None,
) -> Recovered:
    """The attack on `counts` [places, slots], scored against `true` [users, slots]."""
    tell = progress or Silent()
    words = "raw counts" if defence is None else defence
    night, day = rest_of(clock)
    start = time.perf_counter()
    tell.stage(f"recover, {words}", clock.slots)
    found = recover_trajectories(
        counts,
        place_xy_m,
        users=len(true),
        night=night,
        day_of_slot=day,
        plan=plan.adversary,
        advance=tell.advance,
    )
    seconds = time.perf_counter() - start
    tell.stage(f"score, {words}")
    first_night = int(np.argmax(clock.hours_local >= DAY_BEGINS))
    resting = home_only(whole_people(counts, len(true)), first_night)
    return Recovered(
        defence=defence,
        epsilon=epsilon,
        score=score_recovery(true, found, known_points=plan.known_points),
        home_only=score_recovery(true, resting, known_points=plan.known_points),
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
    """Everybody's place in every slot as visits."""
    users, slots = positions.shape
    return KnownVisits.of(
        np.repeat(np.arange(users), slots),
        np.tile(np.arange(slots), users),
        positions,
        users=users,
        slots=slots,
        places=places,
    )


def summary(found: list[Recovered]) -> list[str]:
    """The result in plain words."""
    said = []
    for each in found:
        score, resting = each.score, each.home_only
        counts = "raw counts" if each.defence is None else f"counts protected by {each.defence}"
        counts = "the release" if each.defence == "release" else counts
        counts += "" if each.epsilon is None else f" set at {each.epsilon:g}"
        away = "" if score.away_recovered is None else f", {score.away_recovered:.0%} of those away from home"
        said.append(
            f"From {counts}: {score.points_recovered:.0%} of all points{away}; "
            f"{score.trajectories_recovered:.0%} of trajectories right in at least {MOSTLY:.0%} of slots "
            f"(never leaving home would give {resting.points_recovered:.0%} and "
            f"{resting.trajectories_recovered:.0%}). {score.known_points} known points single out "
            f"{score.reidentified:.0%}."
        )
    return said


def per_user(found: list[Recovered]) -> dict[str, list[Any]]:
    """One row per person and set of counts; people are numbered in the order of their names."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("user", "counts", "set_at", "share_right", "share_right_home_only")
    }
    for each in found:
        users = len(each.score.share_right)
        columns["user"] += range(users)
        columns["counts"] += [each.defence or "raw"] * users
        columns["set_at"] += [each.epsilon] * users
        columns["share_right"] += each.score.share_right.tolist()
        columns["share_right_home_only"] += each.home_only.share_right.tolist()
    return columns
