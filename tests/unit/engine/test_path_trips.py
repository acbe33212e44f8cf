"""Points to paths of visits, against plain Python that follows the rules as they are written."""

from fractions import Fraction
from math import floor, hypot

import numpy as np
import pyarrow as pa
import pytest
from tests.loops import for_each

from shoal.engine import trip_pieces
from shoal.engine.engine import encode_trips
from shoal.engine.path_trips import MOST_TICKS, PathBound
from shoal.errors import GuaranteeError, PlanError
from shoal.space.cells import CellGrid

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


def random_rows(chance, users=4):
    """Trips of any kind: quick and slow sampling, equal times, far jumps, points outside."""
    rows = []
    for user in range(users):
        for trip in range(int(chance.integers(0, 4))):
            time = int(chance.integers(0, 10**12))
            pause = chance.choice([1, 20, 60, 200, 4000])
            x, y, wild = *chance.uniform(-0.5, [9.5, 6.5]), chance.choice([0.3, 1.2, 6.0])
            for _ in range(int(chance.integers(1, 12))):
                rows.append((f"user {user}", trip, time, float(x), float(y)))
                time += int(chance.integers(0, 2 * pause) * 1_000_000 * (chance.random() < 0.8))
                if chance.random() < 0.7:
                    x, y = np.clip(np.array([x, y]) + chance.normal(0, wild, 2), -1, [10, 7])
    return rows


@for_each("each_trip", [False, True])
@for_each("seed", range(60))
def test_paths_are_what_plain_python_says(seed, each_trip):
    chance = np.random.default_rng(seed)
    rows = random_rows(chance)
    more = {"jump_m": float(chance.uniform(0.5, 5))} if seed % 3 == 0 else {}
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
    chance = np.random.default_rng(5)
    each = bound(each_trip=each_trip, per_unit=1 if each_trip else 2, cap=None if each_trip else 3)
    rows = random_rows(chance, users=30)
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
        assert paths_by_unit(list(chance.permutation(users)), size) == whole


def test_a_user_in_two_batches_is_refused():
    rows = [("a", 0, 0, 1.5, 1.5)]
    with pytest.raises(GuaranteeError, match="do not come together"):
        encode_trips([batch(rows), batch(rows)], bound())


def one(points, **more):
    """The visits of one trip of (seconds, x, y)."""
    rows = [("a", 0, 7_000_000 + round(s * 1e6), x, y) for s, x, y in points]
    return [path for _, path in visits(encode_trips([batch(rows)], bound(**more)))]


def test_trips_of_one_point_and_trips_outside():
    assert one([(0, 2.5, 1.5)]) == [[(11, 0, 0)]]
    assert one([(0, -2.5, 1.5), (60, 9.5, 3)]) == []
    nothing = encode_trips([batch([("a", 0, 0, -1.0, 0.0)]), batch([])], bound())
    assert (nothing.count, nothing.units, nothing.all_trips, nothing.first.tolist()) == (0, 0, 0, [0])
    assert encode_trips([], bound()).count == 0


def test_of_points_at_one_time_and_in_one_tick_the_first_is_kept():
    assert one([(0, 0.5, 0.5), (0, 5.5, 0.5), (59.9, 3.5, 0.5), (60, 1.5, 0.5)]) == [[(0, 0, 0), (1, 1, 0)]]


def test_stays_and_slow_sampling():
    points = [(0, 0.5, 0.5), (240, 0.6, 0.5), (600, 1.5, 1.5), (780, 1.4, 1.5)]
    assert one(points) == [[(0, 0, 4), (10, 10, 3)]]


def test_a_gap_is_filled_evenly():
    assert one([(0, 0.5, 0.5), (360, 3.5, 1.5)]) == [[(0, 0, 0), (1, 2, 0), (11, 4, 0), (12, 6, 0)]]
    assert one([(0, 0.5, 0.5), (60, 3.5, 0.5)]) == [[(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 1, 0)]]


def test_gaps_beyond_all_ticks_are_cut_to_the_last_tick():
    """Four points, the last two at different times that are one tick: the most there is."""
    far = (MOST_TICKS + 10) * 1.0
    found = one([(0, 0.5, 0.5), (1, 1.5, 0.5), (far, 2.5, 0.5), (far + 5, 8.5, 5.5)], step_s=1)
    assert found == [[(0, 0, 0), (1, 1, 0), (2, MOST_TICKS, 0)]]
    assert one([(0, 0.5, 0.5), (far, 0.5, 0.5)], step_s=1) == [[(0, 0, MOST_TICKS)]]


def test_the_step_is_at_least_a_second():
    with pytest.raises(PlanError, match="at least a second"):
        bound(step_s=0.5)


def test_a_trip_that_comes_twice_is_refused_where_it_is_the_unit():
    """In two batches, or with another trip in between: each stretch would be a unit of its own."""
    rows = [("a", 0, 0, 0.5, 0.5), ("a", 1, 9 * STEP_US, 1.5, 0.5), ("a", 0, 20 * STEP_US, 2.5, 0.5)]
    each = bound(each_trip=True, per_unit=1)
    for batches in ([batch(rows)], [batch(rows[:1]), batch(rows[2:])]):
        with pytest.raises(GuaranteeError, match="of a trip, do not come together"):
            encode_trips(batches, each)
    named_alike = [("a", 0, 0, 0.5, 0.5), ("b", 0, 0, 2.5, 0.5)]
    assert encode_trips([batch(named_alike)], each).count == 2


def test_paths_know_what_their_units_are():
    rows = [("a", 0, 0, 0.5, 0.5), ("a", 1, 9 * STEP_US, 1.5, 0.5)]
    assert encode_trips([batch(rows)], bound(each_trip=True, per_unit=1)).each_trip
    assert not encode_trips([batch(rows)], bound()).each_trip


def test_users_whose_digests_are_alike_are_not_taken_for_one(monkeypatch):
    """They are refused, which no key makes likely, instead of sharing a bound."""
    monkeypatch.setattr(trip_pieces, "digest_users", lambda users, key: np.zeros(len(users), np.uint64))
    with pytest.raises(GuaranteeError, match="do not come together"):
        encode_trips([batch([("a", 0, 0, 0.5, 0.5), ("b", 0, 0, 0.5, 0.5)])], bound())


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


def test_a_cut_keeps_stays_before_it():
    rows = [("a", 0, tick * STEP_US, x, 0.5) for tick, x in enumerate((0.5, 0.5, 0.5, 1.5, 1.5, 8.5, 8.5))]
    (_, found), *_ = visits(encode_trips([batch(rows)], bound(most_cells=3)))
    assert found == [(0, 0, 2), (1, 3, 1), (2, 4, 0)]
