"""Paths of visits: directions, distances and sums per trip, against plain Python.

What one path adds to each table of movement, against plain Python on small random paths.
"""

import itertools
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
from tests.loops import for_each

from shoal.space.cell_paths import (
    DX,
    DY,
    CellPaths,
    Corners,
    Days,
    Durations,
    Flows,
    Hours,
    Lengths,
    Moves,
    Paces,
    Places,
    StayPlaces,
    Stays,
    Tides,
    Turns,
    chebyshev,
    direction_between,
    distance_cuts,
)
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock
from shoal.space.trip_setting import PathSetting

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


def test_directions_are_numbered_against_the_clock_between_any_two_cells():
    assert list(zip(DX.tolist(), DY.tolist(), strict=True)) == WAYS
    here, there = (side.ravel() for side in np.meshgrid(*[np.arange(GRID.count)] * 2))
    found = direction_between(here, there, WIDE)
    for one, other, way in zip(here.tolist(), there.tolist(), found.tolist(), strict=True):
        step = other % WIDE - one % WIDE, other // WIDE - one // WIDE
        assert way == (WAYS.index(step) if step in WAYS else -1)
    # Cells of few bits: differences below 0 are differences below 0.
    one, other = np.array([0, 19], np.uint8), np.array([19, 0], np.uint8)
    assert chebyshev(one, other, WIDE).tolist() == [4, 4]
    assert direction_between(np.array([6], np.uint8), np.array([0], np.uint8), WIDE).tolist() == [5]


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


CLOCK = Clock(start=datetime(2026, 3, 27, 12), end=datetime(2026, 3, 30, 12), time_zone="Europe/Paris")
SETTING = PathSetting(grid=GRID, step_s=60, clock=CLOCK)
BLOCK = np.arange(GRID.count) * 7 % 3  # any three blocks
REGION = np.arange(GRID.count) // 6


@cache
def trips_by_chance(seed, count=150, longest=60):
    """Walks of few and of many moves, quick, slow and staying; starts in and around the window."""
    chance = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y, tick, trip = int(chance.integers(WIDE)), int(chance.integers(HIGH)), 0, []
        pauses, stays = chance.choice([0, 1, 1, 2, 5], 4), chance.choice([0, 0, 1, 6], 3)
        for _ in range(int(chance.integers(1, chance.choice([3, 10, longest])))):
            stay = int(chance.choice(stays))
            trip.append((y * WIDE + x, tick, stay))
            tick += stay + int(chance.choice(pauses))
            near = [(x + i, y + j) for i, j in WAYS if 0 <= x + i < WIDE and 0 <= y + j < HIGH]
            x, y = near[chance.integers(len(near))]
        trips.append(trip)
    begin, end = int(CLOCK.edges_us[0]), int(CLOCK.edges_us[-1])
    start = chance.integers(begin - 10**11, end + 10**11, count)
    start[:4] = begin, begin - 1, end, end - 1
    return trips, start


