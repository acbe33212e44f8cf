"""The plan of a histogram of trips: all that shapes it, given by the owner, none of it read off the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from shoal.errors import PlanError
from shoal.events.schema import SourcePlan
from shoal.events.trips import TripRule
from shoal.flows.histogram_methods import DEFAULT_METHOD, histogram_method
from shoal.flows.plan import check_settings, part_of
from shoal.flows.trajectories_plan import StretchPlan
from shoal.privacy.accounting import check_delta, check_epsilon
from shoal.privacy.budget import Budget
from shoal.privacy.unit import Unit
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock
from shoal.space.zones import Zones, read_zones

TRIP = "trip"  # the unit of a plan that protects trips, not persons
TRIPS_PER_USER = 10
GIVEN = 16_000
MOST_GIVEN = 1_000_000


@dataclass(frozen=True, kw_only=True)
class MapPlan:
    """The public box and its cells; zones by whose names a recipient may ask."""

    box: tuple[float, float, float, float] | None = None  # west, south, east, north
    cells: int | str = 256  # a side, or "COLUMNSxROWS"
    planar: bool | None = None  # x, y in metres; None: as the source
    zones: str | None = None
    zone_id: str | None = None
    zone_name: str | None = None
    zones_crs: str | None = None
    zones_layer: str | None = None
    repair_zones: bool = False

    def grid(self, *, planar: bool) -> CellGrid:
        """The grid; its box is said, never found."""
        if self.box is None:
            raise PlanError(
                "box-missing",
                "the plan does not say the box of its map; it is public and never read off the trips.",
                "Pass --box WEST,SOUTH,EAST,NORTH.",
            )
        if self.planar is not None and self.planar != planar:
            found = "x, y in metres" if planar else "longitude and latitude"
            raise PlanError(
                "plan-planar",
                f"the source has {found}; the plan says planar = {str(self.planar).lower()}.",
                "Leave --planar out, or name the coordinates: --column x=NAME --column y=NAME.",
            )
        columns, rows = _sides(self.cells)
        west, south, east, north = _four_numbers(self.box)
        return CellGrid(box=(west, south, east, north), columns=columns, rows=rows, planar=planar)

    def read_zones(self) -> Zones | None:
        if self.zones is None:
            return None
        return read_zones(
            self.zones,
            id_column=self.zone_id,
            name_column=self.zone_name,
            crs=self.zones_crs,
            layer=self.zones_layer,
            repair=self.repair_zones,
            on_overlap="allow",
            holes="allow",
        )


@dataclass(frozen=True, kw_only=True)
class HistogramPlan:
    """Distinct trips in any rectangle: how much privacy, for whom, where, when, from what, to where."""

    population: str
    source: SourcePlan
    window: StretchPlan
    epsilon: float
    delta: float | None = None  # None: pure
    space: MapPlan = field(default_factory=MapPlan)
    trip_rule: TripRule | None = None  # None: the source names its trips
    method: str = DEFAULT_METHOD
    unit: str = "user"  # or "trip"
    trips_per_user: int | None = None  # kept of one user; None: 10, or 1 where the unit is a trip
    trips_cap: int | None = None  # of one user in the number of all trips, to scale up to
    trips: int | None = None  # how many there are, about; None: bought
    jump_m: float | None = None  # a longer step between two points cuts the trip
    given: int = GIVEN  # random rectangles that the release should serve
    given_seed: int = 1  # public
    given_file: str | None = None  # boxes that it should serve instead
    mean_cells: float | None = None  # a guess at the cells of a trip
    out: str = "release"
    owner: str = "owner"
    run_id: str = ""
    licence: str = ""
    seed: int | None = None  # tests and experiments only; not publishable

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta == 0:
            object.__setattr__(self, "delta", None)
        if self.delta is not None:
            check_delta(self.delta)
        histogram_method(self.method)
        self._check_unit()
        _check_whole("given", self.given, 1, MOST_GIVEN, f"Pass --given {GIVEN}, say.")
        if self.trips is not None:
            _check_whole(
                "trips", self.trips, 1, 10**11, "Pass --trips 100000, say; or leave it out, and it is bought."
            )
        for name in ("jump_m", "mean_cells"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e9:
                option = name.replace("_", "-")
                raise PlanError(
                    "plan-range", f"{option} must be above 0; got {value}.", f"Pass --{option} 500."
                )
        if not self.licence.isprintable():
            raise PlanError("plan-licence", "the licence must be one line of plain text.")
        if not self.population.strip():
            raise PlanError("plan-population", "the plan names no population.", "Pass --population NAME.")
        owner, out = os.path.realpath(self.owner), os.path.realpath(self.out)
        if os.path.commonpath([owner, out]) == out:
            raise PlanError(
                "plan-folders",
                "the owner's folder lies inside the release; raw figures must stay out of it.",
                "Pass another --owner.",
            )

    def _check_unit(self) -> None:
        Unit(self.unit)
        if self.unit == TRIP:
            if self.trips_per_user not in (None, 1) or self.trips_cap is not None:
                raise PlanError(
                    "trip-bound",
                    "where the unit is a trip, every trip is kept and stands for itself.",
                    "Leave --trips-per-user and --trips-cap out, or pass --unit user.",
                )
            if self.trip_rule is not None and self.trip_rule.stay_m is not None:
                raise PlanError(
                    "trip-stay",
                    "trips that stays cut apart share the points of the stay, so none of them can be a unit.",
                    "Pass --gap-minutes or --trip-flag instead, or --unit user.",
                )
            return
        _check_unit_name(self.unit)
        if self.unit != "user" and "user" not in self.source.columns:
            raise PlanError(
                "plan-unit",
                f"trips are bounded per value of one column; the column of {self.unit} ids is not said.",
                f"Pass --column user=NAME with the column of {self.unit} ids, not the one of persons.",
            )
        remedy = f"Pass --trips-per-user {TRIPS_PER_USER}, say."
        _check_whole("trips-per-user", self.per_unit, 1, 1_000_000, remedy)
        if self.trips_cap is not None:
            remedy = (
                f"Pass --trips-cap {10 * self.per_unit}, say: trips of a user in the number of all trips."
            )
            _check_whole("trips-cap", self.trips_cap, self.per_unit, 1_000_000, remedy)

    @property
    def per_unit(self) -> int:
        """Trips kept of one unit."""
        if self.unit == TRIP:
            return 1
        return TRIPS_PER_USER if self.trips_per_user is None else self.trips_per_user

    def clock(self) -> Clock:
        return Clock(**asdict(self.window))

    def budget(self) -> Budget:
        return Budget.of(self.epsilon, self.delta)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> HistogramPlan:
        """From nested settings, as a TOML file or flags give them; unknown names are refused."""
        values = dict(settings)
        check_settings(cls, values, "")
        for name in ("source", "window", "population", "epsilon"):
            if name not in values:
                raise PlanError("plan-incomplete", f"the plan does not say its {name}.", _HOW[name])
        values["source"] = part_of(SourcePlan, values["source"], "source")
        values["window"] = part_of(StretchPlan, values["window"], "window")
        values["space"] = part_of(MapPlan, values.get("space", {}), "space")
        if values.get("trip_rule") is not None:
            values["trip_rule"] = part_of(TripRule, values["trip_rule"], "trip_rule")
        return cls(**values)


_HOW = {
    "source": "Name the files of trips, as arguments or under [source] paths in the plan.",
    "window": "Pass --start, --end and --time-zone; the window is public and never read off the trips.",
    "population": "Pass --population NAME; `shoal ledger create NAME` makes one.",
    "epsilon": "Pass --epsilon 1, say: smaller is more private, larger is more accurate.",
}


def _check_unit_name(unit: str) -> None:
    """Refuse what means a user or a trip but would be taken for a unit of the owner's own."""
    name = unit.strip().lower()
    if name in ("person", "persons", "people"):
        raise PlanError(
            "plan-unit", "where the promise covers a person, the unit is called user.", "Pass --unit user."
        )
    for known in ("user", TRIP):
        if unit != known and name in (known, f"{known}s"):
            raise PlanError("plan-unit", f"no unit is called {unit!r}.", f"Did you mean {known}?")


def _sides(cells: int | str) -> tuple[int, int]:
    """Columns and rows: 256, "256" or "300x200"."""
    parts = str(cells).lower().split("x")
    if len(parts) > 2 or not all(part.strip().isdecimal() for part in parts):
        raise PlanError(
            "grid-size", f"cells are a number or COLUMNSxROWS; got {cells!r}.", "Pass --cells 256, say."
        )
    return int(parts[0]), int(parts[-1])


def _four_numbers(box: Any) -> tuple[float, float, float, float]:
    ok = isinstance(box, list | tuple) and len(box) == 4
    if not ok or not all(isinstance(each, int | float) and not isinstance(each, bool) for each in box):
        raise PlanError(
            "box-range", f"a box is four numbers; got {box!r}.", "Write [west, south, east, north]."
        )
    west, south, east, north = (float(each) for each in box)
    return west, south, east, north


def _check_whole(name: str, value: Any, least: int, most: int, remedy: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PlanError(
            "plan-range", f"{name} must be a whole number from {least} to {most}; got {value}.", remedy
        )
