"""Distances of trips against plain loops; planted copies are detected, independent trips are not."""

import math
from itertools import pairwise

import numpy as np
import pytest

from shoal.attacks.models.known_trips import KnownTrips, evenly, run_keys, taken
from shoal.attacks.models.nearest_record import nearest, own_records, split_records
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

GRID = CellGrid(box=(0.0, 0.0, 2000.0, 1500.0), columns=20, rows=15, planar=True)  # cells of 100 m


def joined(*parts):
    lists = [each.cells[a:b] for each in parts for a, b in pairwise(each.first)]
    return CellPaths.of(GRID, 60, [[(int(cell), i, 0) for i, cell in enumerate(trip)] for trip in lists])


def known(paths, unit=None):
    return KnownTrips.of(paths, np.arange(paths.count) if unit is None else unit)


def plain_distance(one, other):
    """Time warping by its recursion, mean over the longer trip, in metres."""

    def cost(a, b):
        return 100 * math.hypot(a % 20 - b % 20, a // 20 - b // 20)

    best = {}
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            before = [best[at] for at in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if at in best]
            best[i, j] = cost(a, b) + (min(before) if before else 0.0)
    return best[len(one) - 1, len(other) - 1] / max(len(one), len(other))


def cells_of(paths):
    return [paths.cells[a:b].tolist() for a, b in pairwise(paths.first)]


def test_the_nearest_and_the_second_are_those_of_plain_loops(walks):
    queries, records = walks(25, 1), walks(60, 2)
    matches = nearest(queries, records)
    for q, trip in enumerate(cells_of(queries)):
        true = sorted(plain_distance(trip, other) for other in cells_of(records))
        assert matches.distance_m[q] == pytest.approx(true[0])
        assert matches.second_m[q] == pytest.approx(true[1])


def test_own_trips_are_left_out_by_unit(walks):
    records, unit = walks(30, 3), np.arange(30) // 3
    matches = nearest(records, records, units=(unit, unit))
    lists = cells_of(records)
    for q, trip in enumerate(lists):
        true = min(plain_distance(trip, other) for r, other in enumerate(lists) if unit[r] != unit[q])
        assert matches.distance_m[q] == pytest.approx(true)
    alone = nearest(records, records, units=(np.zeros(30, int), np.zeros(30, int)))
    assert np.isinf(alone.distance_m).all()


def test_a_distance_of_0_is_a_copy_and_places_are_spread_evenly():
    trip = CellPaths.of(GRID, 60, [[(0, 0, 0), (1, 1, 0), (2, 2, 0)]])
    longer = CellPaths.of(GRID, 60, [[(0, 0, 0), (1, 1, 0), (2, 2, 0), (1, 3, 0), (2, 4, 0)]])
    assert nearest(trip, trip).distance_m.tolist() == [0]
    assert nearest(trip, longer).distance_m[0] > 0
    assert evenly(0, 5).tolist() == []
    assert evenly(3, 5).tolist() == [0, 1, 2]
    assert evenly(9, 3).tolist() == [0, 4, 8]


def test_planted_copies_are_found(walks):
    source, held_out, fresh = walks(200, 4), walks(200, 5), walks(100, 6)
    release = joined(taken(source, np.arange(100)), fresh)  # every second one is replayed
    halves = split_records(release, known(source), known(held_out))
    assert halves.source.copies == pytest.approx(0.5, abs=0.02)
    assert halves.held_out.copies <= 0.02
    assert halves.nearer_source > 0.5 + 1.96 * halves.standard_error + 0.1
    whole = split_records(source, known(source), known(held_out))
    assert whole.source.copies == 1
    assert whole.nearer_source > 0.97
    assert whole.source.ratio == 0


def test_independent_trips_are_as_near_to_both_halves(walks):
    outside = 0
    for seed in range(20):
        source, held_out, release = (walks(150, 100 * seed + part) for part in (1, 2, 3))
        halves = split_records(release, known(source), known(held_out))
        reach = 1.96 * halves.standard_error  # of 95 %
        outside += abs(halves.nearer_source - 0.5) > reach
        assert 0.2 < halves.nearer_source < 0.8
    assert outside <= 4  # one in twenty is expected; five or more have probability below 0.003


def test_the_standard_error_is_that_of_people_changing_sides(walks):
    """Against many random splits of the same people."""
    every, release = walks(120, 8), walks(80, 9)
    unit = np.arange(120) // 4  # 30 people with 4 trips each
    generator = np.random.default_rng(1)
    shares, errors = [], []
    for _ in range(300):
        side = generator.random(30) < 0.5
        halves = [np.flatnonzero(side[unit] == each) for each in (True, False)]
        one, two = (known(taken(every, half), unit[half]) for half in halves)
        halves = split_records(release, one, two)
        shares.append(halves.nearer_source)
        errors.append(halves.standard_error)
    assert np.mean(shares) == pytest.approx(0.5, abs=0.02)
    assert np.std(shares) == pytest.approx(np.mean(errors), rel=0.15)


def test_copies_are_held_against_those_of_people_where_there_are_any(walks):
    real = walks(200, 10)
    replayed = own_records(real, known(real))
    assert (replayed.synthetic.copies, replayed.real.copies < 0.02) == (1.0, True)
    honest = own_records(walks(200, 11), known(real))
    assert honest.synthetic.copies < 0.02
    assert honest.synthetic.median_m == pytest.approx(honest.real.median_m, rel=0.1)
    none = CellPaths.of(GRID, 60, [])
    short = CellPaths.of(GRID, 60, [[(0, 0, 0)], [(1, 0, 0), (2, 1, 0)]])  # below 5 cells
    for release in (none, short):
        halves = split_records(release, known(walks(10, 1)), known(walks(10, 2)))
        assert math.isnan(halves.nearer_source)
        assert math.isnan(halves.source.copies)
    assert math.isnan(own_records(walks(5, 1), known(none)).real.copies)


def test_runs_are_those_of_plain_slices(walks):
    paths = walks(30, 12, least=1, most=6)
    for length in (1, 2, 3, 4):
        key, trip = run_keys(paths, length)
        plain = [
            (number, tuple(cells[at : at + length]))
            for number, cells in enumerate(cells_of(paths))
            for at in range(len(cells) - length + 1)
        ]
        assert trip.tolist() == [number for number, _ in plain]
        same = {}
        for value, (_, run) in zip(key.tolist(), plain, strict=True):
            assert same.setdefault(value, run) == run
        assert len(same) == len({run for _, run in plain})
