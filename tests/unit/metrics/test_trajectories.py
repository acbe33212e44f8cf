"""Spans, suppression and density error of boxes: hand-made cases, and random ones against plain loops."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.metrics.trajectories import (
    LocalClock,
    covering_boxes,
    granularity,
    grouped_figures,
    suppressed_share,
    trajectory_utility,
)
from shoal.metrics.trajectory_density import CoarseGrid, box_density, density_error, hourly_maps, raw_density
from shoal.stages.trajectories import Boxes, LatticeSamples

UNIT = {"minutes": 2, "metres": 100.0}


def samples_of(rows, users=2, steps=100):
    user, t, x, y = np.array(rows, np.int64).reshape(-1, 4).T
    return LatticeSamples.of(user, t, x, y, users=users, steps=steps)


def boxes_of(rows, records=2):
    return Boxes.of(*np.array(rows, np.int64).reshape(-1, 7).T, records=records)


# User 0: three samples in a box of 3 x (2 + 4), one alone; user 1: one in a box, one suppressed.
SAMPLES = samples_of([(0, 1, 5, 5), (0, 2, 6, 8), (0, 3, 5, 6), (0, 50, 0, 0), (1, 2, 5, 5), (1, 9, 9, 9)])
BOXES = boxes_of([(0, 1, 3, 5, 6, 5, 8), (0, 50, 50, 0, 0, 0, 0), (1, 2, 2, 5, 5, 4, 5)])


COVERING = covering_boxes(SAMPLES, BOXES)


def test_spans_count_both_ends_and_samples_weigh_their_box():
    figures = granularity(BOXES, COVERING, **UNIT)
    # Per sample the spaces are 600 m three times, 200 m, 300 m; the times 6 min three times, 2 min twice.
    assert (figures.per_sample.count, figures.per_box.count) == (5, 3)
    assert figures.per_sample.space_m.mean == pytest.approx((3 * 600 + 200 + 300) / 5)
    assert figures.per_sample.space_m.median == 600
    assert (figures.per_sample.space_m.q1, figures.per_sample.space_m.q3) == (300, 600)
    assert figures.per_sample.time_min.mean == pytest.approx(4.4)
    assert (figures.per_sample.time_min.q1, figures.per_sample.time_min.median) == (2, 6)
    assert figures.per_box.space_m.mean == pytest.approx((600 + 200 + 300) / 3)
    assert figures.per_box.space_m.median == 300
    assert figures.per_box.time_min.median == 2


def test_a_sample_counts_in_the_smallest_box_of_its_own_record():
    assert covering_boxes(SAMPLES, BOXES).tolist() == [0, 0, 0, 1, 2, -1]
    assert suppressed_share(COVERING) == pytest.approx(1 / 6)
    swapped = boxes_of([(1, 1, 3, 5, 6, 5, 8)])
    assert covering_boxes(SAMPLES, swapped).tolist() == [-1, -1, -1, -1, 0, -1]
    shrunk = boxes_of([(0, 1, 3, 5, 6, 5, 7)])
    assert covering_boxes(SAMPLES, shrunk).tolist()[:3] == [0, -1, 0]
    samples = samples_of([(0, 5, 0, 0), (0, 30, 0, 0)])
    boxes = boxes_of([(0, 0, 40, 0, 9, 0, 9), (0, 4, 6, 0, 1, 0, 1), (0, 5, 7, 3, 4, 3, 4)])
    assert covering_boxes(samples, boxes).tolist() == [1, 0]


def test_by_hour_and_day():
    hours = np.arange(100) // 10  # ten steps an hour
    figures = grouped_figures(SAMPLES, BOXES, COVERING, hours, groups=24, **UNIT)
    assert figures.samples[:6].tolist() == [5, 0, 0, 0, 0, 1]
    assert figures.suppressed_share[0] == pytest.approx(1 / 5)
    assert np.isnan(figures.suppressed_share[1])
    assert figures.mean_space_m[0] == pytest.approx((3 * 600 + 300) / 4)
    assert figures.median_space_m[0] == 600
    assert figures.median_space_m[5] == 200
    assert figures.mean_time_min[0] == pytest.approx(5)
    days = grouped_figures(SAMPLES, BOXES, COVERING, np.arange(100) // 50, groups=2, **UNIT)
    assert days.samples.tolist() == [5, 1]
    assert days.suppressed_share.tolist() == pytest.approx([1 / 5, 0])


def test_nothing_released_and_nothing_seen():
    nothing = boxes_of([])
    figures = granularity(nothing, covering_boxes(SAMPLES, nothing), **UNIT)
    assert suppressed_share(covering_boxes(SAMPLES, nothing)) == 1
    assert figures.per_sample.count == 0
    assert np.isnan(figures.per_sample.space_m.median)
    error = density_error(SAMPLES, nothing)
    assert (error.relative_error, error.total_variation, error.total_ratio) == (1, 1, 0)
    empty = samples_of([])
    assert np.isnan(suppressed_share(covering_boxes(empty, nothing)))
    assert np.isnan(density_error(empty, nothing).relative_error)


def test_a_wrong_number_of_records_or_steps_is_an_error():
    with pytest.raises(PlanError, match="record j must be user j's"):
        covering_boxes(SAMPLES, boxes_of([], records=3))
    with pytest.raises(PlanError, match="one group per step"):
        grouped_figures(SAMPLES, BOXES, COVERING, np.zeros(99, int), groups=24, **UNIT)
    far = samples_of([(0, 0, 0, 0), (0, 1, 10**6, 10**6)])
    with pytest.raises(PlanError, match="coarse cells"):
        density_error(far, boxes_of([]), cell_cells=1)


def test_density_error_by_hand():
    """One slot: raw 2 users in cell 0, 1 in cell 1. Boxes: one half in each, one exact, one missing."""
    samples = samples_of([(0, 0, 9, 0), (1, 0, 0, 0), (2, 0, 10, 0)], users=3, steps=10)
    boxes = boxes_of([(0, 0, 0, 9, 10, 0, 0), (1, 0, 0, 0, 0, 0, 0)], records=3)
    error = density_error(samples, boxes, cell_cells=10, slot_steps=10)
    assert error.relative_error == pytest.approx((0.5 + 0.5) / 3)
    assert error.total_variation == pytest.approx(2 / 3 * 0 + abs(1.5 / 2 - 2 / 3))
    assert error.total_ratio == pytest.approx(2 / 3)
    samples = samples_of([(0, 9, 9, 0), (1, 9, 9, 0)])
    # Steps 8..11 over slots of 10, columns 9..10 over cells of 10: a quarter in each of four, twice.
    boxes = boxes_of([(0, 8, 11, 9, 10, 0, 0), (0, 8, 11, 9, 10, 1, 1)])
    grid = CoarseGrid(
        first_x=0, first_y=0, columns=2, rows=1, first_slot=0, slots=2, cell_cells=10, slot_steps=10
    )
    assert box_density(boxes, grid).ravel().tolist() == pytest.approx([1 - 0.75**2] * 4)
    assert raw_density(samples, grid).ravel().tolist() == [2, 0, 0, 0]


def test_maps_by_hour_are_means_over_days(monkeypatch):
    samples, boxes = random_case(5)
    grid = CoarseGrid.around(samples, cell_cells=7, slot_steps=5)
    raw, released = raw_density(samples, grid), box_density(boxes, grid)
    hours = np.repeat([0, 1, 2, 0, 1, 2, 0, 23], 5)
    monkeypatch.setattr("shoal.metrics.trajectory_density.AT_ONCE", 40)
    maps = hourly_maps(samples, boxes, hours, cell_cells=7, slot_steps=5)
    for hour, slots in ((0, [0, 3, 6]), (2, [2, 5]), (23, [7])):
        np.testing.assert_allclose(maps.raw[hour], raw[slots].mean(axis=0))
        np.testing.assert_allclose(maps.released[hour], released[slots].mean(axis=0))
    assert maps.raw.sum() > 0
    assert not maps.raw[3:23].any()


def random_case(seed):
    rng = np.random.default_rng(seed)
    users, steps = 5, 40
    rows = np.column_stack([rng.integers(0, high, 60) for high in (users, steps, 25, 25)]) - [0, 0, 12, 12]
    boxes = []
    for record in range(users):
        cuts = np.sort(rng.choice(steps, 8, replace=False))
        for begin, end in itertools.pairwise(cuts.tolist()):
            (x0, x1), (y0, y1) = (np.sort(rng.integers(-12, 13, 2)) for _ in range(2))
            if rng.random() < 0.7:
                boxes.append((record, begin, end - 1, x0, x1, y0, y1))
    return samples_of(rows, users, steps), boxes_of(boxes, users)


@pytest.mark.parametrize("seed", range(20))
def test_random_cases_against_plain_loops(seed, monkeypatch):
    samples, boxes = random_case(seed)
    found = []
    for u, t, x, y in zip(samples.user, samples.t, samples.x, samples.y, strict=True):
        inside = [
            box
            for box in range(boxes.count)
            if boxes.record[box] == u
            and boxes.t0[box] <= t <= boxes.t1[box]
            and boxes.x0[box] <= x <= boxes.x1[box]
            and boxes.y0[box] <= y <= boxes.y1[box]
        ]
        found.append(inside[0] if inside else -1)
    assert covering_boxes(samples, boxes).tolist() == found
    raw, released = density_by_points(samples, boxes, cell=7, slot=9)
    keys = set(raw) | set(released)
    totals = [sum(each.values()) for each in (raw, released)]
    wrong = 0.0
    for slot in {key[0] for key in keys}:
        here = [key for key in keys if key[0] == slot]
        x, r = (sum(each.get(key, 0) for key in here) for each in (raw, released))
        if x and r:
            wrong += x * sum(abs(released.get(key, 0) / r - raw.get(key, 0) / x) for key in here) / 2
        else:
            wrong += x
    monkeypatch.setattr("shoal.metrics.trajectory_density.AT_ONCE", 40)  # several blocks of slots
    error = density_error(samples, boxes, cell_cells=7, slot_steps=9)
    apart = sum(abs(released.get(key, 0) - raw.get(key, 0)) for key in keys)
    assert error.relative_error == pytest.approx(apart / totals[0])
    assert error.total_ratio == pytest.approx(totals[1] / totals[0])
    assert error.total_variation == pytest.approx(wrong / totals[0])


def density_by_points(samples, boxes, cell, slot):
    """Both densities by walking every lattice point; coarse cells outside the samples' hull are cut off."""

    def place(t, x, y):
        return t // slot, x // cell, y // cell

    seen = {
        (int(u), place(*map(int, p)))
        for u, *p in zip(samples.user, samples.t, samples.x, samples.y, strict=True)
    }
    raw, released = {}, {}
    for _, key in seen:
        raw[key] = raw.get(key, 0) + 1
    (west, east), (south, north) = (
        (int(c.min()) // cell, int(c.max()) // cell) for c in (samples.x, samples.y)
    )
    for record in range(boxes.records):
        absent = {}
        for box in np.flatnonzero(boxes.record == record):
            axes = [
                range(int(low[box]), int(high[box]) + 1)
                for low, high in ((boxes.t0, boxes.t1), (boxes.x0, boxes.x1), (boxes.y0, boxes.y1))
            ]
            points = [place(*point) for point in itertools.product(*axes)]
            for key in set(points):
                absent[key] = absent.get(key, 1.0) * (1 - points.count(key) / len(points))
        for key, chance in absent.items():
            if west <= key[1] <= east and south <= key[2] <= north:
                released[key] = released.get(key, 0) + 1 - chance
    return raw, released


@for_each(
    ("zone", "start"),
    [
        ("Europe/Paris", datetime(2026, 3, 28, 22, 7, tzinfo=UTC)),  # summer time begins
        ("Europe/Paris", datetime(2026, 10, 24, 22, 0, tzinfo=UTC)),  # and ends
        ("Asia/Kathmandu", datetime(2026, 1, 1, 0, 3, tzinfo=UTC)),  # 5:45 ahead
        ("America/St_Johns", datetime(2026, 3, 7, 23, 59, tzinfo=UTC)),
    ],
)
def test_the_local_clock_is_the_wall_clock(zone, start):
    clock = LocalClock.of(start, steps=300, minutes=7, zone=ZoneInfo(zone))
    wall = [(start + timedelta(minutes=7 * step)).astimezone(ZoneInfo(zone)) for step in range(300)]
    assert clock.hour.tolist() == [each.hour for each in wall]
    assert clock.day.tolist() == [(each.date() - wall[0].date()).days for each in wall]
    assert clock.first_day == wall[0].date().isoformat()


def test_all_figures_together_are_those_taken_one_by_one():
    samples, boxes = random_case(99)
    clock = LocalClock.of(datetime(2026, 3, 2, tzinfo=UTC), steps=40, minutes=60, zone=UTC)
    utility = trajectory_utility(samples, boxes, clock=clock, **UNIT)
    assert utility.granularity == granularity(boxes, covering_boxes(samples, boxes), **UNIT)
    assert utility.suppressed_share == suppressed_share(covering_boxes(samples, boxes))
    assert utility.density == density_error(samples, boxes)
    assert utility.by_day.samples.tolist() == [int((samples.t < 24).sum()), int((samples.t >= 24).sum())]
    hours = grouped_figures(samples, boxes, covering_boxes(samples, boxes), clock.hour, groups=24, **UNIT)
    np.testing.assert_array_equal(utility.by_hour.mean_space_m, hours.mean_space_m)
    plain = utility.to_plain()
    assert (
        plain["granularity"]["per_sample"]["space_m"]["median"]
        == utility.granularity.per_sample.space_m.median
    )
