"""A plan of synthetic trips with its public things opened, and what the release says. No row is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.engine.buckets import MOST_EVENTS
from shoal.engine.engine import Engine
from shoal.engine.trip_pieces import MOST_CELLS
from shoal.errors import PlanError
from shoal.events.schema import EventSource
from shoal.events.trips import check_rule
from shoal.kinds.commute.prepare import PreparedCommute, prepare_commute
from shoal.kinds.describe import BASE, SMALL_FILES, Outcome, as_list, opened_source, reading_of, window_of
from shoal.kinds.owner import utility_file
from shoal.kinds.plan import TRIP
from shoal.kinds.run import RunResult
from shoal.kinds.synthetic.plan import COMMUTES, METHODS, MOST_UNASKED, PAYS_FOR, SyntheticPlan
from shoal.kinds.synthetic.published import RANGES, verdict_of
from shoal.kinds.trips import PER_TRIP, PreparedTrips, cut_words, measured_share, read_it, rule_of
from shoal.kinds.verdict import Verdict
from shoal.privacy.ledger import Ledger
from shoal.release.staging import Needs
from shoal.release.trip_files import GLOBE_ONLY, TripColumns, files_of
from shoal.space.trip_setting import PathSetting

FEWEST_TRIPS = 1_000  # written at most where the number of trips is lost in its noise


def prepare_synthetic(
    plan: SyntheticPlan, engine: Engine | None = None
) -> PreparedSynthetic | PreparedCommute:
    """Open everything public and set the noise; reads headers of the source, no rows."""
    source = opened_source(plan.source, engine)
    if METHODS.named(plan.method).takes == COMMUTES:
        return prepare_commute(plan, source)
    return _prepare_points(plan, source)


def _prepare_points(plan: SyntheticPlan, source: EventSource) -> PreparedSynthetic:
    if source.shape.has_sites:
        raise PlanError(
            "trips-need-points",
            f'the method {plan.method} reads points; the shape of this source is "{source.shape}".',
            "Pass --method commute and --sites FILE, or use a source with lon, lat or x, y.",
        )
    check_rule(source, plan.trip_rule)
    _check_planar_formats(plan, source)
    setting = PathSetting(
        grid=plan.space.grid(planar=source.planar),
        step_s=plan.step_s,
        clock=plan.clock(),
        each_trip=plan.unit == TRIP,
        cap=plan.cap,
        trips=plan.trips,
    )
    return PreparedSynthetic.of(plan, source, setting, METHODS.named(plan.method))


def _check_planar_formats(plan: SyntheticPlan, source: EventSource) -> None:
    refused = [each for each in plan.formats if each in GLOBE_ONLY]
    if source.planar and refused:
        raise PlanError(
            "trip-format",
            f"{' and '.join(refused)} hold longitudes and latitudes; this source has x, y.",
            "Leave them out of --format, or name columns with longitudes and latitudes.",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSynthetic(PreparedTrips):
    """A plan of synthetic trips, opened."""

    kind = "synthetic"
    pays_for = PAYS_FOR
    plan: SyntheticPlan
    setting: PathSetting = field(repr=False)

    def what(self) -> str:
        return self.line("synthetic trips", f"{self.grid.columns} x {self.grid.rows} cells")

    def needs(self) -> Needs:
        return synthetic_needs(
            self.grid.columns * self.grid.rows, self.plan.count or self.plan.trips or MOST_UNASKED
        )

    def notes(self) -> list[str]:
        plan, notes = self.plan, []
        if self.each_trip:
            notes.append(PER_TRIP)
        elif plan.delta is None:
            notes.append(
                f"without a delta, the contribution of a {plan.unit} to a table is scaled to L1 norm 1; with "
                f"--delta 1e-6, to L2 norm 1, which keeps far more of {plan.unit}s with many trips."
            )
        if plan.trips is not None and plan.count is None:
            notes.append("as many synthetic trips are written as were declared with --trips.")
        if plan.trips is None:
            notes += self._number_notes()
        if self.method.baseline:
            notes.append(f"{plan.method} is a baseline for comparison; bridges is the default.")
        return notes

    def _number_notes(self) -> list[str]:
        """A note on the noise of the measured number of trips."""
        measured = getattr(getattr(self.mechanism, "totals", None), "trips", None)
        if measured is None:
            return []
        most = "" if self.each_trip else f", counting at most {self.plan.cap} per {self.plan.unit}"
        ways = [
            *(["--count writes another number of trips"] if self.plan.count is None else []),
            *([] if self.each_trip else ["a lower --trips-cap has less noise"]),
            "--trips declares a public number",
        ]
        return [
            f"the number of trips is measured with noise of about {measured.deviation:,.0f} trips{most}. "
            f"{'; '.join(ways)}."
        ]

    @property
    def least_trips(self) -> int:
        """Least number of trips to write, where the measured number is below its noise."""
        measured = getattr(getattr(self.mechanism, "totals", None), "trips", None)
        return 1 if measured is None else max(1, min(round(measured.deviation), FEWEST_TRIPS))

    @property
    def columns(self) -> TripColumns:
        """Columns of the published points, named like those of the source."""
        return TripColumns.like(self.source.columns, planar=self.grid.planar)

    def files(self) -> Mapping[str, Mapping[str, str]]:
        return files_of(self.columns, self.plan.formats)

    def public(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "kind": "synthetic trips",
            "synthetic": True,
            "grid": self.grid.describe(),
            "step_s": self.setting.step_s,
            **window_of(self.setting.clock),
            "trip_rule": rule_of(plan.trip_rule) or "named by the source",
            "points_outside_the_box": cut_words(self.each_trip),
            "points_per_unit_cap": None if self.each_trip else MOST_EVENTS,
            "cells_per_unit_cap": MOST_CELLS,
            "jump_m": plan.jump_m,
            "trips_per_unit": plan.per_unit,
            "trips_cap": plan.cap,
            "trips_declared": plan.trips,
            "count": plan.count,
            "method": plan.method,
            "mechanism": self.mechanism.describe(),
            "reading": reading_of(self.source),
        }

    def reading(self) -> str:
        plan, grid, names = self.plan, self.grid, self.columns
        width, height = grid.cell_m
        points = [
            "**No trip here was made by a real person.** All trips were drawn from a model of movement whose "
            "measurements have noise. Every trip has a synthetic user of its own.",
            f"The model has cells of {width:,.0f} x {height:,.0f} m and steps of {plan.step_s:g} s. The "
            "position of a point inside its cell is random, so streets and addresses have no meaning.",
            f"Trips start in the window, on the clock of {plan.window.time_zone}; `{names.time}` is in "
            "UTC. A trip that starts near the end of the window may end after it.",
            *self._number(),
            "The model preserves shares, flows and distributions over many trips. Rare places and rare "
            "paths are mostly noise: a single trip is no evidence that anybody made it.",
            "Any number of queries on these files costs no further budget.",
        ]
        return f"{as_list(points)}\n\n{_SNIPPET}"

    def _number(self) -> list[str]:
        plan = self.plan
        if plan.count is not None:
            return [
                f"The owner chose to write {plan.count:,} trips: this number is independent of the number of "
                "real trips."
            ]
        if plan.trips is not None:
            return ["Their number is the one that the owner declared."]
        if self.each_trip:
            return ["Their number is that of the real trips, measured with noise."]
        return [
            f"Their number is that of the real trips, measured with noise (at most {plan.cap} trips per "
            f"{plan.unit})."
        ]

    def rows(self) -> list[tuple[str, str]]:
        plan = self.plan
        scaled = f"all trips of a {plan.unit}, scaled to norm 1 per table; at most {plan.per_unit:,} are read"
        measured = "measured" if self.each_trip else f"measured, at most {plan.cap} per {plan.unit}"
        return [
            *self.map_rows(),
            ("step", f"{plan.step_s:g} s"),
            ("kept", "one piece of every trip" if self.each_trip else scaled),
            ("number", measured if plan.trips is None else f"{plan.trips:,}, as declared"),
            ("written", "the number above" if plan.count is None else f"{plan.count:,} synthetic trips"),
            ("formats", ", ".join(plan.formats)),
            self.source_row(),
        ]

    def foreseen(self, ledger: Ledger) -> dict[str, Any]:
        """The relative error of `bridges` per trip and pure, their number declared."""
        plan, share = self.plan, None
        if plan.method == "bridges" and plan.trips is not None and self.each_trip and plan.delta is None:
            signal = plan.epsilon * plan.trips
            share = measured_share(RANGES, signal, "of the trips that cross a random rectangle")
        return {"expected_share": share}

    def verdict(self) -> Verdict:
        return verdict_of(self.plan.trips, self.plan.cap, self.guarantee.to_manifest())

    def outcome(self, result: RunResult) -> Outcome:
        input_ = json.loads((result.release / "manifest.json").read_text("utf-8"))["input"]
        done = "stored" if result.reused else "written"
        missing = [each for each in self.plan.formats if not (result.release / f"trips.{each}").exists()]
        then = [read_it(result)]
        if result.reused and missing:
            then.append(f"It was released without {', '.join(missing)}: trips.parquet has the same trips.")
        lines = [f"{done:<9}{input_['synthetic_trips']:,} synthetic trips", *_slow(result)]
        return Outcome(lines=lines, then=then)

    def key_parts(self) -> list[Any]:
        return [*self.key_parts_of("synthetic"), self.plan.per_unit, self.plan.cap]


def synthetic_needs(cells: int, trips: int) -> Needs:
    """Memory and disk for the model's tables over the cells of the map, and for the drawn trips."""
    return Needs(memory=BASE + 1_000 * cells + 2_500 * trips, disk=SMALL_FILES + 2_500 * trips)


def _slow(result: RunResult) -> list[str]:
    """A note where the step is shorter than most intervals between points of the source."""
    figures = None if result.report is None else utility_file(result.report)
    known = json.loads(figures.read_text("utf-8")) if figures and figures.exists() else {}
    share = known.get("steps_longer_than_step_s_share")
    if share is None or share <= 0.5:
        return []
    return [
        f"note     {share:.0%} of the intervals between two points are longer than --step-s: short stays "
        "cannot be observed, and a longer step would fit better   (owner's eyes only)"
    ]


_SNIPPET = """With geopandas:

```python
import geopandas as gpd

points = gpd.read_parquet("trips.parquet")
```"""
