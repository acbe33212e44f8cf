"""Points to paths of visits, against plain Python that follows the rules as they are written.

Tables over units from the query interface: plain Python with fractions, reached bounds, refused inputs.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from math import floor, hypot, isqrt

import numpy as np
import pyarrow as pa
import pytest
from tests.loops import for_each
from tests.worlds import exact_paths

from shoal.engine import engine, trip_pieces
from shoal.engine.engine import encode_trips
from shoal.engine.path_trips import MOST_TICKS, PathBound, PathQueries, summed
from shoal.errors import GuaranteeError, PlanError
from shoal.space.cell_paths import Entries, Moves, Places, StayPlaces
from shoal.space.cells import CellGrid
from shoal.stages.trips import LATTICE

GRID = CellGrid(box=(0.0, 0.0, 9.0, 6.0), columns=9, rows=6, planar=True)  # cells of 1 m
KEY = bytes(range(16))
STEP_US = 60_000_000


def batch(rows):
    """One batch of (user, trip, time_us, x, y)."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.float64(), pa.float64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.record_batch(arrays, ["user", "trip", "time_us", "x", "y"])


def bound(**more):
    return PathBound(**{"grid": GRID, "run_key": KEY, "per_unit": 99, "step_s": 60, **more})


def visits(paths):
    """Every trip as (start, [(cell, tick, stay)])."""
    found = []
    for i in range(paths.count):
        part = slice(paths.first[i], paths.first[i + 1])
        rows = zip(*(getattr(paths, name)[part].tolist() for name in ("cells", "tick", "stay")), strict=True)
        found.append((int(paths.start_us[i]), list(rows)))
    return found


def plain(rows, *, each_trip=False, jump_m=float("inf"), step_us=STEP_US):
    """What the docstrings say: [(start, visits)] of every unit, in order of units."""
    units = {}
    last = None
    for user, trip, time, x, y in rows:
        inside = 0 <= x <= 9 and 0 <= y <= 6
        whose = (user, trip)
        if inside:
            own = units.setdefault(whose if each_trip else user, [])
            near = last is not None and last[0] == whose and hypot(x - last[2], y - last[3]) <= jump_m
            if not near:
                own.append([])
            own[-1].append((time, min(floor(x), 8), min(floor(y), 5)))
        last = (whose, time, x, y) if inside else None
    if each_trip:
        units = {unit: [max(pieces, key=len)] for unit, pieces in units.items()}
    return [[plain_visits(piece, step_us) for piece in pieces] for pieces in units.values()]


def plain_visits(piece, step_us):
    start, x, y = piece[0]
    kept = {}
    for time, *cell in piece:
        kept.setdefault((time - start) // step_us, cell)
    found, last = [[y * 9 + x, 0, 0]], 0
    for now, (nx, ny) in sorted(kept.items())[1:]:
        far = max(abs(nx - x), abs(ny - y))
        if far == 0:
            found[-1][2] = now - found[-1][1]
        for j in range(1, far + 1):
            part, half = Fraction(j, far), Fraction(1, 2)
            column, row = floor(x + (nx - x) * part + half), floor(y + (ny - y) * part + half)
            found.append([row * 9 + column, last + floor((now - last) * part), 0])
        x, y, last = nx, ny, now
    return start, [tuple(visit) for visit in found]


def random_rows(rng, users=4):
    """Trips of any kind: quick and slow sampling, equal times, far jumps, points outside."""
    rows = []
    for user in range(users):
        for trip in range(int(rng.integers(0, 4))):
            time = int(rng.integers(0, 10**12))
            pause = rng.choice([1, 20, 60, 200, 4000])
            x, y, wild = *rng.uniform(-0.5, [9.5, 6.5]), rng.choice([0.3, 1.2, 6.0])
            for _ in range(int(rng.integers(1, 12))):
                rows.append((f"user {user}", trip, time, float(x), float(y)))
                time += int(rng.integers(0, 2 * pause) * 1_000_000 * (rng.random() < 0.8))
                if rng.random() < 0.7:
                    x, y = np.clip(np.array([x, y]) + rng.normal(0, wild, 2), -1, [10, 7])
    return rows


@for_each("each_trip", [False, True])
@for_each("seed", range(60))
def test_paths_are_what_plain_python_says(seed, each_trip):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng)
    more = {"jump_m": float(rng.uniform(0.5, 5))} if seed % 3 == 0 else {}
    each = bound(each_trip=each_trip, per_unit=1 if each_trip else 99, **more)
    found = encode_trips([batch(rows)], each)
    expected = plain(rows, each_trip=each_trip, **more)
    assert visits(found) == [path for unit in expected for path in unit]
    assert found.unit.tolist() == [i for i, unit in enumerate(expected) for _ in unit]
    assert (found.units, found.all_trips) == (len(expected), sum(map(len, expected)))
    assert (found.directions >= 0).all()
    ahead = found.tick[found.move_at + 1] - found.tick[found.move_at] - found.stay[found.move_at]
    assert (ahead >= 0).all()


