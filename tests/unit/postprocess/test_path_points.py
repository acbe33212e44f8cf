"""Points of synthetic paths, which encode to the paths again, and the stays and times they are made of."""

from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.loops import for_each

from shoal.engine.engine import encode_trips
from shoal.engine.path_trips import PathBound, PathQueries
from shoal.mechanisms.audit_size import path_setting
from shoal.mechanisms.synthetic.bridges import SyntheticBridges
from shoal.postprocess.synthetic.bridge_tables import block_sides, blocks_of
from shoal.postprocess.synthetic.path_points import (
    MARGIN,
    decimals_of,
    path_points,
    place_stays,
    start_times,
    ticks_of,
)
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cell_paths import DURATION_BINS, MOVE_CLASSES, PACES
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock
from shoal.space.trip_setting import PathSetting
from shoal.stages.synthetic import NoisyTable, SyntheticPaths
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
    """Random points of real-like trips, encoded: paths with stays, gaps and quick parts."""
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


def test_quick_visits_between_ticks_whole_seconds_and_no_trips():
    paths = SyntheticPaths.of(GLOBE, 60, [[(0, 0, 0), (35, 0, 0), (70, 0, 0), (105, 1, 0)]])
    points = path_points(paths, 1)
    assert (points.time_us / 1_000_000).tolist() == [0, 20, 40, 60]
    assert points.number.tolist() == [0, 1, 2, 3]
    paths = SyntheticPaths.of(GLOBE, 60, [[(5, 0, 1)]])
    paths = replace(paths, start_us=np.array([1_772_406_000_654_321]))
    assert path_points(paths, 1).time_us.tolist() == [1_772_406_000_000_000, 1_772_406_060_000_000]
    assert path_points(SyntheticPaths.of(GLOBE, 60, []), 1).x.size == 0


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


ALARM = 1e-6
WIDE, HIGH = 12, 10
GRID = CellGrid(box=(0, 0, WIDE, HIGH), columns=WIDE, rows=HIGH, planar=True)
CLOCK = Clock(start=datetime(2026, 3, 27), end=datetime(2026, 3, 30), time_zone="Europe/Paris")
SETTING = PathSetting(grid=GRID, step_s=60, clock=CLOCK)  # a Friday, a Saturday, a Sunday of 23 hours
CLASSES, BINS = MOVE_CLASSES.size + 1, DURATION_BINS.size + 1
BLOCKS = blocks_of(GRID, block_sides(GRID)[-1])[1]


