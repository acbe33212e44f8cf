"""What a release of synthetic trips says of itself, rendered from the objects that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.engine.protocol import MOST_EVENTS
from shoal.engine.trip_pieces import MOST_CELLS
from shoal.kinds.source import READING
from shoal.kinds.spends import spends_of
from shoal.kinds.synthetic.methods import PAYS_FOR
from shoal.kinds.trip_prepare import cut_words, rule_of, trip_manifest
from shoal.release.manifest import Manifest
from shoal.release.trip_files import TripColumns, files_of

if TYPE_CHECKING:
    from shoal.kinds.synthetic.prepare import PreparedSynthetic

DECIMALS = 3


def synthetic_manifest(
    prepared: PreparedSynthetic,
    trips: float | None = None,
    written: int | None = None,
    *,
    reproducible: bool = False,
) -> Manifest:
    """Guarantee, public parameters and spends, before the files are hashed; noisy totals once there are."""
    known: dict[str, float | None] = {}
    if trips is not None:
        name = "trips_with_noise" if prepared.plan.trips is None else "trips_declared"
        known = {name: round(trips, DECIMALS), "synthetic_trips": written}
    return trip_manifest(
        prepared,
        public=public_parameters(prepared),
        spends=spends_of(prepared.mechanism, PAYS_FOR),
        columns=files(prepared),
        reproducible=reproducible,
        **known,
    )


def columns_of(prepared: PreparedSynthetic) -> TripColumns:
    return TripColumns.like(prepared.source.columns, planar=prepared.grid.planar)


def files(prepared: PreparedSynthetic) -> dict[str, dict[str, str]]:
    return files_of(columns_of(prepared), prepared.plan.formats)


def public_parameters(prepared: PreparedSynthetic) -> dict[str, Any]:
    """Every parameter that shapes the output, all of them configured."""
    plan, setting = prepared.plan, prepared.setting
    clock = setting.clock
    return {
        "kind": "synthetic trips",
        "synthetic": True,
        "grid": prepared.grid.describe(),
        "step_s": setting.step_s,
        "window": {"start": clock.start.isoformat(), "end": clock.end.isoformat()},
        "time_zone": clock.time_zone,
        "trip_rule": rule_of(plan.trip_rule) or "named by the source",
        "points_outside_the_box": cut_words(prepared.each_trip),
        "points_per_unit_cap": None if prepared.each_trip else MOST_EVENTS,
        "cells_per_unit_cap": MOST_CELLS,
        "jump_m": plan.jump_m,
        "trips_per_unit": plan.per_unit,
        "trips_cap": plan.cap,
        "trips_declared": plan.trips,
        "count": plan.count,
        "method": plan.method,
        "mechanism": prepared.mechanism.describe(),
        "reading": {name: getattr(prepared.source, name) for name in READING},
    }


def how_to_read(prepared: PreparedSynthetic) -> str:
    """For the recipient, in Markdown: what a trip is here, what may be read off it, what not."""
    plan, grid, names = prepared.plan, prepared.grid, columns_of(prepared)
    width, height = grid.cell_m
    points = [
        "**No trip here was made by anyone.** All were drawn from a model of movement that noise was added "
        "to before anything was published. Every trip is a made-up user of its own.",
        f"Movement is known by cells of {width:,.0f} x {height:,.0f} m and steps of {plan.step_s:g} s. Where "
        "inside its cell a point lies is drawn: streets and addresses mean nothing.",
        f"Trips start in the window, on the clock of {plan.window.time_zone}; `{names.time}` is in UTC. A "
        "trip that starts near the end of the window may end after it.",
        *_number(prepared),
        "Shares, flows and distributions over many trips are what the model keeps. Rare places and rare ways "
        "are mostly noise: a single trip proves nothing.",
        "Any number of questions may be asked of these files: the privacy was paid for once.",
    ]
    return "\n".join(f"- {point}" for point in points) + f"\n\n{_SNIPPET}"


def _number(prepared: PreparedSynthetic) -> list[str]:
    plan = prepared.plan
    if plan.count is not None:
        return [
            f"The owner chose to write {plan.count:,} trips: their number says nothing about the real one."
        ]
    if plan.trips is not None:
        return ["There are as many trips as the owner declared there are."]
    if prepared.each_trip:
        return ["There are about as many trips as real ones: the number was bought with noise."]
    return [
        f"Their number follows the real one, which was bought with noise (a {plan.unit} enters it with at "
        f"most {plan.cap} trips)."
    ]


_SNIPPET = """With geopandas:

```python
import geopandas as gpd

points = gpd.read_parquet("trips.parquet")
```"""