@pytest.mark.parametrize("each_trip", [False, True])
def test_any_split_and_any_order_of_users_gives_the_same_paths(each_trip):
    rng = np.random.default_rng(5)
    each = bound(each_trip=each_trip, per_unit=1 if each_trip else 2, cap=None if each_trip else 3)
    rows = random_rows(rng, users=30)
    users = sorted({row[0] for row in rows})
    together = {user: [row for row in rows if row[0] == user] for user in users}

    def paths_by_unit(order, size):
        groups = (order[i : i + size] for i in range(0, len(order), size))
        parts = [batch([row for user in group for row in together[user]]) for group in groups]
        found = encode_trips([*parts, batch([])], each)
        units = [[] for _ in range(found.units)]
        for unit, path in zip(found.unit, visits(found), strict=True):
            units[unit].append(path)
        return sorted(units), found.all_trips

    whole = paths_by_unit(users, 30)
    assert whole[1] > 20
    for size in (1, 2, 7):
        assert paths_by_unit(users, size) == whole
        assert paths_by_unit(list(rng.permutation(users)), size) == whole


def test_users_in_two_batches_or_alike_by_digest_and_steps_below_a_second_are_refused(monkeypatch):
    rows = [("a", 0, 0, 1.5, 1.5)]
    with pytest.raises(GuaranteeError, match="do not come together"):
        encode_trips([batch(rows), batch(rows)], bound())
    # They are refused, which no key makes likely, instead of sharing a bound.
    monkeypatch.setattr(trip_pieces, "digest_users", lambda users, key: np.zeros(len(users), np.uint64))
    with pytest.raises(GuaranteeError, match="do not come together"):
        encode_trips([batch([("a", 0, 0, 0.5, 0.5), ("b", 0, 0, 0.5, 0.5)])], bound())
    with pytest.raises(PlanError, match="at least a second"):
        bound(step_s=0.5)


def one(points, **more):
    """The visits of one trip of (seconds, x, y)."""
    rows = [("a", 0, 7_000_000 + round(s * 1e6), x, y) for s, x, y in points]
    return [path for _, path in visits(encode_trips([batch(rows)], bound(**more)))]


def test_points_in_ticks_by_hand():
    assert one([(0, 2.5, 1.5)]) == [[(11, 0, 0)]]
    assert one([(0, -2.5, 1.5), (60, 9.5, 3)]) == []
    nothing = encode_trips([batch([("a", 0, 0, -1.0, 0.0)]), batch([])], bound())
    assert (nothing.count, nothing.units, nothing.all_trips, nothing.first.tolist()) == (0, 0, 0, [0])
    assert encode_trips([], bound()).count == 0
    assert one([(0, 0.5, 0.5), (0, 5.5, 0.5), (59.9, 3.5, 0.5), (60, 1.5, 0.5)]) == [[(0, 0, 0), (1, 1, 0)]]
    points = [(0, 0.5, 0.5), (240, 0.6, 0.5), (600, 1.5, 1.5), (780, 1.4, 1.5)]
    assert one(points) == [[(0, 0, 4), (10, 10, 3)]]
    assert one([(0, 0.5, 0.5), (360, 3.5, 1.5)]) == [[(0, 0, 0), (1, 2, 0), (11, 4, 0), (12, 6, 0)]]
    assert one([(0, 0.5, 0.5), (60, 3.5, 0.5)]) == [[(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 1, 0)]]
    # Four points, the last two at different times that are one tick: the most there is.
    far = (MOST_TICKS + 10) * 1.0
    found = one([(0, 0.5, 0.5), (1, 1.5, 0.5), (far, 2.5, 0.5), (far + 5, 8.5, 5.5)], step_s=1)
    assert found == [[(0, 0, 0), (1, 1, 0), (2, MOST_TICKS, 0)]]
    assert one([(0, 0.5, 0.5), (far, 0.5, 0.5)], step_s=1) == [[(0, 0, MOST_TICKS)]]
    rows = [("a", 0, tick * STEP_US, x, 0.5) for tick, x in enumerate((0.5, 0.5, 0.5, 1.5, 1.5, 8.5, 8.5))]
    (_, found), *_ = visits(encode_trips([batch(rows)], bound(most_cells=3)))
    assert found == [(0, 0, 2), (1, 3, 1), (2, 4, 0)]


