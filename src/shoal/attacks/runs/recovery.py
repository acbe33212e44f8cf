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
    check_users,
    home_only,
    positions_of,
    score_recovery,
)
from shoal.attacks.models.visits import KnownVisits
from shoal.attacks.runs.counts import (
    RELEASE,
    Protection,
    counts_name,
    open_attack_source,
    protected_counts,
    protection_of,
    released_people,
)
from shoal.attacks.runs.findings import Column, Findings, spread, stacked, table_of
from shoal.attacks.runs.plans import RecoveryAttackPlan
from shoal.errors import PlanError
from shoal.kinds.density.plan import MethodOptions
from shoal.kinds.run import Progress, Silent
from shoal.space.clock import Clock

NIGHT_ENDS, DAY_BEGINS = 6.0, 4.0  # local hours: people rest until six; days are cut at four
COLUMNS = (
    Column("defence", "counts", read=counts_name),
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
    f"slots right: share of slots with the right place. mostly right: share of people with at least "
    f"{MOSTLY:.0%} of their slots right. right when away: share right among slots away from a person's main "
    "place. singled out: share of people whose recovered trajectory is identified correctly by the known "
    "points. staying home: the same figures for trajectories that never leave the place of the first night; "
    "only the excess over them was recovered from the counts."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Recovered:
    """The figures of one set of counts, and the share of each person's slots that is right; under
    `home_only` no person leaves the place of the first night."""

    row: dict[str, Any]
    share_right: np.ndarray = field(repr=False)
    home_only: np.ndarray = field(repr=False)


def run(settings: Mapping[str, Any], plan: RecoveryAttackPlan, progress: Progress) -> Findings:
    """Read the events of a density plan, attack the raw counts and everything that protects them."""
    attacked = list(_attack(settings, plan, progress))
    rows = [each.row for each in attacked]
    summary = [_text(row, plan.known_points) for row in rows]
    per_user = [
        {
            "user": np.arange(row["users"]),
            "counts": row["defence"] or "raw",
            "set_at": row["set_at"],
            "share_right": each.share_right,
            "share_right_home_only": each.home_only,
        }
        for each, row in zip(attacked, rows, strict=True)
    ]
    return Findings(
        figures={"summary": summary, "rows": rows},
        summary=summary,
        tables=[table_of(COLUMNS, rows, below=LEGEND)],
        curves=stacked(per_user, text=("counts",)),
        sentence=_sentence(rows),
        chart=_chart(attacked) if plan.release is not None else {},
    )


def _text(row: Mapping[str, Any], known_points: int) -> str:
    away = "" if row["away_recovered"] is None else f", {row['away_recovered']:.0%} of those away from home"
    return (
        f"From {protection_of(row).text()}: {row['points_recovered']:.0%} of all points{away}; "
        f"{row['trajectories_recovered']:.0%} of trajectories right in at least {MOSTLY:.0%} of slots "
        f"(staying home would give {row['home_only_points']:.0%} and "
        f"{row['home_only_trajectories']:.0%}). {known_points} known points single out "
        f"{row['reidentified']:.0%}."
    )


def _sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """Raw counts, the first protected ones, and what needs no recovery."""
    raw, *protected = rows
    beside = "".join(
        f", from {protection_of(row).text()} {row['points_recovered']:.0%}" for row in protected[:1]
    )
    return (
        f"From raw counts alone, {raw['points_recovered']:.0%} of all positions of people are recovered"
        f"{beside}; leaving all people at home would give {rows[-1]['home_only_points']:.0%}."
    )


def _chart(attacked: Sequence[Recovered]) -> dict[str, Any]:
    raw, released = attacked[:2]
    series = {
        "from raw counts": raw.share_right,
        "from the release": released.share_right,
        "guessing home all day": released.home_only,
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
    recovered = recover_trajectories(
        counts, place_xy_m, users=len(true), night=night, day_of_slot=day, advance=tell.advance
    )
    seconds = time.perf_counter() - start
    tell.stage(f"score, {protection.label}")
    first_night = int(np.argmax(clock.hours_local >= DAY_BEGINS))
    resting = home_only(whole_people(counts, len(true)), first_night)
    score = score_recovery(true, recovered, known_points=known_points)
    at_home = score_recovery(true, resting, known_points=known_points)
    row = {
        "users": len(true),
        "defence": protection.method,
        "set_at": protection.set_at,
        "epsilon": protection.epsilon,
        "points_recovered": score.points_recovered,
        "trajectories_recovered": score.trajectories_recovered,
        "away_recovered": score.away_recovered,
        "reidentified": score.reidentified,
        "home_only_points": at_home.points_recovered,
        "home_only_trajectories": at_home.trajectories_recovered,
        "seconds": round(seconds, 2),
    }
    return Recovered(row=row, share_right=score.share_right, home_only=at_home.share_right)


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