EAST = (np.arange(GRID.count) % WIDE >= WIDE // 2).astype(np.int64)  # two regions


def noisy(durations=None, paces=None, days=None, hours=None, tides=(None, None)):
    """All that times ask for; exact but for a little noise."""
    tables = {"durations": durations, "paces": paces, "days": days, "hours": hours}
    tables |= {"start_tides": tides[0], "end_tides": tides[1]}
    made = {
        name: None if v is None else NoisyTable(np.asarray(v, float).ravel(), 1e-3)
        for name, v in tables.items()
    }
    return SimpleNamespace(setting=SETTING, tide_region_of_cell=EAST, **made)


def anywhere(count, seed=5):
    """Cells that trips begin and end at."""
    return np.random.default_rng(seed).integers(0, GRID.count, (2, count))


def walks(count, seed, straight=0.6):
    """first and cells of walks that mostly go on as they went."""
    chance = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y, trip = int(chance.integers(WIDE)), int(chance.integers(HIGH)), []
        way = chance.integers(-1, 2, 2)
        for _ in range(int(chance.integers(1, 25))):
            trip.append(y * WIDE + x)
            while (
                chance.random() > straight
                or not way.any()
                or not (0 <= x + way[0] < WIDE and 0 <= y + way[1] < HIGH)
            ):
                way = chance.integers(-1, 2, 2)
            x, y = x + int(way[0]), y + int(way[1])
        trips.append(trip)
    return np.cumsum([0, *map(len, trips)]), np.concatenate(trips).astype(np.int32)


def durations(ratios):
    """Every class of moves has these shares of ticks per move."""
    return np.tile(np.asarray(ratios, float) * 1e6, (CLASSES, 1))


def encoded_at_ticks(first, cells, tick, stay):
    """Points at every tick at which a visit begins or goes on, encoded again."""
    rows = []
    for trip in range(first.size - 1):
        last = -1
        for at in range(first[trip], first[trip + 1]):
            for now in range(tick[at], tick[at] + stay[at] + 1):
                if now > last:  # a visit within a step has no point of its own
                    rows.append((trip, now, cells[at] % WIDE + 0.5, cells[at] // WIDE + 0.5))
                    last = now
    trip, now, x, y = (np.array(column) for column in zip(*rows, strict=True))
    points = SimpleNamespace(trip=trip, time_us=now * 60_000_000, x=x, y=y)
    return encoded(points, GRID, 60)


@for_each("straight", [0.3, 0.95])
@for_each("place", [0, 2, 4, 7, 9])
def test_points_at_ticks_encode_to_the_same_paths(place, straight):
    """From several cells within a step to several steps per cell."""
    first, cells = walks(400, seed=place, straight=straight)
    total = np.random.default_rng(place).choice([0, 0, 1, 5], 400)
    stay = place_stays(first, cells, total, np.ones(GRID.count), seed=1)
    paces = np.ones((BLOCKS, PACES)) * 1e4
    tick = ticks_of(first, cells, stay, GRID, noisy(durations(np.eye(BINS)[place]), paces), seed=2)
    found = encoded_at_ticks(first, cells, tick, stay)
    assert np.array_equal(found.first, first)
    for name, value in (("cells", cells), ("tick", tick), ("stay", stay)):
        assert np.array_equal(getattr(found, name), value), name


def test_a_step_per_move_without_tables():
    first, cells = walks(50, seed=3)
    stay = place_stays(first, cells, np.arange(50) % 4, np.ones(GRID.count), seed=1)
    tick = ticks_of(first, cells, stay, GRID, noisy(), seed=2)
    for trip in range(50):
        own = slice(first[trip], first[trip + 1])
        assert tick[own].tolist() == np.concatenate([[0], np.cumsum(stay[own] + 1)[:-1]]).tolist()


@for_each("place", range(BINS))
def test_ticks_per_move_follow_the_table(place):
    """Straight trips of 20 moves, so that any pace can be had, and no stays."""
    first = np.arange(0, 21 * 301, 21)
    line = np.concatenate([np.arange(11), np.arange(9, -1, -1)])[:21]
    cells = np.tile(line, 300).astype(np.int32)
    stay = np.zeros(cells.size, np.int32)
    paces = np.ones((BLOCKS, PACES)) * 1e4
    tick = ticks_of(first, cells, stay, GRID, noisy(durations(np.eye(BINS)[place]), paces), seed=5)
    ratio = tick[first[1:] - 1] / 20
    edges = np.concatenate([[0.0], DURATION_BINS, [np.inf]])
    inside = (ratio > edges[place] - 0.03) & (ratio <= edges[place + 1] + 0.03)
    assert inside.mean() > (0.9 if place == 0 else 0.98)  # at most 6 cells are passed at once
    if place == 4:
        assert (ratio == 1).all()


def test_moves_are_slow_where_paces_are():
    first = np.arange(0, 12 * 501, 12)
    cells = np.tile(np.arange(12), 500).astype(np.int32)
    paces = np.zeros((BLOCKS, PACES))
    block = blocks_of(GRID, block_sides(GRID)[-1])[0]
    paces[:, 1], paces[block[0]] = 1e6, [0, 0, 1e6, 0]
    tick = ticks_of(
        first, cells, np.zeros(cells.size, np.int32), GRID, noisy(durations(np.eye(BINS)[6]), paces), seed=1
    )
    took = np.diff(tick.reshape(500, 12), axis=1).mean(axis=0)
    slow = block[:11] == block[0]
    assert took[slow].min() > took[~slow].max()


def test_stays_sum_to_their_totals_and_follow_the_rate():
    first, cells = walks(800, seed=4)
    total = np.random.default_rng(1).integers(0, 12, 800)
    rate = np.where(np.arange(GRID.count) % WIDE < 6, 0.0, 1.0)
    stay = place_stays(first, cells, total, rate, seed=1)
    assert np.array_equal(np.add.reduceat(stay, first[:-1]), total)
    west = cells % WIDE < 6
    east_too = np.add.reduceat(~west, first[:-1]) > 0
    assert not stay[west & np.repeat(east_too, np.diff(first))].any()
    assert not np.array_equal(stay, place_stays(first, cells, total, rate, seed=2))
    cells = np.tile(np.arange(4), 20_000).astype(np.int32)
    rate = np.array([1.0, 0.0, 2.0, 5.0] + [9.0] * (GRID.count - 4))
    stay = place_stays(np.arange(0, 80_001, 4), cells, np.ones(20_000, int), rate, seed=3)
    seen = stay.reshape(-1, 4).sum(axis=0)
    assert seen[1] == 0
    assert stats.chisquare(seen[[0, 2, 3]], [2500, 5000, 12_500]).pvalue > ALARM


def test_starts_follow_days_and_hours():
    days, hours = np.array([2e6, 1e6, 1e6]), np.zeros(48)
    hours[[8, 17]], hours[[24 + 2, 24 + 12]] = [3e6, 1e6], [1e6, 1e6]
    start = start_times(noisy(days=days, hours=hours), *anywhere(40_000), seed=1)
    slot = CLOCK.slot_of(start)
    assert (slot >= 0).all()
    seen = np.bincount(slot, minlength=CLOCK.slots)
    often = {8: 15_000, 17: 5000, 24 + 2: 5000, 24 + 12: 5000, 48 + 11: 10_000}  # no 2 o'clock on Sunday
    assert stats.chisquare([seen[s] for s in often], list(often.values())).pvalue > ALARM
    assert seen.sum() == sum(seen[s] for s in often)
    within = (start - CLOCK.edges_us[slot]) / 3.6e9
    assert stats.kstest(within, "uniform").pvalue > ALARM


def test_starts_are_even_without_tables_and_in_the_window_whatever_the_noise_is():
    even = start_times(noisy(), *anywhere(30_000), seed=1)
    seen = np.bincount(CLOCK.slot_of(even), minlength=CLOCK.slots)
    expected = 10_000 * CLOCK.minutes / np.bincount(CLOCK.day_of_slot, CLOCK.minutes)[CLOCK.day_of_slot]
    assert stats.chisquare(seen, expected).pvalue > ALARM
    chance = np.random.default_rng(1)
    for size in (1e-3, 1e9):
        days, hours = -chance.random(3) * size, chance.normal(0, size, 48)
        for tides in ((None, None), chance.normal(0, size, (2, 12)), np.full((2, 12), -size)):
            wild = start_times(noisy(days=days, hours=hours, tides=tides), *anywhere(1000), seed=1)
            assert CLOCK.edges_us[0] <= wild.min() <= wild.max() < CLOCK.edges_us[-1]
    assert start_times(noisy(tides=np.zeros((2, 12))), *anywhere(0), seed=1).size == 0


def test_hours_follow_the_tide_of_their_regions():
    """From the west in the morning, from the east in the evening; the hours of all stay what hours say."""
    hours = np.zeros(48)
    hours[[8, 17, 24 + 12]] = 3e6, 3e6, 6e6
    tides = np.zeros((2, 2, 6))
    tides[:, :, 5] = 3e6  # half of all on the weekend
    tides[0, 0, [1, 3]] = 2e6, 1e6  # start in the west
    tides[0, 1, [1, 3]] = 1e6, 2e6
    tides[1, 0, [1, 3]] = 1e6, 2e6  # end in the west
    tides[1, 1, [1, 3]] = 2e6, 1e6
    begin, end = anywhere(80_000)
    start = start_times(noisy(days=[2e6, 1e6, 1e6], hours=hours, tides=tides), begin, end, seed=1)
    slot = CLOCK.slot_of(start)
    friday = slot < 24
    assert np.mean(friday) == pytest.approx(0.5, abs=0.01)
    assert np.mean(slot[friday] == 8) == pytest.approx(0.5, abs=0.01)
    east = np.stack([EAST[begin], EAST[end]])
    for side, region, share in ((0, 0, 2 / 3), (0, 1, 1 / 3), (1, 0, 1 / 3), (1, 1, 2 / 3)):
        assert np.mean(slot[friday & (east[side] == region)] == 8) == pytest.approx(share, abs=0.015)
    # Both ends say so: more than either alone; within the west they cancel.
    assert np.mean(slot[friday & (east[0] < east[1])] == 8) > 0.75
    assert np.mean(slot[friday & (east[0] == east[1])] == 8) == pytest.approx(0.5, abs=0.02)


def test_noise_hides_tides_before_it_makes_any():
    chance, made, apart = np.random.default_rng(3), noisy(hours=np.repeat([4e3, 2e3], 24)), []
    begin, end = anywhere(20_000)
    for seed in range(20):
        made.start_tides, made.end_tides = (NoisyTable(100 + chance.normal(0, 1e4, 12), 1e4) for _ in "ab")
        friday = CLOCK.slot_of(start_times(made, begin, end, seed)) < 24
        apart.append(abs(np.mean(friday[EAST[begin] == 0]) - np.mean(friday[EAST[begin] == 1])))
    assert np.mean(apart) < 0.05  # 0.3 if noisy tides were taken as they are
    assert max(apart) < 0.3