def test_a_trip_that_comes_twice_is_refused_where_it_is_the_unit():
    """In two batches, or with another trip in between: each part would be a unit of its own."""
    rows = [("a", 0, 0, 0.5, 0.5), ("a", 1, 9 * STEP_US, 1.5, 0.5), ("a", 0, 20 * STEP_US, 2.5, 0.5)]
    each = bound(each_trip=True, per_unit=1)
    for batches in ([batch(rows)], [batch(rows[:1]), batch(rows[2:])]):
        with pytest.raises(GuaranteeError, match="of a trip, do not come together"):
            encode_trips(batches, each)
    named_alike = [("a", 0, 0, 0.5, 0.5), ("b", 0, 0, 2.5, 0.5)]
    assert encode_trips([batch(named_alike)], each).count == 2
    rows = [("a", 0, 0, 0.5, 0.5), ("a", 1, 9 * STEP_US, 1.5, 0.5)]
    assert encode_trips([batch(rows)], bound(each_trip=True, per_unit=1)).each_trip
    assert not encode_trips([batch(rows)], bound()).each_trip


@for_each("most", [1, 2, 5, 9, 12, 17, 18, 99])
def test_visits_of_a_unit_beyond_the_most_are_cut_off(most):
    """Nine cells from side to side and back, twice, by two users: as without the cut, but shorter."""
    rows = [
        (user, trip, tick * STEP_US, 0.5 + 8 * (tick % 2), 0.5)
        for user in "ab"
        for trip in (0, 1)
        for tick in (0, 1)
    ]
    whole = visits(encode_trips([batch(rows)], bound()))
    found = visits(encode_trips([batch(rows)], bound(most_cells=most)))
    first = min(most, 9)
    kept = [first, max(min(most - first, 9), 1)] * 2
    assert [len(path) for _, path in found] == kept
    assert [path for _, path in found] == [path[:n] for (_, path), n in zip(whole, kept, strict=True)]


SUM_GRID = CellGrid(box=(0.0, 0.0, 4.0, 3.0), columns=4, rows=3, planar=True)


def random_trips(rng, count):
    """Walks to the next cell and back, with stays."""
    trips = []
    for _ in range(count):
        x, y, tick, trip = int(rng.integers(3)), int(rng.integers(3)), 0, []
        for step in range(int(rng.integers(1, 9))):
            stay = int(rng.integers(0, 4))
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


def random_entries(rng, trips, size, weighted):
    first = np.concatenate([[0], np.cumsum(rng.integers(0, 9, trips))]).astype(np.int64)
    index = rng.integers(0, size, int(first[-1])).astype(np.int64)
    heavy = int(rng.choice([2, 50, 10**6]))
    weight = rng.integers(1, heavy, index.size).astype(np.int64) if weighted else None
    return Entries(first, index, weight)


@for_each("norm", [1, 2])
@for_each("weighted", [False, True])
@for_each("seed", range(8))
def test_every_unit_adds_its_share_rounded_down_and_never_more(seed, weighted, norm):
    rng = np.random.default_rng(seed)
    trips, size = 40, int(rng.choice([2, 5, 60]))
    unit = np.sort(rng.integers(0, 15, trips))
    entries = random_entries(rng, trips, size, weighted)
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


@pytest.mark.parametrize(
    ("table", "of_path"), [(Moves(SUM_GRID), "moves"), (StayPlaces(SUM_GRID), "total_stay")]
)
def test_the_query_interface_asks_the_table_for_its_entries(table, of_path):
    trips = random_trips(np.random.default_rng(1), 30)
    paths = exact_paths(SUM_GRID, trips, np.arange(30) // 3)
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
        paths = exact_paths(SUM_GRID, [[(3, 0, 0)]] * trips, np.zeros(trips, int))
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
    rng = np.random.default_rng(3)
    unit = np.sort(rng.integers(0, 20_000, 30_000))
    entries = random_entries(rng, 30_000, 50, True)
    found = []
    for cores in (1, 2, 7):
        monkeypatch.setattr(engine.os, "cpu_count", lambda cores=cores: cores)
        found.append(summed(entries, unit, 50, norm))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_units_without_entries_add_nothing_and_units_apart_are_refused():
    still = exact_paths(SUM_GRID, [[(0, 0, 0)], [(1, 0, 2), (2, 3, 0)]], [0, 1])
    assert PathQueries(still).table(Moves(SUM_GRID), 1).sum() == LATTICE - 1
    assert PathQueries(exact_paths(SUM_GRID, [], [])).table(Moves(SUM_GRID), 2).tolist() == [0] * 96
    trips = [[(0, 0, 0)]] * 3
    with pytest.raises(GuaranteeError, match="do not come together"):
        PathQueries(exact_paths(SUM_GRID, trips, [0, 1, 0]))
    with pytest.raises(GuaranteeError, match="more than one trip"):
        PathQueries(exact_paths(SUM_GRID, trips, [0, 1, 1], each_trip=True))
    PathQueries(exact_paths(SUM_GRID, trips, [0, 1, 1]))
    PathQueries(exact_paths(SUM_GRID, trips, [0, 1, 4], each_trip=True))


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
    queries = PathQueries(exact_paths(SUM_GRID, [[(0, 0, 0)]] * 2, [0, 1]))
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
