"""Points of synthetic paths: encoding them gives the paths back, bit by bit."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loops import for_each

from shoal.engine.engine import encode_trips
from shoal.engine.path_trips import PathBound, PathQueries
from shoal.mechanisms.audit_size import path_setting
from shoal.mechanisms.synthetic.bridges import SyntheticBridges
from shoal.postprocess.synthetic.path_points import MARGIN, decimals_of, path_points
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cells import CellGrid
from shoal.stages.synthetic import SyntheticPaths
from shoal_baselines.mechanisms.synthetic_markov import SyntheticMarkov
from shoal_baselines.mechanisms.synthetic_ngram import SyntheticNgram
from shoal_baselines.mechanisms.synthetic_prefix import SyntheticPrefix

GLOBE = CellGrid(box=(-122.52, 37.70, -122.36, 37.83), columns=34, rows=35)


def encoded(points, grid, step_s, jump_m=None):
    """The points read again, every trip a user of its own."""
    bound = PathBound(grid=grid, per_unit=10**6, step_s=step_s, jump_m=jump_m, run_key=b"0123456789abcdef")
    batch = pa.record_batch(
        {
            "user": points.trip,
            "trip": np.zeros(points.trip.size, np.int64),
            "time_us": points.time_us,
            "x": points.x,
            "y": points.y,
        }
    )
    return encode_trips([batch], bound)


def same(one, other):
    for name in ("first", "cells", "tick", "stay"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


def walked(grid, step_s, trips, seed):
    """Random points of real-like trips, encoded: paths with stays, gaps and quick stretches."""
    rng = np.random.default_rng(seed)
    west, south, east, north = grid.box
    rows = []
    for trip in range(trips):
        at, now = rng.uniform((west, south), (east, north)), 0
        for _ in range(rng.integers(1, 20)):
            rows.append((trip, 0, now, *at))
            now += int(rng.choice([20, 60, 60, 60, 61, 200])) * 1_000_000
            reach = np.array([east - west, north - south]) * rng.choice([0.0, 0.01, 0.05, 0.2])
            at = np.clip(at + rng.uniform(-1, 1, 2) * reach, (west, south), (east, north))
    user, number, time, x, y = (np.array(column) for column in zip(*rows, strict=True))
    batch = pa.record_batch({"user": user, "trip": number, "time_us": time, "x": x, "y": y})
    bound = PathBound(grid=grid, per_unit=1, step_s=step_s, run_key=b"0123456789abcdef")
    return encode_trips([batch], bound)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    step_s=st.sampled_from([1.0, 7.5, 60.0, 300.0]),
    each_trip=st.booleans(),
    epsilon=st.sampled_from([0.05, 1.0, 50.0]),
    kind=st.sampled_from([SyntheticBridges, SyntheticMarkov, SyntheticNgram, SyntheticPrefix]),
)
def test_points_of_drawn_trips_encode_to_the_trips(seed, step_s, each_trip, epsilon, kind):
    setting = replace(path_setting(each_trip=each_trip, cells=9), step_s=step_s)
    exact = replace(walked(setting.grid, step_s, 40, seed), each_trip=each_trip)
    mechanism = kind.within(Budget.of(epsilon, None), setting)
    model = mechanism(PathQueries(exact), SeededNoise(seed))
    paths = model.generate(200, seed)
    same(encoded(path_points(paths, seed), setting.grid, step_s), paths)


@for_each(
    "trip",
    [
        [(5, 0, 0)],  # a trip of one point
        [(5, 0, 7)],
        [(0, 0, 0), (35, 0, 0), (70, 1, 0)],  # two moves within a step
        [(0, 0, 2), (35, 2, 0), (70, 2, 0), (105, 3, 1), (106, 9, 0)],  # quick after a stay, then a gap
    ],
)
def test_single_trips_come_back(trip):
    paths = SyntheticPaths.of(GLOBE, 60, [trip])
    same(encoded(path_points(paths, 3), GLOBE, 60), paths)


def test_quick_visits_lie_between_two_ticks():
    paths = SyntheticPaths.of(GLOBE, 60, [[(0, 0, 0), (35, 0, 0), (70, 0, 0), (105, 1, 0)]])
    points = path_points(paths, 1)
    assert (points.time_us / 1_000_000).tolist() == [0, 20, 40, 60]
    assert points.number.tolist() == [0, 1, 2, 3]


def test_points_differ_and_keep_from_the_border():
    trip = [(17 * 34 + 10 + i, i, 0) for i in range(10)]
    paths = SyntheticPaths.of(GLOBE, 60, [trip] * 200)
    points = path_points(paths, 5)
    column = (points.x - GLOBE.box[0]) / GLOBE.cell_size[0]
    row = (points.y - GLOBE.box[1]) / GLOBE.cell_size[1]
    for part in (column % 1, row % 1):
        assert part.min() > MARGIN - 0.02
        assert part.max() < 1 - MARGIN + 0.02
        assert part.std() > 0.1
    assert np.unique(points.x).size > 1500
    assert np.abs(points.x - points.x.round(decimals_of(GLOBE))).max() == 0


def test_a_trip_has_the_same_points_whatever_else_is_asked_for():
    rng = np.random.default_rng(1)
    paths = SyntheticPaths.of(
        GLOBE, 60, [[(int(cell), 0, int(stay))] for cell, stay in rng.integers(0, 9, (50, 2))]
    )
    whole, part = path_points(paths, 7), path_points(paths, 7, 20, 30)
    of_part = (whole.trip >= 20) & (whole.trip < 30)
    for name in ("trip", "number", "time_us", "x", "y"):
        np.testing.assert_array_equal(getattr(whole, name)[of_part], getattr(part, name))
    assert not np.array_equal(path_points(paths, 8).x, whole.x)


def test_trips_start_at_whole_seconds():
    paths = SyntheticPaths.of(GLOBE, 60, [[(5, 0, 1)]])
    paths = replace(paths, start_us=np.array([1_772_406_000_654_321]))
    assert path_points(paths, 1).time_us.tolist() == [1_772_406_000_000_000, 1_772_406_060_000_000]


def test_no_trips_have_no_points():
    assert path_points(SyntheticPaths.of(GLOBE, 60, []), 1).x.size == 0
