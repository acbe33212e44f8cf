"""Synthetic trips from bridges: what is paid, what it follows from, and that every output is valid."""

from datetime import datetime, timedelta
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.loops import for_each
from tests.worlds import exact_paths

from shoal.auditing.replay import CallsDiffer, RecordingNoise, ReplayNoise
from shoal.engine.engine import encode_trips
from shoal.engine.path_trips import PathBound, PathQueries
from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.synthetic.bridges import SyntheticBridges
from shoal.metrics.synthetic import synthetic_utility
from shoal.postprocess.synthetic.bridge_tables import Parts
from shoal.privacy.accounting import NANO, Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock
from shoal.space.trip_setting import PathSetting
from shoal.stages.trips import LATTICE

SIDE = 8
FAST = Parts(calibrate=False)
START = datetime(2026, 3, 2)


def setting(columns=SIDE, rows=SIDE, **more):
    box = (0, 0, 1000 * columns, 1000 * rows)  # cells of 1 km
    grid = CellGrid(box=box, columns=columns, rows=rows, planar=True)
    clock = Clock(start=START, end=START + timedelta(days=2), time_zone="UTC")
    return PathSetting(**{"grid": grid, "step_s": 60, "clock": clock, "each_trip": True, **more})


def random_trips(count, seed, columns=SIDE, rows=SIDE):
    """Trips of three kinds, along a row or a column, most from west to east; some stay."""
    chance = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y, tick, trip = int(chance.integers(max(columns // 2, 1))), int(chance.integers(rows)), 0, []
        way = [(1, 0), (1, 0), (0, 1), (1, -1)][chance.integers(4)]
        for _ in range(int(chance.integers(1, 9))):
            stay = int(chance.choice([0, 0, 0, 1, 4]))
            trip.append((y * columns + x, tick, stay))
            tick += stay + 1
            if not (0 <= x + way[0] < columns and 0 <= y + way[1] < rows):
                break
            x, y = x + way[0], y + way[1]
        trips.append(trip)
    return trips


def queries(trips, setting, unit=None, **other):
    """Query interface to trips; `other` are bounds that are not those of the setting."""
    hours = np.random.default_rng(len(trips)).choice([8, 9, 17], len(trips))
    public = {"step_s": setting.step_s, "cap": setting.cap, "each_trip": setting.each_trip, **other}
    start_us = setting.clock.edges_us[hours] + 5
    return PathQueries(exact_paths(setting.grid, trips, unit, start_us=start_us, **public))


def recorded(mechanism, trips, seed=1, **more):
    noise = RecordingNoise(SeededNoise(seed), bytes(16))
    return mechanism.measure(queries(trips, mechanism.setting, **more), noise), noise.calls


def cost(calls, cap=1):
    """The exact loss of the worst unit: trips change by cap, each table by norm 1."""
    total = Fraction(0)
    for call in calls:
        moved = cap if call.name == "trips" else LATTICE
        ratio = Fraction(moved) / Fraction(call.scale)
        total += ratio if call.kind == "laplace" else ratio**2 / 2
    return total


ABLATED = {
    "flows": {"flows"},
    "turns": {"turns", "corners"},
    "corners": {"corners"},
    "times": {"days", "hours", "start_tides", "end_tides", "durations", "paces"},
    "tides": {"start_tides", "end_tides"},
}


@for_each("delta", [None, 1e-6])
@for_each("each_trip", [True, False])
@for_each("part", [None, *ABLATED, "levels"])
@for_each("epsilon", [0.3, 1e5])
def test_noise_costs_what_is_said_and_all_of_the_budget(epsilon, part, each_trip, delta):
    """With many trips, so that corners are measured where the noise allows."""
    parts = Parts(**({part: False} if part else {}))
    public = setting(each_trip=each_trip, cap=1 if each_trip else 5)
    budget = Budget.of(epsilon, delta)
    mechanism = SyntheticBridges.within(budget, public, parts=parts)
    noisy, calls = recorded(mechanism, random_trips(60, 1))
    assert [call.name for call in calls] == ["trips"] + ["tables"] * (len(calls) - 1)
    kind = "laplace" if delta is None else "gaussian"
    assert {call.kind for call in calls} == {kind}
    for name in ("trips", "tables"):
        loss = dict(mechanism.spends())[name]
        said = Fraction(loss.pure_epsilon_nano if delta is None else loss.rho_nano, NANO)
        spent = cost([call for call in calls if call.name == name], public.cap)
        assert said - Fraction(len(calls), NANO) <= spent <= said
    total = mechanism.loss()
    assert (total.pure_epsilon_nano if delta is None else total.rho_nano) == budget.left
    missing = {name for name, value in vars(noisy).items() if value is None}
    assert missing | {"corners"} == ABLATED.get(part or "", set()) | {"corners"}
    assert ("corners" in missing) == (epsilon < 1 or not each_trip or part in ("turns", "corners"))
    assert len(noisy.starts) == len(noisy.ends) == (1 if part == "levels" else 2)


def test_a_declared_number_of_trips_is_not_measured_and_a_small_budget_refused():
    mechanism = SyntheticBridges.within(Budget.of(1.0, None), setting(trips=70))
    noisy, calls = recorded(mechanism, random_trips(60, 1))
    assert {call.name for call in calls} == {"tables"}
    assert noisy.trips == 70
    assert [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()] == [("tables", NANO)]
    with pytest.raises(PlanError, match="nothing is left"):
        SyntheticBridges.within(Budget.of(1e-7, None), setting())


@pytest.mark.parametrize("epsilon", [1.0, 1e5])
def test_the_same_answers_make_the_same_questions_and_model_of_any_trips(epsilon):
    """Corners, regions and all that is drawn follow from noisy answers, whatever the trips are."""
    public = setting()
    mechanism = SyntheticBridges.within(Budget.of(epsilon, None), public)
    trips = random_trips(100, 2)
    noise = RecordingNoise(SeededNoise(3), bytes(16))
    model = mechanism(queries(trips, public), noise)
    for others in (trips[1:], random_trips(40, 9), []):
        try:
            again = mechanism(queries(others, public), ReplayNoise(noise.calls, bytes(16)))
        except CallsDiffer as differs:
            pytest.fail(str(differs))
        numbers = again.numbers()
        assert all(np.array_equal(value, numbers[name]) for name, value in model.numbers().items())
        assert np.array_equal(model.generate(50, 3).cells, again.generate(50, 3).cells)


def check_valid(paths, public, count):
    assert paths.count == count
    assert paths.cells.min() >= 0
    assert paths.cells.max() < public.grid.count
    assert (np.diff(paths.first) >= 1).all()
    assert (paths.directions >= 0).all()
    assert (paths.tick[paths.first[:-1]] == 0).all()
    assert (paths.stay >= 0).all()
    at = paths.move_at
    assert (paths.tick[at + 1] - paths.tick[at] - paths.stay[at] >= 0).all()
    edges = public.clock.edges_us
    assert edges[0] <= paths.start_us.min() <= paths.start_us.max() < edges[-1]


@for_each("each_trip", [True, False])
@for_each("delta", [None, 1e-6])
@for_each(("count", "epsilon"), [(0, 1.0), (1, 1.0), (0, 0.0001), (50, 0.0001), (1, 1e5)])
def test_every_output_is_valid(count, epsilon, delta, each_trip):
    if delta is not None:
        epsilon = max(epsilon, 0.01)  # below, rho has no nano for every table
    public = setting(each_trip=each_trip, trips=1 + 20 * count)
    mechanism = SyntheticBridges.within(Budget.of(epsilon, delta), public, parts=FAST)
    for seed in range(2):
        model = mechanism(queries(random_trips(count, 4), public), SeededNoise(seed))
        check_valid(model.generate(300, seed), public, 300)
        assert all(np.isfinite(value).all() for value in model.numbers().values())


@for_each(("columns", "rows"), [(1, 1), (1, 2), (2, 1), (1, 12), (2, 2), (3, 1), (2, 30)])
@for_each("epsilon", [0.01, 100.0])
def test_grids_of_any_shape(columns, rows, epsilon):
    public = setting(columns, rows, trips=200)
    trips = random_trips(100, 5, columns, rows)
    mechanism = SyntheticBridges.within(Budget.of(epsilon, None), public, parts=FAST)
    check_valid(mechanism(queries(trips, public), SeededNoise(1)).generate(200, 1), public, 200)


def test_trips_follow_from_the_seed():
    public = setting()
    mechanism = SyntheticBridges.within(Budget.of(5.0, None), public, parts=FAST)
    model, again = (mechanism(queries(random_trips(200, 6), public), SeededNoise(2)) for _ in range(2))
    one, same, other = model.generate(100, 1), again.generate(100, 1), model.generate(100, 2)
    for name in ("first", "cells", "tick", "stay", "start_us"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
    assert not np.array_equal(one.cells[:50], other.cells[:50])
    assert model.generate(0, 1).count == 0


def test_another_query_interface_is_refused():
    trips, public = random_trips(4, 7), setting()
    users = setting(each_trip=False, cap=2)
    mechanism = SyntheticBridges.within(Budget.of(1.0, None), users)
    for wrong in (
        queries(trips, setting(columns=16, rows=16, each_trip=False), cap=2),  # another grid
        queries(trips, public),  # a trip is the unit, the noise is for users
        queries(trips, users, cap=3),  # more trips than the noise is for
    ):
        noise = RecordingNoise(SeededNoise(1), bytes(16))
        with pytest.raises(GuaranteeError):
            mechanism(wrong, noise)
        assert noise.calls == []


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_without_noise_synthetic_trips_are_like_real_ones(delta):
    public = setting()
    real = queries(random_trips(4000, 8), public)
    model = SyntheticBridges.within(Budget.of(1e5, delta), public)(real, SeededNoise(1))
    found = synthetic_utility(real.paths, model.generate(4000, 1))
    for name in ("distance", "length", "stay", "hour", "duration", "transition"):
        assert getattr(found, f"{name}_jsd") < 0.01, name
    assert found.visit_error < 0.01
    assert found.od_jsd < 0.03
    assert found.range_error < 0.08
    assert min(found.pattern_f1, found.pattern_f1_35, found.pattern_f1_dtw, found.hotspot_ndcg) > 0.9
    assert model.trips == pytest.approx(4000, abs=1)


def test_trips_encoded_as_units_are_refused_where_the_noise_is_for_users():
    """A user with 50 trips would else cost 50 times what is said; nobody has to say again what a unit is."""
    rows = {"user": np.zeros(50, np.int64), "trip": np.arange(50), "time_us": np.arange(50)}
    batch = pa.record_batch({**rows, "x": np.full(50, 1.0), "y": np.full(50, 1.0)})
    public = setting(each_trip=False, cap=5)
    mechanism = SyntheticBridges.within(Budget.of(1.0, None), public)
    own = {"grid": public.grid, "step_s": 60, "run_key": bytes(16)}
    users = encode_trips([batch], PathBound(**own, per_unit=99, cap=5))
    mechanism.measure(PathQueries(users), SeededNoise(1))
    trips = encode_trips([batch], PathBound(**own, each_trip=True))
    with pytest.raises(GuaranteeError, match="the noise is for a user"):
        mechanism.measure(PathQueries(trips), SeededNoise(1))
