"""Tables over units from the query interface: plain Python with fractions, reached bounds, refused inputs."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from tests.loops import for_each

from shoal.engine import engine
from shoal.engine.path_trips import PathQueries, summed
from shoal.errors import GuaranteeError
from shoal.space.cell_paths import Entries, Moves, Places, StayPlaces
from shoal.space.cells import CellGrid
from shoal.stages.trips import LATTICE, ExactPaths

GRID = CellGrid(box=(0.0, 0.0, 4.0, 3.0), columns=4, rows=3, planar=True)


def exact_paths(trips, unit, each_trip=False):
    """Trips of (cell, tick, stay), each of its unit."""
    rows = np.array([visit for trip in trips for visit in trip], np.int32).reshape(-1, 3)
    return ExactPaths(
        grid=GRID,
        step_s=60,
        first=np.cumsum([0, *map(len, trips)]).astype(np.int64),
        cells=rows[:, 0].copy(),
        tick=rows[:, 1].copy(),
        stay=rows[:, 2].copy(),
        start_us=np.zeros(len(trips), np.int64),
        unit=np.asarray(unit, np.int64),
        units=len(set(unit)),
        all_trips=len(trips),
        cap=1,
        each_trip=each_trip,
    )


def random_trips(chance, count):
    """Walks to the next cell and back, with stays."""
    trips = []
    for _ in range(count):
        x, y, tick, trip = int(chance.integers(3)), int(chance.integers(3)), 0, []
        for step in range(int(chance.integers(1, 9))):
            stay = int(chance.integers(0, 4))
            trip.append((4 * y + x + step % 2, tick, stay))
            tick += stay + 1
        trips.append(trip)
    return trips


@dataclass(frozen=True, eq=False)
class Given:
    """A table whose entries are said."""

    size: int
    said: Entries

    def entries(self, paths):
        return self.said


def counts(entries, unit):
    """What each unit adds before it is scaled."""
    per_unit = defaultdict(Counter)
    for trip, of in enumerate(unit):
        for at in range(entries.first[trip], entries.first[trip + 1]):
            weight = 1 if entries.weight is None else int(entries.weight[at])
            per_unit[int(of)][int(entries.index[at])] += weight
    return per_unit


def share_of(count, own, norm):
    """The whole part of count * LATTICE / norm, without floats."""
    if norm == 1:
        return int(Fraction(count * LATTICE, sum(own.values())))
    return isqrt((count * LATTICE) ** 2 // sum(value**2 for value in own.values()))


def random_entries(chance, trips, size, weighted):
    first = np.concatenate([[0], np.cumsum(chance.integers(0, 9, trips))]).astype(np.int64)
    index = chance.integers(0, size, int(first[-1])).astype(np.int64)
    heavy = int(chance.choice([2, 50, 10**6]))
    weight = chance.integers(1, heavy, index.size).astype(np.int64) if weighted else None
    return Entries(first, index, weight)


@for_each("norm", [1, 2])
@for_each("weighted", [False, True])
@for_each("seed", range(8))
def test_every_unit_adds_its_share_rounded_down_and_never_more(seed, weighted, norm):
    chance = np.random.default_rng(seed)
    trips, size = 40, int(chance.choice([2, 5, 60]))
    unit = np.sort(chance.integers(0, 15, trips))
    entries = random_entries(chance, trips, size, weighted)
    total = np.zeros(size, np.int64)
    for of, own in counts(entries, unit).items():
        added = summed(of_trips(entries, unit == of), np.zeros((unit == of).sum(), np.int64), size, norm)
        total += added
        assert int((added**norm).sum()) <= LATTICE**norm
        assert set(np.flatnonzero(added)) <= set(own)
        for place, count in own.items():
            assert 0 <= share_of(count, own, norm) - added[place] <= 1
    assert np.array_equal(summed(entries, unit, size, norm), total)
    assert total.sum() > 5 * LATTICE


def of_trips(entries, kept):
    """The entries of some trips alone."""
    size = np.diff(entries.first)
    rows = np.repeat(kept, size)
    weight = None if entries.weight is None else entries.weight[rows]
    return Entries(np.concatenate([[0], np.cumsum(size[kept])]), entries.index[rows], weight)


@pytest.mark.parametrize(("table", "of_path"), [(Moves(GRID), "moves"), (StayPlaces(GRID), "total_stay")])
def test_the_query_interface_asks_the_table_for_its_entries(table, of_path):
    trips = random_trips(np.random.default_rng(1), 30)
    paths = exact_paths(trips, np.arange(30) // 3)
    found = PathQueries(paths).table(table, 1)
    assert np.array_equal(found, summed(table.entries(paths), paths.unit, table.size, 1))
    busy = np.add.reduceat(getattr(paths, of_path), np.arange(0, 30, 3)) > 0
    assert LATTICE * busy.sum() - found.sum() <= 30 * table.size
    assert PathQueries(paths).all_trips() == 30


@pytest.mark.parametrize("norm", [1, 2])
def test_the_bound_is_reached(norm):
    """A unit that puts all it does into one place adds all but what is rounded off."""
    block = np.zeros(12, np.int64)
    for trips in (1, 2, 5000):
        paths = exact_paths([[(3, 0, 0)]] * trips, np.zeros(trips, int))
        added = PathQueries(paths).table(Places(block, 1), norm)
        assert LATTICE - 1 <= added[0] <= LATTICE


@pytest.mark.parametrize("norm", [1, 2])
def test_a_user_with_many_trips_is_bounded(norm):
    trips = 200_000
    index = np.random.default_rng(2).integers(0, 400, trips).astype(np.int64)
    entries = Entries(np.arange(trips + 1), index)
    added = summed(entries, np.zeros(trips, np.int64), 400, norm)
    assert LATTICE**norm * 0.99 < int((added**norm).sum()) <= LATTICE**norm


def test_weights_of_any_size_are_bounded():
    """Stays as long as ticks can be: squares beyond whole numbers of 64 bits."""
    weight = np.array([2**31 - 1] * 4 + [1], np.int64)
    for norm, share in ((1, LATTICE / 4), (2, LATTICE / 2)):
        added = summed(Entries(np.array([0, 5]), np.arange(5), weight), np.zeros(1, np.int64), 5, norm)
        assert added[:4] == pytest.approx(share, abs=1)
        assert added[4] == 0


@pytest.mark.parametrize("norm", [1, 2])
def test_threads_do_not_matter(norm, monkeypatch):
    chance = np.random.default_rng(3)
    unit = np.sort(chance.integers(0, 20_000, 30_000))
    entries = random_entries(chance, 30_000, 50, True)
    found = []
    for cores in (1, 2, 7):
        monkeypatch.setattr(engine.os, "cpu_count", lambda cores=cores: cores)
        found.append(summed(entries, unit, 50, norm))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_units_without_entries_add_nothing():
    still = exact_paths([[(0, 0, 0)], [(1, 0, 2), (2, 3, 0)]], [0, 1])
    assert PathQueries(still).table(Moves(GRID), 1).sum() == LATTICE - 1
    assert PathQueries(exact_paths([], [])).table(Moves(GRID), 2).tolist() == [0] * 96


def test_units_that_do_not_come_together_are_refused():
    trips = [[(0, 0, 0)]] * 3
    with pytest.raises(GuaranteeError, match="do not come together"):
        PathQueries(exact_paths(trips, [0, 1, 0]))
    with pytest.raises(GuaranteeError, match="more than one trip"):
        PathQueries(exact_paths(trips, [0, 1, 1], each_trip=True))
    PathQueries(exact_paths(trips, [0, 1, 1]))
    PathQueries(exact_paths(trips, [0, 1, 4], each_trip=True))


@for_each(
    ("entries", "why"),
    [
        (Entries(np.array([0, 1, 2]), np.array([0, 4])), "no place"),
        (Entries(np.array([0, 1, 2]), np.array([-1, 0])), "no place"),
        (Entries(np.array([0, 2]), np.array([0, 1])), "of its own"),
        (Entries(np.array([0, 1, 1]), np.array([0, 1])), "of its own"),
        (Entries(np.array([0, 1, 2]), np.array([0, 1]), np.array([1, 0])), "no weight"),
        (Entries(np.array([0, 1, 2]), np.array([0, 1]), np.array([1, -3])), "no weight"),
    ],
)
def test_entries_that_are_out_of_place_are_refused(entries, why):
    queries = PathQueries(exact_paths([[(0, 0, 0)]] * 2, [0, 1]))
    with pytest.raises(GuaranteeError, match=why):
        queries.table(Given(4, entries), 1)
    assert queries.table(Given(5, Entries(np.array([0, 1, 2]), np.array([0, 4]))), 1)[4] == LATTICE - 1


@pytest.mark.parametrize("norm", [1, 2])
def test_a_weight_far_below_a_lattice_step_leaves_nothing_behind(norm):
    """Units add up one by one, also where a place of one unit is rounded down to nothing."""
    heavy = Entries(np.array([0, 2]), np.array([0, 1]), np.array([2**24, 1]))  # the second is below 2^-20
    light = Entries(np.array([0, 2]), np.array([1, 2]), np.array([1, 1]))
    both = Entries(np.array([0, 2, 4]), np.array([0, 1, 1, 2]), np.array([2**24, 1, 1, 1]))
    apart = [summed(each, np.zeros(1, np.int64), 3, norm) for each in (heavy, light)]
    assert apart[0][1] == 0 < apart[1][1]
    assert summed(both, np.arange(2), 3, norm).tolist() == sum(apart).tolist()
