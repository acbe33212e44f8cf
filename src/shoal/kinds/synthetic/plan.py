"""The plan of synthetic trips: all that shapes them, given by the owner, none of it read off the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.errors import PlanError
from shoal.events.schema import SourcePlan, TripRule
from shoal.kinds.plan import StretchPlan, check_common, check_whole
from shoal.kinds.synthetic.methods import COMMUTES, DEFAULT_METHOD, METHODS
from shoal.kinds.trip_plan import (
    MOST_PER_USER,
    TRIP,
    TripPlan,
    check_above_0,
    check_planar,
    check_price,
    check_trips,
    check_unit,
    four_numbers,
    parts_from,
    sides_of,
)
from shoal.release.trip_files import FORMATS
from shoal.space.cells import CellGrid
from shoal.space.sites import Sites, named_sites

CELL_M = 420.0
STEP_S = 60.0
TRIPS_PER_USER = 10_000  # for memory alone: a user's whole contribution is scaled, whatever it is
TRIPS_CAP = 20
MOST_CELLS = 2**18
MOST_COUNT = 10_000_000
MOST_UNASKED = (
    2_000_000  # trips or people where their number is measured: with a small budget it can be anything
)
# the plan for a simulated city; `shoal simulate` fills in what its card says
CITY_PLAN = """# Synthetic trips of this simulated city: shoal synthesize run --plan synthetic.toml
population = "{population}"
epsilon = 1.0
delta = 1e-6            # without one, much less is kept of users with many trips
method = "{method}"
unit = "user"           # or "trip": then who makes many trips is not protected as a person
trips_cap = 40          # of each user in the number of trips
step_s = 60             # of time, in seconds
out = "synthetic"
owner = "synthetic-owner"

[source]
paths = ["{paths}"]

[space]
box = {box}  # west, south, east, north
cell_m = 420

