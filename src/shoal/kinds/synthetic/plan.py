"""The plan of synthetic trips: settings given by the owner, none read from the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.errors import PlanError
from shoal.kinds.plan import MOST_PER_USER, TRIP, Box, BoxPlan, TripPlan, sides_of
from shoal.mechanisms import methods
from shoal.mechanisms.method import Methods
from shoal.setting import rule, setting, settings_of
from shoal.space.plan import SitesPlan

if TYPE_CHECKING:
    from shoal.space.cells import CellGrid

COMMUTES = "commutes"
METHODS = Methods("synthetic", methods.SYNTHETIC, "methods:METHODS")
EVENTS = {name: each for name, each in methods.SYNTHETIC.items() if each.takes == COMMUTES}
TRIPS = Methods(
    "synthetic",
    {name: each for name, each in methods.SYNTHETIC.items() if each.takes != COMMUTES},
    "methods:METHODS",
)
DEFAULT_METHOD = "bridges"
PAYS_FOR = {
    "trips": "the number of trips",
    "tables": "moves, starts and ends, flows, lengths, stays, turns and times",
    "hours": "hours of the starts of trips",
    "starts": "cells in which trips start",
    "steps": "moves, stays and ends of trips by cell",
    "stays": "durations of stays",
    **{f"grams_{cells}": f"sequences of {cells} cells" for cells in (2, 3, 4)},
    **{f"level_{level}": f"level {level} of the trees of trips" for level in range(1, 33)},
}

SITES_PAY_FOR = {
    "users": "the number of users",
    "people": "users by class (commuter, other) and number of calls",
    "homes": "sites of homes",
    "works": "sites of work places",
    "distances": "distances of commutes",
    "flows": "commutes between regions",
    "hours": "hours of calls",
    "places": "shares of calls at home, at work and elsewhere",
    "elsewhere": "sites of calls elsewhere",
    "reach": "distances of calls elsewhere from home or work",
}

MOST_CELLS = 2**18
MOST_COUNT = 10_000_000
MOST_UNASKED = (
    2_000_000  # trips or people where their number is measured: with a small budget it can be anything
)
# settings of the plan for a simulated city; None: the default, or what the card of the city says
CITY_PLAN = {
    **dict.fromkeys(("population", "epsilon")),
    "delta": 1e-6,  # without one, much less is kept of users with many trips
    **dict.fromkeys(("method", "unit")),
    "trips_cap": 40,
    "step_s": None,
    "out": "synthetic",
    "owner": "synthetic-owner",
    **dict.fromkeys(("source.paths", "space.box", "space.cell_m")),
    **dict.fromkeys(("window.start", "window.end", "window.time_zone")),
}


@dataclass(frozen=True, kw_only=True)
class PathMapPlan(SitesPlan, BoxPlan):
    """The public box and its cells; or the public sites, where records name them."""

    cell_m: float | None = setting(
        None,
        "Largest side of a cell in metres.",
        usual=420.0,
        least=1,
        below=1e9,
        code="grid-size",
        label="Size of a cell",
        unit="m",
        only="trips",
    )
    cells: int | str | None = setting(
        None, "Cells along each side, or COLUMNSxROWS, instead of --cell-m.", only="trips"
    )
    sites: str | None = setting(
        None,
        "Sites, where records name them: CSV or Parquet with site, lon, lat, or a file of points.",
        file=True,
        last=1,
        only=COMMUTES,
    )

    @rule("cells", "cell_m")
    def _check_one_size(self) -> None:
        if self.cells is not None and self.cell_m is not None:
            raise PlanError(
                "grid-size", "cells and cell_m both state the size of a cell.", "Pass --cells or --cell-m."
            )

    def grid(self, *, planar: bool) -> CellGrid:
        """The grid over the declared box."""
        from shoal.space.cells import CellGrid

        box = self.placed(planar)
        columns, rows = sides_of(self.cells) if self.cells is not None else self._by_metres(box, planar)
        if columns * rows > MOST_CELLS:
            raise PlanError(
                "grid-size",
                f"a map of synthetic trips has at most {MOST_CELLS:,} cells; this has {columns * rows:,}.",
                "Raise --cell-m, or make --box smaller.",
            )
        return CellGrid(box=box, columns=columns, rows=rows, planar=planar)

    def _by_metres(self, box: Box, planar: bool) -> tuple[int, int]:
        """As many cells as make none wider or higher than cell_m."""
        from shoal.space.cells import CellGrid

        cell_m = self.value_of("cell_m")
        width, height = CellGrid(box=box, columns=1, rows=1, planar=planar).cell_m
        return math.ceil(width / cell_m - 1e-9), math.ceil(height / cell_m - 1e-9)


@dataclass(frozen=True, kw_only=True)
class SyntheticPlan(TripPlan):
    """Synthetic trips: how much privacy, for whom, where, when, from what, to where."""

    trips_cap: int | None = setting(
        None,
        "Trips of a user in the number of trips.",
        (1, MOST_PER_USER),
        usual=20,
        only="trips",
        label="Trips of a user, at most",
    )
    # for memory alone: a user's whole contribution is scaled, whatever it is
    trips_per_user: int | None = setting(
        None, "Trips that are read of a user.", (1, MOST_PER_USER), usual=10_000, only="trips"
    )
    space: PathMapPlan = setting(PathMapPlan, "The map.")
    step_s: float = setting(
        60.0,
        "Step of time in seconds, and the shortest stay.",
        (1, 86_400),
        code="step-range",
        label="Step of time",
        unit="s",
        only="trips",
        key=True,
    )
    count: int | None = setting(
        None,
        "Synthetic trips to write; never a count from the data.",
        (1, MOST_COUNT),
        shown="the number of trips",
        example=100_000,
        label="Synthetic trips to write",
        key=True,
    )
    method: str = setting(
        DEFAULT_METHOD,
        "Method of the release; docs/synthetic.md compares them. commute is for records that name sites.",
        label="Method",
        metavar="NAME",
        key=True,
    )
    # formats are not in the key: the same trips in another file are the same release
    formats: tuple[str, ...] = setting(
        ("parquet", "csv"),
        "Formats beside GeoParquet, which is always written; repeatable.",
        choices=("parquet", "csv", "gpx", "geojson"),
        flag="format",
        shown="csv",
        code="trip-format",
        example="csv",
    )

    @rule("method", "unit", "trip_rule", "trips_cap", "trips_per_user", "trips", "jump_m", "step_s", "space")
    def _check_method(self) -> None:
        """No setting is left unread: those of points are refused by a method of sites, and the other way."""
        commutes = METHODS.named(self.method).takes == COMMUTES
        unread = list(_given_for("trips" if commutes else COMMUTES, self))
        if unread:
            raise PlanError(
                "synthetic-options",
                f"the method {self.method} has no use for {', '.join(unread)}.",
                "Leave it out, or choose another --method: commute is for records that name sites.",
            )
        if commutes and self.unit == TRIP:
            raise PlanError("plan-unit", "commute protects users; it knows no trips.", "Pass --unit user.")

    @rule("formats", "method")
    def _order_formats(self) -> None:
        """Parquet is always written, and first."""
        if METHODS.named(self.method).takes == COMMUTES and not {*self.formats} <= {"parquet", "csv"}:
            raise PlanError("trip-format", "commute writes parquet and csv.", "Leave --format out.")
        object.__setattr__(self, "formats", tuple(dict.fromkeys(("parquet", *self.formats))))

    @property
    def cap(self) -> int:
        """Trips of one unit in the number of trips."""
        return 1 if self.unit == TRIP else self.value_of("trips_cap")


def _given_for(taken: str, plan: Any) -> Iterator[str]:
    """Names of the settings that were given and that only methods read which take `taken`."""
    for each in settings_of(type(plan)).values():
        value = getattr(plan, each.name)
        if each.setting.only == taken and value != each.default:
            yield each.name
        elif each.part and value is not None:
            yield from _given_for(taken, value)
