"""Paths of visits: directions, distances and sums per trip, against plain Python."""

import itertools

import numpy as np
from tests.loops import for_each

from shoal.space.cell_paths import DX, DY, CellPaths, chebyshev, direction_between
from shoal.space.cells import CellGrid

WIDE, HIGH = 5, 4
GRID = CellGrid(box=(0, 0, WIDE, HIGH), columns=WIDE, rows=HIGH, planar=True)
# By name: east, then against the clock.
WAYS = [(1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)]


def random_trips(seed, count):
    chance = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y, tick, trip = int(chance.integers(WIDE)), int(chance.integers(HIGH)), 0, []
        for _ in range(int(chance.integers(1, 9))):
            stay = int(chance.integers(0, 3))
            trip.append((y * WIDE + x, tick, stay))
            tick += stay + int(chance.integers(0, 3))
            near = [(x + i, y + j) for i, j in WAYS if 0 <= x + i < WIDE and 0 <= y + j < HIGH]
            x, y = near[chance.integers(len(near))]
        trips.append(trip)
    return trips


def test_directions_are_numbered_against_the_clock_from_the_east():
    assert list(zip(DX.tolist(), DY.tolist(), strict=True)) == WAYS


def test_the_direction_between_any_two_cells():
    here, there = (side.ravel() for side in np.meshgrid(*[np.arange(GRID.count)] * 2))
    found = direction_between(here, there, WIDE)
    for one, other, way in zip(here.tolist(), there.tolist(), found.tolist(), strict=True):
        step = other % WIDE - one % WIDE, other // WIDE - one // WIDE
        assert way == (WAYS.index(step) if step in WAYS else -1)


def test_the_distance_of_any_two_cells_is_the_shortest_walk():
    """Breadth first: the fewest moves to each cell."""
    for start in range(GRID.count):
        apart, edge, moves = {start: 0}, [start], 0
        while edge:
            moves += 1
            ahead = {
                (cell // WIDE + j) * WIDE + cell % WIDE + i
                for cell in edge
                for i, j in WAYS
                if 0 <= cell % WIDE + i < WIDE and 0 <= cell // WIDE + j < HIGH
            }
            edge = [cell for cell in ahead if cell not in apart]
            apart.update(dict.fromkeys(edge, moves))
        found = chebyshev(np.full(GRID.count, start), np.arange(GRID.count), WIDE)
        assert found.tolist() == [apart[cell] for cell in range(GRID.count)]


def test_narrow_cells_do_not_wrap_around():
    """Cells of few bits: differences below 0 are differences below 0."""
    one, other = np.array([0, 19], np.uint8), np.array([19, 0], np.uint8)
    assert chebyshev(one, other, WIDE).tolist() == [4, 4]
    assert direction_between(np.array([6], np.uint8), np.array([0], np.uint8), WIDE).tolist() == [5]


@for_each("seed", range(5))
def test_what_is_said_of_every_trip(seed):
    trips = random_trips(seed, 20)
    paths = CellPaths.of(GRID, 30.0, trips)
    assert paths.count == 20
    assert paths.moves.tolist() == [len(trip) - 1 for trip in trips]
    assert paths.starts.tolist() == [trip[0][0] for trip in trips]
    assert paths.ends.tolist() == [trip[-1][0] for trip in trips]
    assert paths.duration.tolist() == [trip[-1][1] + trip[-1][2] for trip in trips]
    assert paths.total_stay.tolist() == [sum(stay for _, _, stay in trip) for trip in trips]
    assert paths.trip_of_visit.tolist() == [i for i, trip in enumerate(trips) for _ in trip]
    moves = [list(itertools.pairwise(trip)) for trip in trips]
    ways = [
        [WAYS.index((b % WIDE - a % WIDE, b // WIDE - a // WIDE)) for (a, *_), (b, *_) in m] for m in moves
    ]
    for i in range(20):
        part = slice(paths.move_first[i], paths.move_first[i + 1])
        assert paths.directions[part].tolist() == ways[i]
        assert paths.cells[paths.move_at[part]].tolist() == [visit[0] for visit in trips[i][:-1]]
    assert paths.directions.size == sum(map(len, moves))


def test_no_trips_at_all():
    paths = CellPaths.of(GRID, 30.0, [])
    assert (paths.count, paths.directions.size, paths.total_stay.size) == (0, 0, 0)
    assert paths.first.tolist() == paths.move_first.tolist() == [0]
    assert paths.starts.size == paths.ends.size == paths.duration.size == 0
