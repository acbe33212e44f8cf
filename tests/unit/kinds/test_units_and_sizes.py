"""Units that would be called a person, and sizes that the owner declares."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import PlanError
from shoal.kinds.density.plan import DensityPlan, MethodOptions
from shoal.kinds.density.prepare import prepare_density
from shoal.kinds.histogram.plan import HistogramPlan
from shoal.kinds.histogram.prepare import prepare_histogram
from shoal.kinds.plan import read_plan
from shoal.kinds.simulated import write_city_plan
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.kinds.synthetic.prepare import prepare_synthetic
from shoal.kinds.trajectories.plan import TrajectoryPlan
from shoal.kinds.trajectories.prepare import prepare_trajectories

DAY = {"start": "2026-03-02", "end": "2026-03-03", "time_zone": "UTC"}
BOX = [0.0, 0.0, 1000.0, 1000.0]
KINDS = {
    "density": (
        lambda settings: prepare_density(DensityPlan.from_settings(settings)),
        {"epsilon": 1.0, "space": {"box": BOX, "cell_m": 500}},
    ),
    "histogram": (
        lambda settings: prepare_histogram(HistogramPlan.from_settings(settings)),
        {"epsilon": 1.0, "space": {"box": BOX, "cells": 8}},
    ),
    "synthetic": (
        lambda settings: prepare_synthetic(SyntheticPlan.from_settings(settings)),
        {"epsilon": 1.0, "space": {"box": BOX, "cell_m": 500}},
    ),
    "trajectories": (
        lambda settings: prepare_trajectories(TrajectoryPlan.from_settings(settings)),
        {"space": {"origin": [0, 0]}},
    ),
}


@pytest.fixture
def trips(tmp_path):
    """Two users whose trips bear the same id."""
    time = pa.array([1_772_409_600_000_000] * 2, pa.timestamp("us", "UTC"))
    columns = {"person": [1, 2], "journey_id": [7, 7], "time": time, "x": [50.0, 60.0], "y": [50.0, 60.0]}
    pq.write_table(pa.table(columns), tmp_path / "trips.parquet")
    return tmp_path


def prepare(kind, folder, columns, **changes):
    make, more = KINDS[kind]
    settings = {
        "population": "town",
        "window": DAY,
        "source": {"paths": (str(folder / "trips.parquet"),), "columns": columns},
        "out": str(folder / "release"),
        "owner": str(folder / "owner"),
    }
    return make({**settings, **more, **changes})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [{"user": "journey_id", "trip": "journey_id"}, {"user": "journey_id"}])
def test_trip_ids_are_not_taken_for_persons(kind, columns, trips):
    """Named for both roles, or found as the trip by its usual name: the manifest would promise a person."""
    rule = (
        {"trip_rule": {"gap_minutes": 5}} if kind in ("histogram", "synthetic") and len(columns) == 1 else {}
    )
    with pytest.raises(PlanError) as caught:
        prepare(kind, trips, columns, **rule)
    assert caught.value.code == "unit-trip"
    assert "--unit trip" in caught.value.remedy
    assert prepare(kind, trips, columns, unit="trip", **rule) is not None
    assert prepare(kind, trips, {"user": "person"}) is not None


def test_every_usual_name_of_trip_ids_is_refused_not_the_first_alone(trips):
    table = pq.read_table(trips / "trips.parquet")
    both = table.append_column("trip", table["person"])
    pq.write_table(both, trips / "trips.parquet")
    with pytest.raises(PlanError, match="unit-trip"):
        prepare("density", trips, {"user": "journey_id"})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("unit", "code"),
    [
        *((unit, "plan-unit") for unit in ("person", "User", "users", "subscriber", "US\u0415R", "Trips")),
        *((unit, "unit-name") for unit in ("user ", "", "a\nb", "a\u200b", "<b>cab</b>")),
        ("card", "unit-trip"),
    ],
)
def test_a_trip_id_is_a_unit_under_no_other_name(kind, unit, code, trips):
    with pytest.raises(PlanError) as caught:
        prepare(kind, trips, {"user": "journey_id", "trip": "journey_id"}, unit=unit)
    assert caught.value.code == code


@pytest.mark.parametrize("kind", ["histogram", "synthetic"])
def test_the_unit_trip_is_one_trip_of_one_user(kind, trips):
    said = prepare(kind, trips, {"user": "person"}, unit="trip").unit_sentence
    assert said.startswith("One trip of one user: all points of that trip in the window, as the column")


def test_declared_sizes_keep_two_digits_wherever_they_are_used(trips):
    density = prepare("density", trips, {"user": "person"}, users=397)
    assert (density.plan.users, density.options.users, density.mechanism.describe()["users_declared"]) == (
        400,
    ) * 3
    assert density.key() == prepare("density", trips, {"user": "person"}, users=402).key()
    assert MethodOptions(users=14_499).users == 14_000
    for kind in ("histogram", "synthetic"):
        made = prepare(kind, trips, {"user": "person"}, trips=123_456)
        assert (made.plan.trips, made.setting.trips) == (120_000, 120_000)
        assert "123456" not in json.dumps(made.mechanism.describe(), default=str)


def test_the_simulator_writes_rounded_sizes(tmp_path):
    card = {
        "users": 397,
        "preset": "town",
        "time_zone": "UTC",
        "window": {"start": "2026-03-02T00:00:00", "end": "2026-03-09T00:00:00"},
        "sources": {"events": {"glob": "events/*.parquet"}},
    }
    (tmp_path / "city.json").write_text(json.dumps(card))
    assert read_plan(write_city_plan(tmp_path))["users"] == 400
