"""What plans of releases made of trips have in common: their unit, their map, their price, their folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shoal.errors import PlanError
from shoal.events.schema import SourcePlan, TripRule
from shoal.kinds.plan import StretchPlan, check_settings, check_whole, part_of
from shoal.privacy.accounting import Budget, check_delta, check_epsilon
from shoal.privacy.guarantee import TRIP, Unit, declared_size
from shoal.space.clock import Clock

if TYPE_CHECKING:
    from shoal.kinds.histogram.plan import HistogramPlan
    from shoal.kinds.synthetic.plan import SyntheticPlan

MOST_PER_USER = 1_000_000
HOW = {
    "source": "Name the files of trips, as arguments or under [source] paths in the plan.",
    "window": "Pass --start, --end and --time-zone; the window is public and never read off the trips.",
    "population": "Pass --population NAME; `shoal ledger create NAME` makes one.",
    "epsilon": "Pass --epsilon 1, say: smaller is more private, larger is more accurate.",
}


class TripPlan:
    """Said alike of every plan of trips."""

    window: StretchPlan
    epsilon: float
    delta: float | None

    def clock(self) -> Clock:
        return Clock(**asdict(self.window))

    def budget(self) -> Budget:
        return Budget.of(self.epsilon, self.delta)


def parts_from(kind: type, settings: Mapping[str, Any], space: type) -> dict[str, Any]:
    """Fields of a plan from nested settings, as a TOML file or flags give them; unknown names are refused."""
    values = dict(settings)
    check_settings(kind, values, "")
    for name, how in HOW.items():
        if name not in values:
            raise PlanError("plan-incomplete", f"the plan does not say its {name}.", how)
    values["source"] = part_of(SourcePlan, values["source"], "source")
    values["window"] = part_of(StretchPlan, values["window"], "window")
    values["space"] = part_of(space, values.get("space", {}), "space")
    if values.get("trip_rule") is not None:
        values["trip_rule"] = part_of(TripRule, values["trip_rule"], "trip_rule")
    return values


def check_price(plan: HistogramPlan | SyntheticPlan) -> None:
    """An epsilon, and a delta that is none or small; 0 is none."""
    check_epsilon(plan.epsilon)
    if plan.delta == 0:
        object.__setattr__(plan, "delta", None)
    if plan.delta is not None:
        check_delta(plan.delta)


def check_unit(plan: HistogramPlan | SyntheticPlan) -> None:
    """A user, a trip, or a unit of the owner's own that a column names."""
    Unit(plan.unit)
    if plan.unit == TRIP:
        if plan.trips_per_user not in (None, 1) or plan.trips_cap is not None:
            raise PlanError(
                "trip-bound",
                "where the unit is a trip, every trip is kept and stands for itself.",
                "Leave --trips-per-user and --trips-cap out, or pass --unit user.",
            )
        if plan.trip_rule is not None and plan.trip_rule.stay_m is not None:
            raise PlanError(
                "trip-stay",
                "trips that stays cut apart share the points of the stay, so none of them can be a unit.",
                "Pass --gap-minutes or --trip-flag instead, or --unit user.",
            )
        return
    if plan.unit != "user" and "user" not in plan.source.columns:
        raise PlanError(
            "plan-unit",
            f"trips are bounded per value of one column; the column of {plan.unit} ids is not said.",
            f"Pass --column user=NAME with the column of {plan.unit} ids, not the one of persons.",
        )


def check_trips(plan: HistogramPlan | SyntheticPlan) -> None:
    """A declared number of trips, kept to two digits."""
    if plan.trips is not None:
        remedy = "Pass --trips 100000, say; or leave it out, and it is bought."
        check_whole("trips", plan.trips, 1, 10**11, remedy)
        object.__setattr__(plan, "typed", {"trips": plan.trips})
        object.__setattr__(plan, "trips", declared_size(plan.trips))


def check_above_0(plan: HistogramPlan | SyntheticPlan, *names: str) -> None:
    for name in names:
        value = getattr(plan, name)
        if value is not None and not 0 < value < 1e9:
            option = name.replace("_", "-")
            raise PlanError("plan-range", f"{option} must be above 0; got {value}.", f"Pass --{option} 500.")


def check_planar(said: bool | None, planar: bool) -> None:
    """What a plan says of its coordinates is what the source has."""
    if said is not None and said != planar:
        found = "x, y in metres" if planar else "longitude and latitude"
        raise PlanError(
            "plan-planar",
            f"the source has {found}; the plan says planar = {str(said).lower()}.",
            "Leave --planar out, or name the coordinates: --column x=NAME --column y=NAME.",
        )


def four_numbers(box: Any) -> tuple[float, float, float, float]:
    """The box of a map, which is said and never found."""
    if box is None:
        raise PlanError(
            "box-missing",
            "the plan does not say the box of its map; it is public and never read off the trips.",
            "Pass --box WEST,SOUTH,EAST,NORTH.",
        )
    ok = isinstance(box, list | tuple) and len(box) == 4
    if not ok or not all(isinstance(each, int | float) and not isinstance(each, bool) for each in box):
        raise PlanError(
            "box-range", f"a box is four numbers; got {box!r}.", "Write [west, south, east, north]."
        )
    west, south, east, north = (float(each) for each in box)
    return west, south, east, north


def sides_of(cells: int | str) -> tuple[int, int]:
    """Columns and rows: 256, "256" or "300x200"."""
    parts = str(cells).lower().split("x")
    if len(parts) > 2 or not all(part.strip().isdecimal() for part in parts):
        raise PlanError(
            "grid-size", f"cells are a number or COLUMNSxROWS; got {cells!r}.", "Pass --cells 256, say."
        )
    return int(parts[0]), int(parts[-1])
