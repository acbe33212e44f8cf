"""Plans of synthetic trips: what they take, what they refuse, and which settings name a run."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import PlanError
from shoal.kinds.synthetic.plan import METHODS, PAYS_FOR, SITES_PAY_FOR, PathMapPlan, SyntheticPlan
from shoal.kinds.synthetic.prepare import prepare_synthetic
from shoal.mechanisms.audit_size import path_setting
from shoal.privacy.accounting import Budget
from shoal.space.clock import Clock
from shoal.space.setting import CommuteSetting

SETTINGS = {
    "population": "town",
    "epsilon": 1.0,
    "source": {"paths": ("trips.parquet",)},
    "window": {"start": "2026-03-02", "end": "2026-03-03", "time_zone": "Europe/Paris"},
    "space": {"box": [0, 0, 800, 600], "cell_m": 100},
}


def plan(**changes):
    return SyntheticPlan.from_settings({**SETTINGS, **changes})


def refused(**changes):
    with pytest.raises(PlanError) as error:
        plan(**changes)
    return error.value.code


def test_defaults_are_for_users_and_parquet_is_always_written():
    made = plan()
    assert (made.method, made.unit, made.step_s, made.cap, made.per_unit) == (
        "bridges",
        "user",
        60,
        20,
        10_000,
    )
    assert (made.delta, made.count, made.formats) == (None, None, ("parquet", "csv"))
    by_trip = plan(unit="trip")
    assert (by_trip.cap, by_trip.per_unit) == (1, 1)
    assert plan(formats=("csv", "parquet", "csv")).formats == ("parquet", "csv")
    assert plan(formats=("gpx",)).formats == ("parquet", "gpx")
    assert refused(formats=("shp",)) == "trip-format"
    grid = PathMapPlan(box=(-122.52, 37.70, -122.36, 37.83)).grid(planar=False)
    assert (grid.columns, grid.rows) == (34, 35)
    assert all(400 < side <= 420 for side in grid.cell_m)


@pytest.mark.parametrize(
    ("space", "sides"),
    [
        ({"cell_m": 100}, (8, 6)),
        ({"cell_m": 101}, (8, 6)),
        ({"cell_m": 99}, (9, 7)),
        ({}, (2, 2)),  # 420 m
        ({"cells": 5}, (5, 5)),
        ({"cells": "4x3"}, (4, 3)),
    ],
)
def test_cells_are_never_wider_than_said(space, sides):
    grid = PathMapPlan(box=(0, 0, 800, 600), **space).grid(planar=True)
    assert (grid.columns, grid.rows) == sides


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"method": "tgm"}, "synthetic-method"),
        ({"step_s": 0}, "step-range"),
        ({"unit": "trip", "trips_cap": 5}, "trip-bound"),
        ({"unit": "users"}, "plan-unit"),
        ({"owner": "release/owner", "out": "release"}, "plan-folders"),
        ({"method": "commute"}, "synthetic-options"),
        ({"method": "commute", "space": {}, "unit": "trip"}, "plan-unit"),
        ({"method": "commute", "space": {}, "formats": ("gpx",)}, "trip-format"),
        ({"space": {**SETTINGS["space"], "sites": "sites.csv"}}, "synthetic-options"),
    ],
)
def test_what_a_plan_refuses(changes, code):
    assert refused(**changes) == code


@pytest.mark.parametrize("space", [{"cell_m": 0.5}, {"cell_m": 1}, {"cells": 600}, {"cells": 5, "cell_m": 9}])
def test_grids_that_are_too_fine_or_said_twice(space):
    with pytest.raises(PlanError, match="grid-size"):
        PathMapPlan(box=(0, 0, 800, 600), **space).grid(planar=True)


@pytest.fixture
def prepared(tmp_path):
    time = pa.array([1_772_406_000_000_000], pa.timestamp("us", "UTC"))
    columns = {"user": [1], "trip": [1], "time": time, "x": [50.0], "y": [50.0]}
    pq.write_table(pa.table(columns), tmp_path / "trips.parquet")
    return prepare_synthetic(plan(source={"paths": (str(tmp_path / "trips.parquet"),)}))


def test_the_key_names_the_question_and_nothing_else(prepared):
    def key(**changes):
        return replace(prepared, plan=replace(prepared.plan, **changes)).key()

    same = ({"out": "elsewhere"}, {"owner": "else"}, {"licence": "CC0"}, {"formats": ("csv", "gpx")})
    assert {key(**changes) for changes in same} == {prepared.key()}
    others = (
        {"epsilon": 2.0},
        {"delta": 1e-6},
        {"method": "markov"},
        {"unit": "trip"},
        {"step_s": 30.0},
        {"trips": 9},
        {"count": 9},
        {"trips_cap": 9},
        {"trips_per_user": 9},
        {"jump_m": 9.0},
        {"run_id": "b"},
    )
    keys = {key(**changes) for changes in others}
    assert len(keys | {prepared.key()}) == len(others) + 1


def test_notes_recommend_a_delta_and_say_the_noise_of_the_number(prepared):
    delta, number = prepared.notes()
    assert "--delta 1e-6" in delta
    deviation = prepared.mechanism.totals.trips.deviation
    assert f"about {deviation:,.0f} trips" in number
    assert deviation > 100  # a user enters with 100 trips


def test_every_spend_of_every_method_says_what_it_pays_for():
    clock = Clock(start="2026-03-02", end="2026-03-03", time_zone="UTC")
    sites = CommuteSetting(site_xy_m=np.array([[0.0, 0.0], [900.0, 0.0]]), clock=clock)
    for name, method in METHODS.items():
        words = SITES_PAY_FOR if method.takes == "commutes" else PAYS_FOR
        setting = sites if method.takes == "commutes" else path_setting()
        for delta in (None, 1e-6):
            mechanism = method.build(Budget.of(1.0, delta), setting)
            assert mechanism.name == f"synthetic-{name}"
            assert all(words.get(spend) for spend, _ in mechanism.spends()), name