def ways(trip):
    cells = [visit[0] for visit in trip]
    steps = [(b % WIDE - a % WIDE, b // WIDE - a // WIDE) for a, b in itertools.pairwise(cells)]
    return [WAYS.index(step) for step in steps]


def apart(trip):
    a, b = trip[0][0], trip[-1][0]
    return max(abs(a % WIDE - b % WIDE), abs(a // WIDE - b // WIDE))


def move_class(moves):
    """0, 1, 2, 3-4, 5-6, 7-9, 10-13, 14-18, 19-25, 26-40, more."""
    return next((i for i, most in enumerate([0, 1, 2, 4, 6, 9, 13, 18, 25, 40]) if moves <= most), 10)


def local(start):
    """The wall clock at the start, None outside the window."""
    moment = datetime.fromtimestamp(start / 1e6, UTC).astimezone(ZoneInfo("Europe/Paris"))
    inside = CLOCK.edges_us[0] <= start < CLOCK.edges_us[-1]
    return moment if inside else None


def day(trip, start):
    moment = local(start)
    return [] if moment is None else [(moment.date() - datetime(2026, 3, 27).date()).days]


def hour(trip, start):
    moment = local(start)
    return [] if moment is None else [moment.hour + 24 * (moment.weekday() >= 5)]


def tide(visit, trip, start):
    """Weekdays until 6, 10, 15, 19 and 24 o'clock, then the weekend."""
    part = [5 if kind >= 24 else sum(kind >= edge for edge in (6, 10, 15, 19)) for kind in hour(trip, start)]
    return [6 * REGION[visit[0]] + each for each in part]


def duration(trip, start):
    moves = len(trip) - 1
    if not moves:
        return []
    moving = trip[-1][1] + trip[-1][2] - sum(visit[2] for visit in trip)
    edges = [0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0]
    return [move_class(moves) * 10 + sum(moving / moves > edge for edge in edges)]


def paces(trip, start):
    pairs = itertools.pairwise(trip)
    return [BLOCK[a[0]] * 4 + min(b[1] - a[1] - a[2], 3) for a, b in pairs]


def corners(trip):
    turned = ways(trip)
    return [(visit[0], a, b) for visit, a, b in zip(trip[1:-1], turned[:-1], turned[1:], strict=True)]


CASES = {
    "moves": (Moves(GRID), 160, lambda t, s: [v[0] * 8 + w for v, w in zip(t[:-1], ways(t), strict=True)]),
    "turns": (Turns(), 64, lambda t, s: [8 * a + b for _, a, b in corners(t)]),
    "corners": (Corners(GRID), 1280, lambda t, s: [64 * c + 8 * a + b for c, a, b in corners(t)]),
    "starts": (Places(BLOCK, 3), 3, lambda t, s: [BLOCK[t[0][0]]]),
    "ends": (Places(BLOCK, 3, last=True), 3, lambda t, s: [BLOCK[t[-1][0]]]),
    "flows": (Flows(REGION, 4), 16, lambda t, s: [4 * REGION[t[0][0]] + REGION[t[-1][0]]]),
    "lengths": (Lengths(GRID), 200, lambda t, s: [20 * apart(t) + min(len(t) - 1 - apart(t), 19)]),
    "stays": (Stays(), 220, lambda t, s: [20 * move_class(len(t) - 1) + min(sum(v[2] for v in t), 19)]),
    "stay_places": (StayPlaces(GRID), 20, lambda t, s: [v[0] for v in t for _ in range(v[2])]),
    "days": (Days(SETTING), 4, day),
    "hours": (Hours(SETTING), 48, hour),
    "start_tides": (Tides(SETTING, REGION, 4), 24, lambda t, s: tide(t[0], t, s)),
    "end_tides": (Tides(SETTING, REGION, 4, last=True), 24, lambda t, s: tide(t[-1], t, s)),
    "durations": (Durations(), 110, duration),
    "paces": (Paces(BLOCK, 3), 12, paces),
}


@for_each("name", CASES)
@for_each("seed", range(2))
def test_entries_of_every_trip(name, seed):
    table, size, plain = CASES[name]
    trips, start = trips_by_chance(seed)
    paths = CellPaths.of(GRID, 60, trips)
    object.__setattr__(paths, "start_us", start)
    entries = table.entries(paths)
    assert table.size == size
    assert entries.first[0] == 0
    assert entries.first[-1] == entries.index.size
    assert (entries.index >= 0).all()
    assert (entries.index < size).all()
    for i, trip in enumerate(trips):
        part = slice(entries.first[i], entries.first[i + 1])
        weight = np.ones(10**4, int)[part] if entries.weight is None else entries.weight[part]
        found = Counter(np.repeat(entries.index[part], weight).tolist())
        assert found == Counter(int(place) for place in plain(trip, int(start[i])))
    assert len(set(entries.index.tolist())) > 1


@for_each("name", CASES)
def test_no_trips_have_no_entries(name):
    entries = CASES[name][0].entries(CellPaths.of(GRID, 60, []))
    assert entries.first.tolist() == [0]
    assert entries.index.size == 0


@for_each(("columns", "rows"), [(1, 1), (3, 9), (40, 12), (7, 300), (4096, 4096)])
def test_classes_of_distance_are_single_up_to_8_and_a_fifth_wide_beyond(columns, rows):
    grid = CellGrid(box=(0, 0, 1, 1), columns=columns, rows=rows, planar=True)
    cuts = distance_cuts(grid)
    assert cuts[:9].tolist() == list(range(9))
    longest = max(columns, rows)
    for low, high in zip(cuts[8:-1].tolist(), cuts[9:].tolist(), strict=True):
        assert low < high <= 1.2 * low + 1
    assert cuts.size == 9 or cuts[-2] * 1.2 < longest <= cuts[-1] * 1.2
    assert Lengths(grid).size == 20 * (cuts.size + 1)
