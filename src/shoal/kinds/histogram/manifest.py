"""What a histogram release says of itself, rendered from the objects that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.engine.protocol import MOST_EVENTS
from shoal.engine.trip_pieces import MOST_CELLS
from shoal.kinds.histogram.methods import PAYS_FOR
from shoal.kinds.source import READING
from shoal.kinds.spends import spends_of
from shoal.kinds.trip_prepare import cut_words, rule_of, trip_manifest
from shoal.release.histogram_files import DECIMALS, files_of
from shoal.release.manifest import Manifest
from shoal.space.rectangles import rectangles_digest
from shoal.stages.noisy import NoisyHistogram

if TYPE_CHECKING:
    from shoal.kinds.histogram.prepare import PreparedHistogram


def histogram_manifest(
    prepared: PreparedHistogram, noisy: NoisyHistogram | None = None, *, reproducible: bool = False
) -> Manifest:
    """Guarantee, public parameters and spends, before the files are hashed; noisy totals once there are."""
    known: dict[str, float] = {}
    if noisy is not None:
        setting = prepared.setting
        scaled = setting.cap is not None and setting.cap > setting.per_unit
        name = "trips_with_noise" if setting.trips is None or scaled else "trips_declared"
        known[name] = round(noisy.trips * noisy.scale, DECIMALS)
    return trip_manifest(
        prepared,
        public=public_parameters(prepared),
        spends=spends_of(prepared.mechanism, PAYS_FOR),
        columns=files(prepared),
        reproducible=reproducible,
        **known,
    )


def files(prepared: PreparedHistogram) -> dict[str, dict[str, str]]:
    return files_of(pool=prepared.mechanism.pool, zones=prepared.zones is not None)


def public_parameters(prepared: PreparedHistogram) -> dict[str, Any]:
    """Every parameter that shapes the output, all of them configured."""
    plan, setting, zones = prepared.plan, prepared.setting, prepared.zones
    clock = plan.clock()
    random = plan.given_file is None
    return {
        "kind": "histogram of trips",
        "grid": prepared.grid.describe(),
        "window": {"start": clock.start.isoformat(), "end": clock.end.isoformat()},
        "time_zone": clock.time_zone,
        "trip_rule": rule_of(plan.trip_rule) or "named by the source",
        "points_outside_the_box": cut_words(prepared.each_trip),
        "points_per_unit_cap": None if prepared.each_trip else MOST_EVENTS,
        "cells_per_unit_cap": MOST_CELLS,
        "jump_m": plan.jump_m,
        "trips_per_unit": setting.per_unit,
        "trips_cap": setting.cap,
        "trips_declared": setting.trips,
        "mean_cells": setting.expected_cells,
        "given": {
            "rectangles": setting.given.count,
            "from": "random" if random else "a file of the owner",
            "seed": plan.given_seed if random else None,
            "sha256": rectangles_digest(setting.given),
        },
        "method": plan.method,
        "mechanism": prepared.mechanism.describe(),
        "decimals": DECIMALS,
        # of the coordinates that are published: zones.geojson is longitude and latitude
        "zones": None if zones is None else {"count": zones.count, "sha256": zones.published().digest()},
        "reading": {name: getattr(prepared.source, name) for name in READING},
    }


def how_to_read(prepared: PreparedHistogram) -> str:
    """For the recipient, in Markdown: what a number is, how a rectangle is answered, what goes wrong."""
    grid = prepared.grid
    west, south, east, north = grid.box
    width, height = grid.cell_size
    points = [
        "An answer is the number of trips that were in an area at some time, each once: the sum of the faces "
        "of its cells minus the sum of the edges between two of them.",
        "A trip that leaves the area and comes back may count again, one that goes round in circles may "
        "count less; numbers may be fractions.",
        *_bounded(prepared),
        f"The map has {grid.columns} x {grid.rows} cells from west {west!r}, south {south!r}; a cell is "
        f"{width:.6g} wide and {height:.6g} high. A point x, y lies in column "
        f"floor((x - {west!r}) / ({east!r} - {west!r}) * {grid.columns}) and row "
        f"floor((y - {south!r}) / ({north!r} - {south!r}) * {grid.rows}).",
        "Noise was added before anything was published. All answers come from the published numbers, so "
        "asking is free and one person can ask any number of times.",
    ]
    if not prepared.mechanism.edges:
        points.append("There are no edges: a trip was shared over its cells, and a face is a sum of shares.")
    return "\n".join(f"- {point}" for point in points) + f"\n\n{_SNIPPETS}"


def _bounded(prepared: PreparedHistogram) -> list[str]:
    plan, setting = prepared.plan, prepared.setting
    if prepared.each_trip:
        return ["Of every trip one piece was counted: the one with most points, where it was cut."]
    kept = f"Of each {plan.unit} at most {setting.per_unit} trips were kept, chosen at random"
    if setting.cap is None or setting.cap <= setting.per_unit:
        return [f"{kept}, so answers may be low by what that leaves out."]
    return [
        f"{kept}, and all numbers were scaled up to the number of all trips, which was bought with noise "
        f"of its own (a {plan.unit} enters it with at most {setting.cap})."
    ]


_SNIPPETS = """Trips in columns 10 to 19 and rows 30 to 44, with pandas:

```python
import pandas as pd

h = pd.read_parquet("histogram.parquet")
inside = h[h.column.between(10, 19 - (h.kind == "east")) & h.row.between(30, 44 - (h.kind == "north"))]
print(inside.trips.where(inside.kind == "face", -inside.trips).sum())
```

and with DuckDB:

```sql
SELECT sum(CASE kind WHEN 'face' THEN trips ELSE -trips END) FROM 'histogram.parquet'
WHERE "column" BETWEEN 10 AND 19 - (kind = 'east')::INT
  AND "row" BETWEEN 30 AND 44 - (kind = 'north')::INT
```"""
