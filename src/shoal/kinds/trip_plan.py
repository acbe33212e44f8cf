"""What plans of releases made of trips have in common: their unit, their map, their price, their bounds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from shoal.errors import PlanError
from shoal.events.schema import TripRule
from shoal.kinds.plan import ReleasePlan, StretchPlan, delta_setting, epsilon_setting
from shoal.privacy.accounting import Budget, check_delta
from shoal.privacy.guarantee import TRIP, declared_size
from shoal.setting import Plan, rule, setting
from shoal.space.plan import is_coordinate

if TYPE_CHECKING:
    from shoal.space.clock import Clock

MOST_PER_USER = 1_000_000
Box = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class TripPlan(ReleasePlan):
    """What every plan of trips states."""

    trip_rule: TripRule | None = setting(
        None, "How points become trips; without it the source names its trips.", only="trips"
    )
    epsilon: float = epsilon_setting()
    delta: float | None = delta_setting(None, shown="none: the noise is then Laplace")
    unit: str = setting(
        "user",
        "What the promise covers: user, or one trip of one user: trip.",
        key=True,
        label="What is protected",
    )
    trips_per_user: int | None = setting(
        None, "Trips kept of a user.", least=1, most=MOST_PER_USER, only="trips"
    )
    trips_cap: int | None = setting(
        None, "Trips of a user in the number of trips.", least=1, most=MOST_PER_USER, only="trips"
    )
    trips: int | None = setting(
        None,
        "Declared number of trips, kept to two digits and published. Never a count from the data; without it "
        "the number is measured with noise.",
        least=1,
        most=10**11,
        example=100_000,
        remedy="Pass --trips 100000, say; or leave it out, and it is measured.",
        only="trips",
        key=True,
        label="Trips, about",
    )
    jump_m: float | None = setting(
        None,
        "A longer step between two points cuts the trip.",
        above=0,
        below=1e9,
        example=500,
        unit="m",
        only="trips",
        key=True,
    )
    window: StretchPlan = setting(
        "The stretch of time that is released.",
        remedy="Pass --start, --end and --time-zone; the window is public and never read off the trips.",
    )

    def clock(self) -> Clock:
        from shoal.space.clock import Clock

        return Clock(**asdict(self.window))

    def budget(self) -> Budget:
        return Budget.of(self.epsilon, self.delta)

    @property
    def per_unit(self) -> int:
        """Trips kept of one unit."""
        return 1 if self.unit == TRIP else self.value_of("trips_per_user")

    @rule("delta")
    def _set_delta(self) -> None:
        """A delta of 0 is none."""
        object.__setattr__(self, "delta", check_delta(self.delta) if self.delta else None)

    @rule("unit", "trips_per_user", "trips_cap")
    def _check_bounds_of_a_trip(self) -> None:
        if self.unit == TRIP and (self.trips_per_user not in (None, 1) or self.trips_cap is not None):
            raise PlanError(
                "trip-bound",
                "where the unit is a trip, every trip is kept and stands for itself.",
                "Leave --trips-per-user and --trips-cap out, or pass --unit user.",
            )

    @rule("unit", "trip_rule")
    def _check_stays(self) -> None:
        if self.unit == TRIP and self.trip_rule is not None and self.trip_rule.stay_m is not None:
            raise PlanError(
                "trip-stay",
                "trips that stays cut apart share the points of the stay, so none of them can be a unit.",
                "Pass --gap-minutes 5 or --trip-flag instead, or --unit user.",
            )

    @rule("unit", "source")
    def _check_unit_column(self) -> None:
        if self.unit not in ("user", TRIP) and "user" not in self.source.columns:
            raise PlanError(
                "plan-unit",
                f"trips are bounded per value of one column; the column of {self.unit} ids is not stated.",
                f"Pass --column user=NAME with the column of {self.unit} ids, not the one of persons.",
            )

    @rule("trips")
    def _round_trips(self) -> None:
        if self.trips is not None:
            object.__setattr__(self, "typed", {"trips": self.trips})
            object.__setattr__(self, "trips", declared_size(self.trips))


@dataclass(frozen=True, kw_only=True)
class BoxPlan(Plan):
    """The public box of a map, and what its coordinates are."""

    box: Box | None = setting(
        None,
        "west,south,east,north of the map; public, never read off the trips.",
        example=(2.25, 48.81, 2.42, 48.91),
        code="box-range",
        label="Box",
        only="trips",
    )
    cells: int | str | None = setting(None, "Cells along each side, or COLUMNSxROWS.", only="trips")
    planar: bool | None = setting(
        None, "Coordinates are x, y in metres.", shown="as the source", only="trips"
    )

    @rule("cells")
    def _check_cells(self) -> None:
        if self.cells is not None:
            sides_of(self.cells)

    def placed(self, planar: bool) -> Box:
        """The box, whose coordinates are those of the source; it is declared, never read off the trips."""
        if self.planar is not None and self.planar != planar:
            coordinates = "x, y in metres" if planar else "longitude and latitude"
            raise PlanError(
                "plan-planar",
                f"the source has {coordinates}; the plan says planar = {str(self.planar).lower()}.",
                "Leave --planar out, or name the coordinates: --column x=NAME --column y=NAME.",
            )
        if self.box is None:
            raise PlanError(
                "box-missing",
                "the plan does not state the box of its map; it is public and never read off the trips.",
                "Pass --box WEST,SOUTH,EAST,NORTH.",
            )
        if not all(map(is_coordinate, self.box)):
            raise PlanError("box-range", f"a box is four numbers; got {self.box!r}.")
        west, south, east, north = map(float, self.box)
        return west, south, east, north


def sides_of(cells: int | str) -> tuple[int, int]:
    """Columns and rows: 256, "256" or "300x200"."""
    parts = str(cells).lower().split("x")
    if len(parts) > 2 or not all(part.strip().isdecimal() for part in parts):
        raise PlanError(
            "grid-size", f"cells are a number or COLUMNSxROWS; got {cells!r}.", "Pass --cells 256, say."
        )
    return int(parts[0]), int(parts[-1])
