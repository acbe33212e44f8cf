"""Figures of synthetic trips against loops in plain Python, scipy and examples by hand."""

import math
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.metrics.patterns import (
    crossing_trips,
    distance_histogram,
    duration_histogram,
    length_histogram,
    od_matrix,
    stay_histogram,
    visits_per_cell,
)
from shoal.metrics.synthetic import (
    hotspot_ndcg,
    jsd,
    kendall_tau,
    range_error,
    stay_jsd_thesis,
    synthetic_utility,
)
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid, Rectangles, random_rectangles

GRID = CellGrid(box=(0.0, 0.0, 9 * 700.0, 11 * 500.0), columns=9, rows=11, planar=True)
HOUR_US = 3_600_000_000
PATTERN_FIGURES = ("pattern_f1", "pattern_f1_35", "pattern_f1_frechet", "pattern_f1_dtw")


def random_trips(seed, trips, grid=GRID, longest=60):
    """Lists of (cell, tick, stay), from one visit to `longest`."""
    generator = np.random.default_rng(seed)
    lists = []
    for _ in range(trips):
        x, y, tick = int(generator.integers(grid.columns)), int(generator.integers(grid.rows)), 0
        trip = []
        for _ in range(int(generator.integers(1, longest + 1))):
            stay = int(generator.integers(0, 4)) if generator.random() < 0.2 else 0
            if not trip or trip[-1][0] != y * grid.columns + x:
                trip.append((y * grid.columns + x, tick, stay))
                tick += stay + int(generator.integers(0, 3))
            x = min(max(x + int(generator.integers(-1, 2)), 0), grid.columns - 1)
            y = min(max(y + int(generator.integers(-1, 2)), 0), grid.rows - 1)
        lists.append(trip)
    return lists


def made(trips, grid=GRID):
    return CellPaths.of(grid, 60, trips)


def binned(values, bins):
    out = [0] * bins
    for value in values:
        out[min(int(value), bins - 1)] += 1
    return out


def at(cell, grid=GRID):
    return cell % grid.columns, cell // grid.columns


def test_jsd_against_scipy_and_of_nothing():
    generator = np.random.default_rng(1)
    for _ in range(20):
        p, q = generator.integers(0, 5, 12), generator.integers(0, 900, 12)
        assert jsd(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-12)
    assert jsd(np.array([[3, 1], [0, 0]]), np.array([[6, 2], [0, 0]])) == 0
    assert jsd(np.array([1, 0]), np.array([0, 7])) == 1
    nothing, some = np.zeros(3), np.array([0, 2, 1])
    assert (jsd(nothing, some), jsd(some, nothing), jsd(nothing, nothing)) == (1, 1, 0)
    with pytest.raises(PlanError, match="one shape"):
        jsd(np.ones(2), np.ones(3))


@for_each("seed", range(4))
def test_distances_against_all_pairs(seed):
    trips = [*random_trips(seed, 120), [(0, 0, 0), (98, 1, 0), (8, 2, 0)]]  # one jumps over rows
    reach = [
        max(
            math.dist((x * 700, y * 500), (u * 700, v * 500))
            for x, y in (at(cell) for cell, _, _ in trip)
            for u, v in (at(cell) for cell, _, _ in trip)
        )
        for trip in trips
    ]
    assert distance_histogram(made(trips)).tolist() == binned([far / 1000 for far in reach], 20)
    assert len(set(np.floor(np.array(reach) / 1000))) > 3


def test_histograms_of_distances_moves_stays_and_times():
    line = CellGrid(box=(0.0, 0.0, 30_000.0, 1_000.0), columns=30, rows=1, planar=True)
    trips = [[(cell, cell, 0) for cell in range(moves + 1)] for moves in (0, 1, 19, 20, 29)]
    assert np.flatnonzero(distance_histogram(made(trips, line))).tolist() == [0, 1, 19]
    assert distance_histogram(made(trips, line))[19] == 3
    trips = random_trips(7, 300, longest=70)
    paths = made(trips)
    assert length_histogram(paths).tolist() == binned([len(trip) - 1 for trip in trips], 41)
    assert stay_histogram(paths).tolist() == binned([sum(visit[2] for visit in trip) for trip in trips], 20)
    assert duration_histogram(paths).tolist() == binned([trip[-1][1] + trip[-1][2] for trip in trips], 61)
    for histogram in (length_histogram, stay_histogram, duration_histogram):
        assert histogram(paths)[-1] > 0  # the open bin was tried


def test_visits_and_starts_and_ends_against_loops():
    trips = random_trips(8, 200)
    visits, ends = np.zeros(GRID.count), np.zeros((36, 36))
    for trip in trips:
        for cell, _, _ in trip:
            visits[cell] += 1
        pair = [trip[0][0], trip[-1][0]]
        zone = [math.floor(at(cell)[1] / 11 * 6) * 6 + math.floor(at(cell)[0] / 9 * 6) for cell in pair]
        ends[zone[0], zone[1]] += 1
    assert np.array_equal(visits_per_cell(made(trips)), visits)
    assert np.array_equal(od_matrix(made(trips)), ends)


