"""The plan of a histogram of trips: all that shapes it, given by the owner, none of it read off the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.events.schema import SourcePlan, TripRule
from shoal.kinds.histogram.methods import DEFAULT_METHOD, METHODS
from shoal.kinds.plan import StretchPlan, check_common, check_whole
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
from shoal.space.cells import CellGrid
from shoal.space.zones import Zones, read_zones

TRIPS_PER_USER = 10
GIVEN = 16_000
MOST_GIVEN = 1_000_000
# the plan for a simulated city; `shoal simulate` fills in what its card says
CITY_PLAN = """# Trips of this simulated city: shoal histogram run --plan histogram.toml
population = "{population}"
epsilon = 0.5
method = "{method}"
unit = "user"           # or "trip": then who makes many trips is not protected as a person
trips_per_user = 10     # kept of each user
trips_cap = 40          # of each user in the number of all trips, which answers are scaled up to
out = "histogram"
owner = "histogram-owner"

[source]
paths = ["{paths}"]

[space]
box = {box}  # west, south, east, north
cells = 128
zones = "zones.geojson" # recipients may ask by their names

[window]
start = "{start}"
end = "{end}"
time_zone = "{time_zone}"
"""


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
        box = four_numbers(self.box)
        check_planar(self.planar, planar)
        columns, rows = sides_of(self.cells)
        return CellGrid(box=box, columns=columns, rows=rows, planar=planar)

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
class HistogramPlan(TripPlan):
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
    supersedes: str = ""
    licence: str = ""
    seed: int | None = None  # tests and experiments only; not publishable

    def __post_init__(self) -> None:
        check_price(self)
        METHODS.named(self.method)
        check_unit(self)
        if self.unit != TRIP:
            self._check_bounds()
        check_whole("given", self.given, 1, MOST_GIVEN, f"Pass --given {GIVEN}, say.")
        check_trips(self)
        check_above_0(self, "jump_m", "mean_cells")
        check_common(self)

    def _check_bounds(self) -> None:
        remedy = f"Pass --trips-per-user {TRIPS_PER_USER}, say."
        check_whole("trips-per-user", self.per_unit, 1, MOST_PER_USER, remedy)
        if self.trips_cap is not None:
            remedy = (
                f"Pass --trips-cap {10 * self.per_unit}, say: trips of a user in the number of all trips."
            )
            check_whole("trips-cap", self.trips_cap, self.per_unit, MOST_PER_USER, remedy)

    @property
    def per_unit(self) -> int:
        """Trips kept of one unit."""
        if self.unit == TRIP:
            return 1
        return TRIPS_PER_USER if self.trips_per_user is None else self.trips_per_user

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> HistogramPlan:
        """From nested settings, as a TOML file or flags give them; unknown names are refused."""
        return cls(**parts_from(cls, settings, MapPlan))
