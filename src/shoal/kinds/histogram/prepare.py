"""A histogram plan with its public things opened, and what the release says of itself. No row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.engine.buckets import MOST_EVENTS
from shoal.engine.engine import Engine
from shoal.engine.trip_pieces import MOST_CELLS
from shoal.errors import PlanError
from shoal.events.trips import check_rule
from shoal.kinds.describe import (
    BASE,
    SMALL_FILES,
    Outcome,
    as_list,
    near,
    opened_source,
    reading_of,
    window_of,
)
from shoal.kinds.histogram.plan import METHODS, PAYS_FOR, HistogramPlan
from shoal.kinds.histogram.published import RECTANGLES, verdict_of
from shoal.kinds.plan import TRIP
from shoal.kinds.run import RunResult
from shoal.kinds.trips import PER_TRIP, PreparedTrips, cut_words, measured_share, rule_of
from shoal.kinds.verdict import Verdict
from shoal.privacy.ledger import Ledger
from shoal.release.histogram_files import DECIMALS, files_of
from shoal.release.staging import Needs
from shoal.space.cells import CellGrid, Rectangles, random_rectangles, read_boxes, rectangles_digest, snap
from shoal.space.places import Zones
from shoal.space.trip_setting import TripSetting


def prepare_histogram(plan: HistogramPlan, engine: Engine | None = None) -> PreparedHistogram:
    """Open everything public and set the noise; reads headers of the source, no rows."""
    source = opened_source(plan.source, engine)
    check_rule(source, plan.trip_rule)
    grid = plan.space.grid(planar=source.planar)
    setting = TripSetting(
        grid=grid,
        given=_given(plan, grid),
        each_trip=plan.unit == TRIP,
        per_unit=plan.per_unit,
        cap=plan.trips_cap,
        trips=plan.trips,
        mean_cells=plan.mean_cells,
    )
    method, zones = METHODS.named(plan.method), plan.space.read_zones(on_overlap="allow", holes="allow")
    return PreparedHistogram.of(plan, source, setting, method, zones=zones)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedHistogram(PreparedTrips):
    """A histogram plan, opened."""

    kind = "histogram"
    pays_for = PAYS_FOR
    plan: HistogramPlan
    setting: TripSetting = field(repr=False)
    zones: Zones | None = field(repr=False)

    def what(self) -> str:
        return self.line("histogram", f"{self.grid.columns} x {self.grid.rows} cells")

    def needs(self) -> Needs:
        return histogram_needs(self.grid.columns * self.grid.rows, self.setting.given.count)

    def notes(self) -> list[str]:
        plan, notes = self.plan, []
        if self.each_trip:
            notes.append(PER_TRIP)
        elif plan.trips_cap is None:
            notes.append(
                f"at most {plan.per_unit} trips per {plan.unit} are counted, and answers do not include the "
                "others; --trips-cap scales them up."
            )
        if plan.trips is not None:
            notes.append("answers are scaled to the declared number of trips and share its error.")
        notes += self._total_notes()
        if not self.mechanism.edges:
            notes.append(
                f"{plan.method} is a baseline: each trip is spread over its cells, so answers are too low "
                "where trips leave the rectangle."
            )
        return notes

    def _total_notes(self) -> list[str]:
        """Notes on the noise of the measured numbers of trips, which is common to all answers."""
        totals = getattr(self.mechanism, "totals", None)
        measured = {
            "kept trips": getattr(totals, "trips", None),
            "all trips": getattr(totals, "all_trips", None),
        }
        return [
            f"the number of {name} is measured with noise of about {adder.deviation:,.0f} trips, and all "
            "answers share its error."
            for name, adder in measured.items()
            if adder is not None
        ]

    def files(self) -> Mapping[str, Mapping[str, str]]:
        return files_of(pool=self.mechanism.pool, zones=self.zones is not None)

    def public(self) -> dict[str, Any]:
        plan, setting, zones = self.plan, self.setting, self.zones
        random = plan.given_file is None
        return {
            "kind": "histogram of trips",
            "grid": self.grid.describe(),
            **window_of(plan.clock()),
            "trip_rule": rule_of(plan.trip_rule) or "named by the source",
            "points_outside_the_box": cut_words(self.each_trip),
            "points_per_unit_cap": None if self.each_trip else MOST_EVENTS,
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
            "mechanism": self.mechanism.describe(),
            "decimals": DECIMALS,
            # of the coordinates that are published: zones.geojson is longitude and latitude
            "zones": None if zones is None else {"count": zones.count, "sha256": zones.published().digest()},
            "reading": reading_of(self.source),
        }

    def reading(self) -> str:
        grid = self.grid
        west, south, east, north = grid.box
        width, height = grid.cell_size
        points = [
            "An answer is the number of distinct trips that pass through an area: the sum of the faces of "
            "its cells minus the sum of the edges between two of them.",
            "A trip that leaves the area and re-enters may count again, and a trip with a loop may count "
            "less. Numbers may be fractions.",
            *self._bounded(),
            f"The map has {grid.columns} x {grid.rows} cells from west {west!r}, south {south!r}; a cell is "
            f"{width:.6g} wide and {height:.6g} high. A point x, y lies in column "
            f"floor((x - {west!r}) / ({east!r} - {west!r}) * {grid.columns}) and row "
            f"floor((y - {south!r}) / ({north!r} - {south!r}) * {grid.rows}).",
            "Noise was added before publication. Answers are computed from the published numbers alone, so "
            "any number of queries costs no further budget.",
        ]
        if not self.mechanism.edges:
            points.append(
                "There are no edges: each trip was spread over its cells, and a face is a sum of shares."
            )
        return f"{as_list(points)}\n\n{_SNIPPETS}"

    def _bounded(self) -> list[str]:
        plan, setting = self.plan, self.setting
        if self.each_trip:
            return ["Where a trip was cut into pieces, only the piece with most points was counted."]
        sample = f"At most {setting.per_unit} trips per {plan.unit} were kept, chosen at random"
        if setting.cap is None or setting.cap <= setting.per_unit:
            return [f"{sample}. Answers do not include the other trips."]
        return [
            f"{sample}. All numbers were scaled up to the number of all trips, which was measured with noise "
            f"of its own (at most {setting.cap} trips per {plan.unit})."
        ]

    def rows(self) -> list[tuple[str, str]]:
        plan, setting = self.plan, self.setting
        sample = (
            "one piece of every trip" if self.each_trip else f"at most {setting.per_unit} per {plan.unit}"
        )
        scaled = (
            "" if setting.cap is None else f", scaled up to all trips, at most {setting.cap} per {plan.unit}"
        )
        return [
            *self.map_rows(),
            ("kept", sample + scaled),
            ("number", "measured" if setting.trips is None else f"{setting.trips:,}, as declared"),
            ("given", f"{setting.given.count:,} rectangles"),
            self.source_row(),
        ]

    def foreseen(self, ledger: Ledger) -> dict[str, Any]:
        """The error of `boxes` per trip, their number declared: as a share of all trips."""
        plan, share = self.plan, None
        if plan.method == "boxes" and plan.trips is not None and plan.unit == TRIP:
            signal = plan.epsilon * plan.trips
            share = measured_share(RECTANGLES, signal, "of all trips, for a random rectangle")
        return {"expected_share": share}

    def verdict(self) -> Verdict:
        return verdict_of(self.plan.trips, self.setting.per_unit, self.guarantee.to_manifest())

    def outcome(self, result: RunResult) -> Outcome:
        box = f"{near(result.release)} --box WEST,SOUTH,EAST,NORTH"
        return Outcome(then=[f"Query it:  shoal histogram query {box}   (costs no budget)"])

    def key_parts(self) -> list[Any]:
        zones = self.zones and self.zones.digest()
        given = rectangles_digest(self.setting.given)
        return [*self.key_parts_of("histogram"), self.plan.per_unit, given, zones]


def histogram_needs(cells: int, rectangles: int) -> Needs:
    """Memory and disk for faces and edges with their noisy tables, and for the given rectangles."""
    return Needs(
        memory=BASE + 340 * cells + 1_000 * rectangles, disk=SMALL_FILES + 10 * cells + 100 * rectangles
    )


def _given(plan: HistogramPlan, grid: CellGrid) -> Rectangles:
    if plan.given_file is None:
        return random_rectangles(grid, plan.given, plan.given_seed)
    _, boxes = read_boxes(plan.given_file, grid.planar)
    given = snap(grid, boxes)
    given = given.take(np.flatnonzero(given.areas > 0))
    if not given.count:
        raise PlanError(
            "given-empty",
            f"no box of {plan.given_file} holds the centre of a cell of the map.",
            "Check the order of coordinates: west,south,east,north.",
        )
    return given


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