def test_rectangles_against_loops():
    real, synthetic = random_trips(9, 250), random_trips(10, 100, longest=20)
    rectangles = random_rectangles(GRID, 150, 4)  # more than two words of bits
    counts = []
    for trips in (real, synthetic):
        rows = []
        for x0, x1, y0, y1 in zip(rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1, strict=True):
            inside = [[x0 <= at(c)[0] < x1 and y0 <= at(c)[1] < y1 for c, _, _ in trip] for trip in trips]
            rows.append(sum(any(trip) for trip in inside))
        assert crossing_trips(made(trips), rectangles).tolist() == rows
        counts.append(rows)
    errors = [abs(a - b * 2.5) / max(a, 2.5) for a, b in zip(*counts, strict=True)]
    assert range_error(made(real), made(synthetic), rectangles) == pytest.approx(np.mean(errors))
    with pytest.raises(PlanError, match="leaves the grid"):
        crossing_trips(made(real), Rectangles.of([(0, 10, 0, 1)]))


def test_the_floor_of_the_range_error_and_stays_between_extremes():
    real = made([[(0, 0, 0)]] * 300)
    synthetic = made([[(0, 0, 0)], [(5, 0, 0)]])
    corner, empty_corner = Rectangles.of([(0, 1, 0, 1)]), Rectangles.of([(5, 6, 0, 1)])
    assert range_error(real, synthetic, corner) == 0.5  # 150 for 300
    assert range_error(real, synthetic, empty_corner) == 50  # 150 for 0, floor 3

    def stays(*steps):
        return made([[(0, 0, step)] for step in steps])

    real, synthetic = [2, 3, 3, 7, 22, 41, 42], [0, 2, 30, 60]
    edges = [2 + 2 * i for i in range(21)]  # from 2 to 42
    tables = [np.histogram(np.clip(values, 2, 42), edges)[0] for values in (real, synthetic)]
    expected = jensenshannon(*tables, base=2) ** 2
    assert stay_jsd_thesis(stays(*real), stays(*synthetic)) == pytest.approx(expected)
    assert stay_jsd_thesis(stays(4, 4), stays(4)) == 0
    assert stay_jsd_thesis(stays(4, 4), stays(0)) == 1
    assert stay_jsd_thesis(made([]), stays(1)) == 1


def test_hotspots_by_hand():
    exact = np.array([0, 10, 6, 8, 0])
    best = 10 / math.log2(2) + 8 / math.log2(3)
    swapped = 8 / math.log2(2) + 10 / math.log2(3)
    assert hotspot_ndcg(exact, np.array([0, 5, 1, 9, 0]), top=2) == pytest.approx(swapped / best)
    missed = 10 / math.log2(3)  # an unvisited cell comes first
    assert hotspot_ndcg(exact, np.array([7, 5, 1, 0, 0]), top=2) == pytest.approx(missed / best)
    assert hotspot_ndcg(exact, np.array([0, 3, 0, 0, 0]), top=2) == pytest.approx(
        10 / best
    )  # only one visited
    nothing = np.zeros(5, int)
    assert hotspot_ndcg(exact, 2 * exact) == hotspot_ndcg(nothing, nothing) == 1
    assert hotspot_ndcg(exact, nothing) == hotspot_ndcg(nothing, exact) == 0


def test_kendall_tau_against_all_pairs():
    generator = np.random.default_rng(3)
    exact, visits = generator.integers(0, 6, 40), generator.integers(0, 6, 40)
    pairs = [(a, b) for a in range(40) for b in range(a) if all(exact[i] or visits[i] for i in (a, b))]
    signs = [(np.sign(exact[a] - exact[b]), np.sign(visits[a] - visits[b])) for a, b in pairs]
    untied = [sum(sign[side] != 0 for sign in signs) for side in (0, 1)]
    expected = sum(a * b for a, b in signs) / math.sqrt(untied[0] * untied[1])
    assert kendall_tau(exact, visits) == pytest.approx(expected)
    assert kendall_tau(exact, exact) == kendall_tau(np.ones(4, int), np.ones(4, int)) == 1
    assert kendall_tau(exact, np.zeros(40, int)) == kendall_tau(np.arange(1, 5), np.ones(4, int)) == 0


def transitions(trips):
    tally = {}
    for trip in trips:
        for (here, _, _), (there, _, _) in pairwise(trip):
            tally[here, there] = tally.get((here, there), 0) + 1
    return tally


