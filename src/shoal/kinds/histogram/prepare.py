"""A histogram plan with its public things opened: source, grid, rectangles, noise, price. No row is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.engine.protocol import Engine
from shoal.errors import PlanError
from shoal.events.schema import EventSource
from shoal.events.trip_reader import check_rule
from shoal.kinds.histogram.methods import HistogramMechanism, Method, histogram_method
from shoal.kinds.histogram.plan import HistogramPlan
from shoal.kinds.needs import histogram_needs
from shoal.kinds.source import opened_source, unit_of
from shoal.kinds.spends import check_spends
from shoal.kinds.trip_plan import TRIP
from shoal.kinds.trip_prepare import PreparedTrips, window_us
from shoal.privacy.guarantee import Guarantee
from shoal.release.resources import Needs
from shoal.space.cells import CellGrid
from shoal.space.rectangles import Rectangles, random_rectangles, read_boxes, rectangles_digest, snap
from shoal.space.trip_setting import TripSetting
from shoal.space.zones import Zones

ASKED = (
    *("population", "epsilon", "delta", "method", "unit", "trips_cap", "trips", "jump_m", "mean_cells"),
    "run_id",
)


def prepare_histogram(plan: HistogramPlan, engine: Engine | None = None) -> PreparedHistogram:
    """Open everything public and set the noise; reads headers of the source, no rows."""
    window = window_us(plan.clock())
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
    method, budget = histogram_method(plan.method), plan.budget()
    mechanism = method.build(budget, setting)
    check_spends(mechanism, budget)  # pyright: ignore[reportArgumentType]
    unit = unit_of(plan.unit, plan.source, source)
    return PreparedHistogram(
        plan=plan,
        source=source,
        setting=setting,
        window_us=window,
        zones=plan.space.read_zones(),
        method=method,
        mechanism=mechanism,
        guarantee=Guarantee(epsilon=plan.epsilon, delta=plan.delta or 0.0, loss=mechanism.loss(), unit=unit),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedHistogram(PreparedTrips):
    """A plan with its public things opened. Nothing here depends on a row of the source."""

    plan: HistogramPlan
    source: EventSource
    setting: TripSetting = field(repr=False)
    window_us: tuple[int, int]
    zones: Zones | None = field(repr=False)
    method: Method
    mechanism: HistogramMechanism
    guarantee: Guarantee

    @property
    def grid(self) -> CellGrid:
        return self.setting.grid

    def what(self) -> str:
        """The release in a line, for the ledger."""
        return self.line("histogram", f"{self.grid.columns} x {self.grid.rows} cells")

    def needs(self) -> Needs:
        """Memory and disk, from the cells of the map and the rectangles that are served."""
        return histogram_needs(self.grid.columns * self.grid.rows, self.setting.given.count)

    def notes(self) -> list[str]:
        """What the owner should know of the settings before the run; none of it stops it."""
        plan, notes = self.plan, []
        if self.each_trip:
            notes.append("the promise is per trip: who made many trips is not protected as a person.")
        elif plan.trips_cap is None:
            notes.append(
                f"at most {plan.per_unit} trips of a {plan.unit} are counted, and answers may be low by the "
                "rest; --trips-cap scales them up."
            )
        if plan.trips is not None:
            notes.append("answers are scaled to the declared number of trips: a wrong one makes them wrong.")
        notes += self._total_notes()
        if not self.mechanism.edges:
            notes.append(
                f"{plan.method} is a baseline: a trip is shared over its cells, so answers are low where "
                "trips leave the rectangle."
            )
        return notes

    def _total_notes(self) -> list[str]:
        """How much noise the bought numbers have, which every answer is scaled by."""
        totals = getattr(self.mechanism, "totals", None)
        bought = {
            "kept trips": getattr(totals, "trips", None),
            "all trips": getattr(totals, "all_trips", None),
        }
        return [
            f"the number of {name} is bought with noise of about {adder.deviation:,.0f} trips, and all "
            "answers share its error."
            for name, adder in bought.items()
            if adder is not None
        ]

    def asked(self) -> tuple[Any, ...]:
        zones = self.zones and self.zones.digest()
        return "histogram", ASKED, self.plan.per_unit, rectangles_digest(self.setting.given), zones


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
