"""How many people a few known points single out, at several resolutions of space and time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.attacks.models.unicity import coarser, square_groups, unicity
from shoal.attacks.runs.counts import AttackSource, open_attack_source
from shoal.attacks.runs.findings import Column, Findings, table_of
from shoal.attacks.runs.plans import UnicityPlan
from shoal.kinds.describe import Table
from shoal.kinds.run import Progress


def run(settings: Mapping[str, Any], plan: UnicityPlan, progress: Progress) -> Findings:
    """Read the plan's events and count at every resolution."""
    source = open_attack_source(settings, progress=progress)
    rows = list(_rows(source, plan, progress))
    summary = [_text(row) for row in rows if row["points"] == max(plan.points)]
    last = rows[-1]
    share = "no share can be given" if last["share"] is None else f"{last['share']:.0%} of people are unique"
    return Findings(
        figures={"summary": summary, "users": source.visits.users, "rows": rows},
        summary=summary,
        tables=[_table(rows, source.visits.users)],
        curves={name: [row[name] for row in rows] for name in rows[0]},
        sentence=f"In the raw records, by zone and slot, {share} by {last['points']} known points. A release "
        "of counts has no records, so no person's points can be matched in it.",
        chart={
            "bars": [{"name": _points(row["points"]), "share": row["share"]} for row in rows],
            "bars_of": "people who are unique",
        },
    )


def _rows(source: AttackSource, plan: UnicityPlan, progress: Progress) -> Iterator[dict[str, Any]]:
    progress.stage("count matches", len(plan.sides_m) * len(plan.slots_merged))
    for side_m in plan.sides_m:
        groups = square_groups(source.setting.zone_xy_m, side_m) if side_m else None
        for merged in plan.slots_merged:
            visits = coarser(source.visits, place_group=groups, slots_merged=merged)
            for result in unicity(visits, plan.points, seed=plan.seed):
                yield {
                    "side_m": side_m,
                    "minutes": merged * source.clock.slot_minutes,
                    "places": visits.places,
                    "points": result.points,
                    "people": result.people,
                    "unique": result.unique,
                    "share": result.share,
                }
            progress.advance(1)


def _table(rows: Sequence[Mapping[str, Any]], users: int) -> Table:
    """One row for each resolution, one column for each number of points."""
    shown: dict[tuple, dict[str, Any]] = {}
    for row in rows:
        space = f"{row['side_m']:g} m" if row["side_m"] else "zones"
        at = shown.setdefault((space, row["minutes"]), {"space": space, "minutes": row["minutes"]})
        at[_points(row["points"])] = row["share"]
    points = [_points(count) for count in sorted({row["points"] for row in rows})]
    columns = [Column("space", "space"), Column("minutes", "minutes", "d")]
    columns += [Column(name, name, ".1%") for name in points]
    return table_of(columns, [*shown.values()], title=f"Unique among {users:,} people")


def _points(count: int) -> str:
    return f"{count} point{'s' * (count > 1)}"


def _text(row: Mapping[str, Any]) -> str:
    """One resolution, at the most points that are known."""
    where = f"squares of {row['side_m']:g} m" if row["side_m"] else "zones"
    share = "no share can be given" if row["share"] is None else f"{row['share']:.1%} are unique"
    return (
        f"By {where} and {row['minutes']} minutes, {row['points']} known point{'s' * (row['points'] > 1)}: "
        f"{share} of the {row['people']:,} people with as many points."
    )
