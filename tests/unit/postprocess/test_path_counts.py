"""Moves of drawn trips, counted one by one."""

import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from tests.loops import for_each

from shoal.postprocess.synthetic.bridge_tables import counted_moves

WIDE, HIGH = 4, 3
WAYS = [(1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)]


def noisy(norm, each_trip):
    """All that counting asks for."""
    grid = SimpleNamespace(columns=WIDE)
    return SimpleNamespace(norm=norm, setting=SimpleNamespace(grid=grid, each_trip=each_trip))


def random_trips(seed, count):
    """Walks that come back to where they were, also of one cell."""
    chance = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y, trip = int(chance.integers(WIDE)), int(chance.integers(HIGH)), []
        for _ in range(int(chance.integers(1, 20))):
            trip.append(y * WIDE + x)
            near = [(x + i, y + j) for i, j in WAYS[:5:2] if 0 <= x + i < WIDE and 0 <= y + j < HIGH]
            x, y = near[chance.integers(len(near))]
        trips.append(trip)
    return trips


def moves_of(trip):
    steps = itertools.pairwise(trip)
    return Counter((a, WAYS.index((b % WIDE - a % WIDE, b // WIDE - a // WIDE))) for a, b in steps)


@for_each(("norm", "each_trip"), [(1, True), (2, True), (1, False), (2, False)])
@for_each("seed", range(4))
def test_every_trip_has_its_norm(seed, norm, each_trip):
    trips = random_trips(seed, 60)
    expected = np.zeros((WIDE * HIGH, 8))
    for trip in trips:
        own = moves_of(trip)
        size = sum(times**norm for times in own.values()) ** (1 / norm) if each_trip else 1
        for place, times in own.items():
            expected[place] += times / size
    first = np.cumsum([0, *map(len, trips)])
    cells = np.concatenate(trips).astype(np.int32)
    found = counted_moves(first, cells, noisy(norm, each_trip), WIDE * HIGH)
    assert found == pytest.approx(expected)
    assert max(max(moves_of(trip).values(), default=0) for trip in trips) > 1  # some come again


def test_trips_that_do_not_move_count_nothing():
    still = np.array([3, 4, 3], np.int32)
    assert counted_moves(np.arange(4), still, noisy(1, True), 12).sum() == 0
    assert counted_moves(np.zeros(1, int), still[:0], noisy(2, True), 12).sum() == 0
