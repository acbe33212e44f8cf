"""A plan of synthetic trips with its public things opened: source, grid, noise, price. No row is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.engine.protocol import Engine
from shoal.errors import PlanError
from shoal.events.schema import EventSource
from shoal.events.trip_reader import check_rule
from shoal.kinds.commute.prepare import PreparedCommute, prepare_commute
from shoal.kinds.needs import synthetic_needs
from shoal.kinds.source import opened_source, unit_of
from shoal.kinds.spends import check_spends
from shoal.kinds.synthetic.methods import COMMUTES, Method, SyntheticMechanism, synthetic_method
from shoal.kinds.synthetic.plan import MOST_UNASKED, SyntheticPlan
from shoal.kinds.trip_plan import TRIP
from shoal.kinds.trip_prepare import PreparedTrips, window_us
from shoal.privacy.guarantee import Guarantee
from shoal.release.resources import Needs
from shoal.release.trip_formats import GLOBE_ONLY
from shoal.space.cells import CellGrid
from shoal.space.path_setting import PathSetting

# Formats are not asked: the same trips in another file are the same release.
ASKED = (
    *("population", "epsilon", "delta", "method", "unit", "step_s", "trips", "count", "jump_m"),
    "run_id",
)
FEWEST_TRIPS = 1_000  # written at most where the number of trips is lost in its noise


def prepare_synthetic(
    plan: SyntheticPlan, engine: Engine | None = None
) -> PreparedSynthetic | PreparedCommute:
    """Open everything public and set the noise; reads headers of the source, no rows."""
    source = opened_source(plan.source, engine)
    if synthetic_method(plan.method).takes == COMMUTES:
        return prepare_commute(plan, source)
    return _prepare_points(plan, source)


def _prepare_points(plan: SyntheticPlan, source: EventSource) -> PreparedSynthetic:
    clock = plan.clock()
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
        clock=clock,
        each_trip=plan.unit == TRIP,
        cap=plan.cap,
        trips=plan.trips,
    )
    method, budget = synthetic_method(plan.method), plan.budget()
    mechanism = method.build(budget, setting)
    check_spends(mechanism, budget)  # pyright: ignore[reportArgumentType]
    unit = unit_of(plan.unit, plan.source, source)
    return PreparedSynthetic(
        plan=plan,
        source=source,
        setting=setting,
        window_us=window_us(clock),
        method=method,
        mechanism=mechanism,
        guarantee=Guarantee(epsilon=plan.epsilon, delta=plan.delta or 0.0, loss=mechanism.loss(), unit=unit),
    )


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
    """A plan with its public things opened. Nothing here depends on a row of the source."""

    plan: SyntheticPlan
    source: EventSource
    setting: PathSetting = field(repr=False)
    window_us: tuple[int, int]
    method: Method
    mechanism: SyntheticMechanism
    guarantee: Guarantee

    @property
    def grid(self) -> CellGrid:
        return self.setting.grid

    def what(self) -> str:
        """The release in a line, for the ledger."""
        return self.line("synthetic trips", f"{self.grid.columns} x {self.grid.rows} cells")

    def needs(self) -> Needs:
        """Memory and disk, from the cells of the map and the declared number of trips."""
        return synthetic_needs(
            self.grid.columns * self.grid.rows, self.plan.count or self.plan.trips or MOST_UNASKED
        )

    def notes(self) -> list[str]:
        """What the owner should know of the settings before the run; none of it stops it."""
        plan, notes = self.plan, []
        if self.each_trip:
            notes.append("the promise is per trip: who made many trips is not protected as a person.")
        elif plan.delta is None:
            notes.append(
                f"without a delta all that a {plan.unit} did is scaled to a sum of 1; with --delta 1e-6 it "
                f"is the root of the sum of squares, which keeps far more of {plan.unit}s with many trips."
            )
        if plan.trips is not None and plan.count is None:
            notes.append("as many synthetic trips are written as were declared with --trips.")
        if plan.trips is None:
            notes += self._number_notes()
        if self.method.baseline:
            notes.append(f"{plan.method} is there to compare with; bridges is the default.")
        return notes

    def _number_notes(self) -> list[str]:
        """How much noise the bought number of trips has."""
        bought = getattr(getattr(self.mechanism, "totals", None), "trips", None)
        if bought is None:
            return []
        less = (
            "" if self.each_trip else f"a {self.plan.unit} enters it with at most {self.plan.cap} trips, and "
        )
        ways = [
            *(["--count writes another number"] if self.plan.count is None else []),
            *([] if self.each_trip else ["a lower --trips-cap has less noise"]),
            "--trips declares one, where it is public",
        ]
        return [
            f"the number of trips is bought: {less}its noise is about {bought.deviation:,.0f} trips. "
            f"{', '.join(ways)}."
        ]

    @property
    def least_trips(self) -> int:
        """Written where the bought number is lost in its noise."""
        bought = getattr(getattr(self.mechanism, "totals", None), "trips", None)
        return 1 if bought is None else max(1, min(round(bought.deviation), FEWEST_TRIPS))

    def asked(self) -> tuple[Any, ...]:
        return "synthetic", ASKED, self.plan.per_unit, self.plan.cap
