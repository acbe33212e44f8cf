"""Every bound that the noise is calibrated for travels with the stage, and a mechanism refuses other ones."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.loops import for_each

from shoal.engine.engine import encode_trips
from shoal.engine.trip_pieces import TripBound
from shoal.engine.trip_queries import TripQueries
from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.audit_size import trip_setting
from shoal.mechanisms.registry import taking
from shoal.space.cells import CellGrid
from shoal.space.trip_setting import PathSetting, TripSetting

HISTOGRAMS = taking("trips")
PATH_ENTRIES = taking("paths")

LARGER = CellGrid(box=(0.0, 0.0, 9.0, 9.0), columns=9, rows=9, planar=True)
TRIP_BOUNDS = {
    "per_unit": {"per_unit": 3},
    "cap": {"cap": 5},
    "unit": {"each_trip": True},
    "grid": {"grid": LARGER},
}
PATH_BOUNDS = {
    "cap": {"cap": 99},
    "unit": {"each_trip": True},
    "grid": {"grid": LARGER},
    "step": {"step_s": 30.0},
}


class Refuses:
    """No answer may be drawn before the bounds were compared."""

    publishable = False

    def __getattr__(self, name):
        raise AssertionError(f"{name} was asked before the bounds were compared")


@for_each("bound", TRIP_BOUNDS)
@for_each("name", HISTOGRAMS)
def test_histograms_refuse_trips_under_other_bounds(name, bound):
    entry = HISTOGRAMS[name]
    mechanism = entry.build(1.0, None if entry.pure else 1e-6, replace(entry.size, ell=2, cap=4))
    setting = mechanism.setting
    stage = {"grid": setting.grid, "per_unit": 2, "cap": 4, "each_trip": False}
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        mechanism(SimpleNamespace(**{**stage, **TRIP_BOUNDS[bound]}), Refuses())
    with pytest.raises(AssertionError, match="was asked before"):  # the right bounds go on to the noise
        mechanism(SimpleNamespace(**stage, count=lambda: 1, all_trips=lambda: 1), Refuses())


@for_each("bound", PATH_BOUNDS)
@for_each("name", PATH_ENTRIES)
def test_generators_refuse_paths_under_other_bounds(name, bound):
    entry = PATH_ENTRIES[name]
    mechanism = entry.build(1.0, None if entry.pure else 1e-6, entry.size)
    setting: PathSetting = mechanism.setting
    stage = {name: getattr(setting, name) for name in ("grid", "cap", "each_trip", "step_s")}
    other = {"each_trip": not setting.each_trip} if bound == "unit" else PATH_BOUNDS[bound]
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        mechanism(SimpleNamespace(**{**stage, **other}), Refuses())


def test_where_the_unit_is_a_trip_trips_and_settings_say_so():
    grid = trip_setting().grid
    for each_trip in (False, True):
        made = encode_trips([], TripBound(grid=grid, each_trip=each_trip, run_key=bytes(16)))
        assert made.each_trip is each_trip
        assert TripQueries(made).each_trip is each_trip
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        replace(made, per_unit=2)
    given = trip_setting().given
    grid = trip_setting().grid
    TripSetting(grid=grid, given=given, each_trip=True)
    for more in ({"per_unit": 2}, {"cap": 3}):
        with pytest.raises(PlanError, match="trip-bound"):
            TripSetting(grid=grid, given=given, each_trip=True, **more)