[window]
start = "{start}"
end = "{end}"
time_zone = "{time_zone}"
"""


@dataclass(frozen=True, kw_only=True)
class PathMapPlan:
    """The public box and its cells; or the public sites, where records name them."""

    box: tuple[float, float, float, float] | None = None  # west, south, east, north
    cells: int | str | None = None  # a side, or "COLUMNSxROWS"; None: by cell_m
    cell_m: float | None = None  # None: CELL_M, unless cells are given
    planar: bool | None = None  # x, y in metres; None: as the source
    sites: str | None = None
    site_id: str | None = None
    site_lon: str | None = None
    site_lat: str | None = None
    sites_crs: str | None = None

    def read_sites(self) -> Sites:
        """The list of sites, for records that name them."""
        if self.sites is None:
            raise PlanError(
                "plan-sites",
                "the records name sites, so the list of sites with coordinates must be given.",
                "Pass --sites FILE (columns site, lon, lat); it is public and never read off the records.",
            )
        said = {name: getattr(self, name) for name in ("site_id", "site_lon", "site_lat", "sites_crs")}
        return named_sites(self.sites, **said)

    def grid(self, *, planar: bool) -> CellGrid:
        """The grid; its box is said, never found."""
        box = four_numbers(self.box)
        check_planar(self.planar, planar)
        if self.cells is not None and self.cell_m is not None:
            raise PlanError(
                "grid-size", "cells and cell_m both say the size of a cell.", "Pass --cells or --cell-m."
            )
        columns, rows = sides_of(self.cells) if self.cells is not None else self._by_metres(box, planar)
        if columns * rows > MOST_CELLS:
            raise PlanError(
                "grid-size",
                f"a map of synthetic trips has at most {MOST_CELLS:,} cells; this has {columns * rows:,}.",
                "Raise --cell-m, or make --box smaller.",
            )
        return CellGrid(box=box, columns=columns, rows=rows, planar=planar)

    def _by_metres(self, box: tuple[float, float, float, float], planar: bool) -> tuple[int, int]:
        """As many cells as make none wider or higher than cell_m."""
        cell_m = CELL_M if self.cell_m is None else self.cell_m
        if not 1 <= cell_m < 1e9:
            raise PlanError(
                "grid-size", f"cells are at least a metre wide; got {cell_m}.", f"Pass --cell-m {CELL_M:g}."
            )
        width, height = CellGrid(box=box, columns=1, rows=1, planar=planar).cell_m
        return math.ceil(width / cell_m - 1e-9), math.ceil(height / cell_m - 1e-9)


@dataclass(frozen=True, kw_only=True)
class SyntheticPlan(TripPlan):
    """Synthetic trips: how much privacy, for whom, where, when, from what, to where."""

    population: str
    source: SourcePlan
    window: StretchPlan
    epsilon: float
    delta: float | None = None  # None: pure
    space: PathMapPlan = field(default_factory=PathMapPlan)
    trip_rule: TripRule | None = None  # None: the source names its trips
    method: str = DEFAULT_METHOD
    unit: str = "user"  # or "trip"
    step_s: float = STEP_S  # the step of time, and the shortest stay
    trips_cap: int | None = None  # per user in the number of trips; None: TRIPS_CAP, or 1 per trip
    trips_per_user: int | None = None  # kept of one user; None: TRIPS_PER_USER
    trips: int | None = None  # how many there are, about; None: bought
    count: int | None = None  # synthetic trips to write; None: the number of trips
    jump_m: float | None = None  # a longer step between two points cuts the trip
    formats: tuple[str, ...] = ("parquet", "csv")
    out: str = "release"
    owner: str = "owner"
    run_id: str = ""
    supersedes: str = ""
    licence: str = ""
    seed: int | None = None  # tests and experiments only; not publishable

    def __post_init__(self) -> None:
        check_price(self)
        check_unit(self)
        self._check_method()
        if self.unit != TRIP:
            remedy = f"Pass --trips-cap {TRIPS_CAP}, say: trips of a user in the number of trips."
            check_whole("trips-cap", self.cap, 1, MOST_PER_USER, remedy)
            remedy = f"Pass --trips-per-user {TRIPS_PER_USER}, say: trips of a user that are read."
            check_whole("trips-per-user", self.per_unit, 1, MOST_PER_USER, remedy)
        check_trips(self)
        if self.count is not None:
            check_whole("count", self.count, 1, MOST_COUNT, "Pass --count 100000, say.")
        if not 1 <= self.step_s <= 86_400:
            raise PlanError(
                "step-range",
                f"the step of time must be from 1 second to a day; got {self.step_s}.",
                f"Pass --step-s {STEP_S:g}, say.",
            )
        check_above_0(self, "jump_m")
        self._check_formats()
        check_common(self)

    def _check_method(self) -> None:
        """No setting is left unread: those of points are refused by a method of sites, and the other way."""
        of_points = {
            "trip_rule": self.trip_rule,
            **{name: getattr(self, name) for name in ("trips_cap", "trips_per_user", "trips", "jump_m")},
            **{name: getattr(self.space, name) for name in ("box", "cells", "cell_m", "planar")},
        }
        of_sites = {"sites": self.space.sites}
        commutes = METHODS.named(self.method).takes == COMMUTES
        unread = [name for name, value in (of_points if commutes else of_sites).items() if value is not None]
        if unread:
            raise PlanError(
                "synthetic-options",
                f"the method {self.method} has no use for {', '.join(unread)}.",
                "Leave it out, or choose another --method: commute is for records that name sites.",
            )
        if commutes and self.unit == TRIP:
            raise PlanError("plan-unit", "commute protects users; it knows no trips.", "Pass --unit user.")
        if commutes and not set(self.formats) <= {"parquet", "csv"}:
            raise PlanError("trip-format", "commute writes parquet and csv.", "Leave --format out.")

    def _check_formats(self) -> None:
        formats = tuple(dict.fromkeys(("parquet", *self.formats)))
        object.__setattr__(self, "formats", formats)
        for each in formats:
            if each not in FORMATS:
                raise PlanError(
                    "trip-format",
                    f"trips are not written as {each!r}.",
                    f"Pass --format with one or more of {', '.join(FORMATS)}; parquet is always written.",
                )

    @property
    def cap(self) -> int:
        """Trips of one unit in the number of trips."""
        if self.unit == TRIP:
            return 1
        return TRIPS_CAP if self.trips_cap is None else self.trips_cap

    @property
    def per_unit(self) -> int:
        """Trips kept of one unit."""
        if self.unit == TRIP:
            return 1
        return TRIPS_PER_USER if self.trips_per_user is None else self.trips_per_user

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> SyntheticPlan:
        """From nested settings, as a TOML file or flags give them; unknown names are refused."""
        return cls(**parts_from(cls, settings, PathMapPlan))