def test_all_figures_of_two_sets():
    real, synthetic = random_trips(11, 150), random_trips(12, 90, longest=12)
    figures = synthetic_utility(made(real), made(synthetic), seed=3)
    tables = [transitions(trips) for trips in (real, synthetic)]
    moves = sorted({*tables[0], *tables[1]})
    vectors = [[table.get(move, 0) for move in moves] for table in tables]
    assert figures.transition_jsd == pytest.approx(jensenshannon(*vectors, base=2) ** 2)
    for name, histogram in (
        ("distance_jsd", distance_histogram),
        ("length_jsd", length_histogram),
        ("stay_jsd", stay_histogram),
        ("duration_jsd", duration_histogram),
        ("visit_error", visits_per_cell),
        ("od_jsd", od_matrix),
    ):
        parts = [histogram(made(trips)).ravel() for trips in (real, synthetic)]
        assert getattr(figures, name) == pytest.approx(jensenshannon(*parts, base=2) ** 2)
    rectangles = random_rectangles(GRID, 500, 3)
    assert figures.range_error == range_error(made(real), made(synthetic), rectangles)
    assert 0 < figures.pattern_f1_35 < 1
    assert figures.pattern_f1 < figures.pattern_f1_dtw


def test_trips_against_themselves_and_without_patterns():
    paths = made(random_trips(13, 80))
    figures = asdict(synthetic_utility(paths, paths))
    assert math.isnan(figures.pop("hour_jsd"))  # no times
    assert math.isnan(figures.pop("tide_jsd"))
    for name, value in figures.items():
        perfect = float("f1" in name or name in ("hotspot_ndcg", "kendall_tau"))
        assert value == pytest.approx(perfect), name
    paths = made(random_trips(14, 20))
    figures = asdict(synthetic_utility(paths, paths, patterns=False))
    assert {name for name, value in figures.items() if math.isnan(value)} == {
        *PATTERN_FIGURES,
        "hour_jsd",
        "tide_jsd",
    }


def test_start_hours_and_tides_tell_who_goes_where_when():
    trips = [[(0, 0, 0)]] * 4
    real = replace(made(trips), start_us=np.array([1, 2, 3, 3]) * HOUR_US)
    synthetic = replace(made(trips), start_us=np.array([25, 25, 3, 26]) * HOUR_US + 5)  # a day later
    expected = jensenshannon([1, 1, 2], [2, 1, 1], base=2) ** 2
    assert synthetic_utility(real, synthetic).hour_jsd == pytest.approx(expected)
    slots = np.array([0, 0, 4, 4]), np.array([0, 1, 1, 0])
    expected = jensenshannon([2, 0, 2], [2, 2, 0], base=2) ** 2
    assert synthetic_utility(real, synthetic, start_slots=slots).hour_jsd == pytest.approx(expected)
    # West at 7 and east at 17, or half of each at both: hours and places alone cannot tell.
    west, east = 0, GRID.columns - 1
    trips = [[(west, 0, 0)], [(east, 0, 0)]] * 2
    hours = np.array([7, 17, 7, 17]) * HOUR_US
    real = replace(made(trips), start_us=hours)
    mixed = replace(made(trips), start_us=hours[[0, 1, 3, 2]])
    found = synthetic_utility(real, mixed)
    assert found.hour_jsd == found.od_jsd == 0
    assert found.tide_jsd == pytest.approx(jensenshannon([2, 2, 0, 0], [1, 1, 1, 1], base=2) ** 2)
    assert synthetic_utility(real, real).tide_jsd == 0


@pytest.mark.parametrize("swap", [False, True])
def test_one_side_without_trips(swap):
    some = replace(made(random_trips(15, 30)), start_us=np.full(30, 7 * HOUR_US))
    nothing = made([])
    pair = (nothing, some) if swap else (some, nothing)
    figures = asdict(synthetic_utility(*pair))
    crossing = crossing_trips(some, random_rectangles(GRID, 500, 1))
    expected = 1 if swap else np.mean(crossing / np.maximum(crossing, 0.3))
    assert figures.pop("range_error") == pytest.approx(expected)
    for name, value in figures.items():
        assert value == float("jsd" in name or name == "visit_error"), name


def test_neither_side_has_trips_and_grids_must_agree():
    for paths in (made([]), made([[(4, 0, 0)]])):
        figures = synthetic_utility(paths, paths)
        assert (figures.distance_jsd, figures.transition_jsd, figures.range_error) == (0, 0, 0)
        assert (figures.pattern_f1, figures.pattern_f1_dtw, figures.hotspot_ndcg) == (1, 1, 1)
    paths = made([[(0, 0, 0)]])
    for other in (replace(paths, step_s=30), replace(paths, grid=replace(GRID, columns=8))):
        with pytest.raises(PlanError, match="one grid"):
            synthetic_utility(paths, other)
