"""The plan of a histogram of trips: settings given by the owner, none read from the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.errors import PlanError
from shoal.kinds.plan import MOST_PER_USER, TRIP, BoxPlan, TripPlan, sides_of
from shoal.mechanisms import methods
from shoal.mechanisms.method import Methods
from shoal.setting import rule, setting
from shoal.space.plan import ZonesPlan

if TYPE_CHECKING:
    from shoal.space.cells import CellGrid

METHODS = Methods("histogram", methods.HISTOGRAM, "methods:METHODS")
DEFAULT_METHOD = "boxes"
PAYS_FOR = {
    "trips": "the number of kept trips",
    "all_trips": "the number of all trips, to which answers are scaled up",
    "boxes": "histograms of the bounding boxes of trips; for many trips, chosen rectangles too",
    "cells": "shares of trips in cells",
    "costs": "the grouping of cells",
    "buckets": "shares of trips in groups of cells",
    "densities": "shares of trips in regions",
    "select": "the choice of rectangles to measure",
    "answers": "trips in the chosen rectangles",
}

MOST_GIVEN = 1_000_000
# settings of the plan for a simulated city; None: the default, or what the card of the city says
CITY_PLAN = {
    "population": None,
    "epsilon": 0.5,
    **dict.fromkeys(("method", "unit", "trips_per_user")),
    "trips_cap": 40,
    "out": "histogram",
    "owner": "histogram-owner",
    **dict.fromkeys(("source.paths", "space.box")),
    "space.cells": 128,
    "space.zones": "zones.geojson",
    **dict.fromkeys(("window.start", "window.end", "window.time_zone")),
}


@dataclass(frozen=True, kw_only=True)
class MapPlan(ZonesPlan, BoxPlan):
    """The public box and its cells; zones by whose names a recipient may ask."""

    cells: int | str = setting(
        256, "Cells along each side, or COLUMNSxROWS.", label="Cells a side", only="trips"
    )
    zones: str | None = setting(
        None, "Polygons by whose names a recipient may ask; written to the release.", file=True
    )

    def grid(self, *, planar: bool) -> CellGrid:
        from shoal.space.cells import CellGrid

        columns, rows = sides_of(self.cells)
        return CellGrid(box=self.placed(planar), columns=columns, rows=rows, planar=planar)


@dataclass(frozen=True, kw_only=True)
class HistogramPlan(TripPlan):
    """Distinct trips in any rectangle: how much privacy, for whom, where, when, from what, to where."""

    trips_per_user: int | None = setting(
        None, "Trips kept of a user.", (1, MOST_PER_USER), usual=10, label="Trips kept of a user"
    )
    trips_cap: int | None = setting(
        None,
        "Scale up to all trips, at most so many of a user.",
        (1, MOST_PER_USER),
        example=40,
        key=True,
        label="Trips of a user, at most",
    )
    space: MapPlan = setting(MapPlan, "The map.")
    method: str = setting(
        DEFAULT_METHOD,
        "Method of the release; docs/histograms.md compares them.",
        metavar="NAME",
        key=True,
        label="Method",
    )
    given: int = setting(16_000, "Random rectangles to serve.", (1, MOST_GIVEN))
    given_seed: int = setting(1, "Public seed of these.", (0, 2**63 - 1))
    given_file: str | None = setting(
        None, "Boxes to serve instead: CSV with west, south, east, north; public.", file=True
    )
    mean_cells: float | None = setting(
        None, "A guess at the cells of a trip; public.", above=0, below=1e9, example=20, key=True
    )

    @rule("method")
    def _check_method(self) -> None:
        METHODS.named(self.method)

    @rule("trips_cap", "trips_per_user", "unit")
    def _check_cap(self) -> None:
        if self.unit != TRIP and self.trips_cap is not None and self.trips_cap < self.per_unit:
            raise PlanError(
                "plan-range",
                f"--trips-cap must be at least --trips-per-user, {self.per_unit}; got {self.trips_cap}.",
                f"Pass --trips-cap {10 * self.per_unit}, say: trips of a user in the number of all trips.",
            )
