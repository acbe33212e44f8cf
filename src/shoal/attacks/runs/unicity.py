"""How many people a few known points single out, at several resolutions of space and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.attacks.models.unicity import Unicity, coarser, square_groups, unicity
from shoal.attacks.runs.source import AttackSource, open_attack_source
from shoal.errors import PlanError
from shoal.kinds.source import Progress, Silent

MOST_POINTS = 50


@dataclass(frozen=True, kw_only=True)
class UnicityPlan:
    """Points known, and resolutions: sides of squares in metres (0: the zones), slots merged into one."""

    points: tuple[int, ...] = (1, 2, 3, 4)
    sides_m: tuple[float, ...] = (0.0,)
    slots_merged: tuple[int, ...] = (1,)
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.points or not all(1 <= p <= MOST_POINTS for p in self.points):
            raise PlanError(
                "unicity-points", f"points must be from 1 to {MOST_POINTS}.", "Pass --points 1,2,3,4."
            )
        if not self.sides_m or min(self.sides_m) < 0:
            raise PlanError("unicity-side", "sides of squares must be 0 (the zones) or more.", "Pass 0,1000.")
        if not self.slots_merged or min(self.slots_merged) < 1:
            raise PlanError("unicity-slots", "slots merged must be 1 or more.", "Pass 1,24.")


@dataclass(frozen=True, kw_only=True)
class UnicityAt:
    """Unicity at one resolution."""

    side_m: float  # 0: the zones themselves
    slots_merged: int
    minutes: int  # of a merged slot
    places: int
    found: tuple[Unicity, ...]


def attack_unicity(
    settings: Mapping[str, Any], plan: UnicityPlan, progress: Progress | None = None
) -> tuple[AttackSource, list[UnicityAt]]:
    """Read the plan's events and count at every resolution."""
    tell = progress or Silent()
    source = open_attack_source(settings, progress=tell)
    tell.stage("count matches", len(plan.sides_m) * len(plan.slots_merged))
    found = []
    for side_m in plan.sides_m:
        groups = square_groups(source.setting.zone_xy_m, side_m) if side_m else None
        for merged in plan.slots_merged:
            visits = coarser(source.visits, place_group=groups, slots_merged=merged)
            found.append(
                UnicityAt(
                    side_m=side_m,
                    slots_merged=merged,
                    minutes=merged * source.clock.slot_minutes,
                    places=visits.places,
                    found=tuple(unicity(visits, plan.points, seed=plan.seed)),
                )
            )
            tell.advance(1)
    return source, found


def unicity_told(source: AttackSource, found: list[UnicityAt]) -> dict[str, Any]:
    """Figures as plain values, and in words."""
    rows = [
        {
            "side_m": at.side_m,
            "minutes": at.minutes,
            "places": at.places,
            "points": each.points,
            "people": each.people,
            "unique": each.unique,
            "share": each.share,
        }
        for at in found
        for each in at.found
    ]
    return {"summary": _summary(rows), "users": source.visits.users, "rows": rows}


def _summary(rows: list[dict[str, Any]]) -> list[str]:
    """One line for the most points at each resolution."""
    most = max(row["points"] for row in rows)
    said = []
    for row in rows:
        if row["points"] == most:
            where = "zones" if not row["side_m"] else f"squares of {row['side_m']:g} m"
            share = "no share can be given" if row["share"] is None else f"{row['share']:.1%} are unique"
            s = "s" if most > 1 else ""
            said.append(
                f"By {where} and {row['minutes']} minutes, {most} known point{s}: {share} of the "
                f"{row['people']:,} people with as many points."
            )
    return said
