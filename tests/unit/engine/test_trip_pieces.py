"""Points to bounded paths: cuts, jumps, at most m per user by a keyed choice, whatever the split."""

import numpy as np
import pyarrow as pa
import pytest
from tests.loops import for_each

from shoal.engine.engine import encode_trips
from shoal.engine.trip_pieces import TripBound
from shoal.errors import GuaranteeError, PlanError
from shoal.space.cells import CellGrid
from shoal.stages.trips import GridTrips

GRID = CellGrid(box=(0.0, 0.0, 8.0, 8.0), columns=8, rows=8, planar=True)  # cells of 1 m
KEY = bytes(range(16))


def batch(rows):
    """One batch of (user, trip, x, y)."""
    user, trip, x, y = zip(*rows, strict=True) if rows else ((), (), (), ())
    ids = pa.array(user, pa.string() if user and isinstance(user[0], str) else pa.int64())
    return pa.record_batch(
        [ids, pa.array(trip, pa.int64()), pa.array(x, pa.float64()), pa.array(y, pa.float64())],
        ["user", "trip", "x", "y"],
    )


def bound(**more):
    return TripBound(**{"grid": GRID, "run_key": KEY, **more})


def paths(trips):
    """The cells of every trip as tuples of (column, row)."""
    width = trips.grid.columns
    pieces = np.split(trips.cells, trips.first[1:-1]) if trips.count else []
    return [[(int(c) % width, int(c) // width) for c in piece] for piece in pieces]


def one_trip(points, **more):
    rows = [("a", 0, x, y) for x, y in points]
    return encode_trips([batch(rows)], bound(**{"per_unit": 99, **more}))


def test_trips_are_cut_outside_the_map_and_at_no_numbers():
    found = one_trip([(0.5, 0.5), (1.5, 0.5), (9.0, 0.5), (3.5, 0.5), (4.5, 0.5), (-1, 4), (-1, 5), (0, 7)])
    assert paths(found) == [[(0, 0), (1, 0)], [(3, 0), (4, 0)], [(0, 7)]]
    assert found.all_trips == 3
    assert found.unit.tolist() == [0, 0, 0]
    found = one_trip([(0.5, 0.5), (float("nan"), 0.5), (2.5, 0.5), (1.5, float("inf")), (4.5, 0.5)])
    assert paths(found) == [[(0, 0)], [(2, 0)], [(4, 0)]]
    assert paths(one_trip([(8.0, 8.0)])) == [[(7, 7)]]
    assert paths(one_trip([(8.0, 7.0), (8.0, 8.0)])) == [[(7, 7)]]
    found = one_trip([(2.5, 3.5)])
    assert paths(found) == [[(2, 3)]]
    assert paths(one_trip([(2.5, 3.5)] * 3)) == [[(2, 3)]]


def test_where_a_trip_is_the_unit_its_longest_piece_is_kept():
    points = [(0.5, 0.5), (9.0, 0.5), (3.5, 0.5), (4.5, 0.5), (-1, 4), (0, 7)]
    rows = [("a", 0, x, y) for x, y in points] + [("a", 1, 6.5, 6.5), ("b", 1, 1.5, 6.5), ("b", 2, 2.5, 6.5)]
    found = encode_trips([batch(rows)], bound(each_trip=True))
    assert paths(found) == [[(3, 0), (4, 0)], [(6, 6)], [(1, 6)], [(2, 6)]]
    assert (found.unit.tolist(), found.all_trips) == ([0, 1, 2, 3], 4)


@for_each("seed", range(30))
def test_taking_a_trip_s_points_away_takes_one_path_away(seed):
    """Whatever is cut at the edge of the map and at jumps; the other trips of its user stay as they were."""
    chance = np.random.default_rng(seed)
    rows = [
        (user, trip, *chance.uniform(-1, 9, 2))
        for user in "abc"
        for trip in range(4)
        for _ in range(chance.integers(1, 7))
    ]
    each = bound(each_trip=True, jump_m=float(chance.uniform(1, 9)))
    before = paths(encode_trips([batch(rows)], each))
    for gone in [("a", 1), ("b", 0), ("c", 3)]:
        after = paths(encode_trips([batch([row for row in rows if row[:2] != gone])], each))
        left = list(before)
        for path in after:
            left.remove(path)
        assert len(left) <= 1


def test_a_long_step_cuts_and_one_of_just_the_length_does_not():
    points = [(0.5, 0.5), (3.5, 4.5), (3.5, 5.5)]  # 5 m, then 1 m
    assert len(paths(one_trip(points))) == 1
    assert len(paths(one_trip(points, jump_m=5.0))) == 1
    assert paths(one_trip(points, jump_m=4.9)) == [[(0, 0)], [(3, 4), (3, 5)]]
    assert len(paths(one_trip(points, jump_m=0.5))) == 3
    grid = CellGrid(box=(0.0, 59.0, 1.0, 61.0), columns=8, rows=8)
    east = [("a", 0, 0.1, 60.0), ("a", 0, 0.2, 60.0)]  # 5.6 km at 60 degrees north
    north = [("a", 0, 0.1, 60.0), ("a", 0, 0.1, 60.1)]  # 11.1 km
    for rows, metres in ((east, 5_566), (north, 11_057)):
        for jump_m, pieces in ((metres * 0.99, 2), (metres * 1.01, 1)):
            each = bound(grid=grid, per_unit=9, jump_m=jump_m)
            assert encode_trips([batch(rows)], each).count == pieces


@for_each("rows", [[], [("a", 0, 99.0, 99.0)]])
@for_each("each_trip", [False, True])
def test_nothing_inside_gives_no_trips(rows, each_trip):
    for batches in ([batch(rows)], []):
        found = encode_trips(batches, bound(each_trip=each_trip))
        assert (found.count, found.all_trips, found.cells.size, found.unit.size) == (0, 0, 0, 0)
        assert found.first.tolist() == [0]


def test_trips_of_two_users_stay_apart_and_only_users_inside_count():
    rows = [("a", 0, 0.5, 0.5), ("b", 0, 5.5, 0.5)]
    found = encode_trips([batch(rows)], bound())
    assert paths(found) == [[(0, 0)], [(5, 0)]]
    assert found.unit.tolist() == [0, 1]
    rows = [("a", 0, 0.5, 0.5), ("b", 0, 99.0, 0.5), ("c", 0, 5.5, 0.5)]
    found = encode_trips([batch(rows[:1]), batch(rows[1:2]), batch(rows[2:])], bound())
    assert found.unit.tolist() == [0, 1]


def world(generator, users, text, most=9):
    """Rows by user: {user: rows}; the trips of a user start at different cells, so they can be told."""
    rows = {}
    for number in range(users):
        user = f"user {number}" if text else number * 7919 - 40
        trips = int(generator.integers(1, most + 1))
        rows[user] = [
            (user, trip, *generator.uniform(-0.5, 8.5, 2))
            for trip in range(trips)
            for _ in range(int(generator.integers(1, 4)))
        ]
    return rows


def as_sets(trips):
    """Paths by unit, without the order and numbers of units."""
    by_unit = {}
    for unit, path in zip(trips.unit.tolist(), paths(trips), strict=True):
        by_unit.setdefault(unit, []).append(tuple(path))
    return sorted(sorted(of_one) for of_one in by_unit.values())


@for_each("text", [False, True])
@for_each("per_unit", [1, 3])
def test_at_most_m_of_a_user_and_the_same_ones_whatever_the_order_and_split_of_users(text, per_unit):
    generator = np.random.default_rng(5)
    rows = world(generator, 60, text)
    everything = encode_trips(
        [batch([row for of_user in rows.values() for row in of_user])], bound(per_unit=99, cap=99)
    )
    whole = None
    for _ in range(4):
        users = list(rows)
        generator.shuffle(users)
        cuts = np.sort(generator.integers(0, len(users), 5))
        batches = [
            batch([row for user in part for row in rows[user]])
            for part in np.split(np.array(users, object), cuts)
        ]
        found = encode_trips(batches, bound(per_unit=per_unit, cap=6))
        assert np.bincount(found.unit).max() == per_unit
        whole = whole or as_sets(found)
        assert as_sets(found) == whole
        sizes = np.bincount(everything.unit)
        assert found.count == np.minimum(sizes, per_unit).sum()
        assert found.all_trips == np.minimum(sizes, 6).sum()
        assert (found.per_unit, found.cap) == (per_unit, 6)
    kept = [path for of_one in whole for path in of_one]
    assert set(kept) <= {path for of_one in as_sets(everything) for path in of_one}


def test_a_slice_of_a_larger_batch_gives_the_same_choice():
    rows = world(np.random.default_rng(6), 20, text=True)
    large = batch([row for of_user in rows.values() for row in of_user])
    cut = sum(len(of_user) for of_user in list(rows.values())[:8])
    halves = [large.slice(0, cut), large.slice(cut)]
    assert as_sets(encode_trips(halves, bound())) == as_sets(encode_trips([large], bound()))


def test_the_choice_is_uniform_over_pieces_and_pairs_and_changes_with_the_key():
    """Chi-square over which of five pieces 4,000 users keep: below the 99.9 % point with 4 degrees."""
    rows = [(user, trip, trip + 0.5, 0.5) for user in range(4000) for trip in range(5)]
    found = encode_trips([batch(rows)], bound())
    kept = np.bincount(found.cells, minlength=5)
    assert kept.sum() == 4000
    assert ((kept - 800) ** 2 / 800).sum() < 18.47
    other = encode_trips([batch(rows)], bound(run_key=bytes(16)))
    assert 0.7 < np.mean(other.cells != found.cells) < 0.9  # 4 of 5
    rows = [(user, trip, trip + 0.5, 0.5) for user in range(4000) for trip in range(4)]
    found = encode_trips([batch(rows)], bound(per_unit=2))
    low, high = found.cells.reshape(-1, 2).T
    kept = np.bincount(low * 4 + high, minlength=16)
    kept = kept[kept > 0]
    assert kept.size == 6
    assert ((kept - 4000 / 6) ** 2 / (4000 / 6)).sum() < 20.52  # 99.9 % with 5 degrees


def test_where_the_unit_is_a_trip_one_piece_of_each_is_kept():
    rows = world(np.random.default_rng(7), 30, text=False)
    batches = [batch(of_user) for of_user in rows.values()]
    each = encode_trips(batches, bound(each_trip=True))
    users = encode_trips(batches, bound(per_unit=99))
    assert each.unit.tolist() == list(range(each.count))
    inside = {(u, t) for of_user in rows.values() for u, t, x, y in of_user if 0 <= x <= 8 and 0 <= y <= 8}
    assert each.count == len(inside) < users.count  # some were cut
    assert each.all_trips == each.count
    assert (each.per_unit, each.cap) == (1, 1)


def test_progress_hears_of_every_row():
    rows = world(np.random.default_rng(8), 12, text=False)
    heard = []
    encode_trips(
        [batch(of_user) for of_user in rows.values()], bound(), lambda what, n: heard.append((what, n))
    )
    assert heard == [("encode", len(of_user)) for of_user in rows.values()]


@for_each(
    ("wrong", "code"),
    [
        ({"each_trip": True, "per_unit": 2}, "trip-bound"),
        ({"per_unit": 0}, "trip-bound"),
        ({"per_unit": 3, "cap": 2}, "trip-bound"),
        ({"jump_m": 0.0}, "trip-jump"),
        ({"jump_m": float("nan")}, "trip-jump"),
    ],
)
def test_bounds_that_make_no_sense(wrong, code):
    with pytest.raises(PlanError, match=code):
        bound(**wrong)


def test_a_user_who_comes_twice_is_refused():
    rows = [("a", 0, 0.5, 0.5), ("b", 0, 1.5, 0.5), ("a", 1, 2.5, 0.5)]
    for batches in ([batch(rows)], [batch(rows[:2]), batch(rows[2:])]):
        with pytest.raises(GuaranteeError, match="bound-not-held"):
            encode_trips(batches, bound(per_unit=2))
        assert encode_trips(batches, bound(each_trip=True)).count == 3  # a trip is a unit wherever it comes
        with pytest.raises(GuaranteeError, match="bound-not-held"):  # but only once
            encode_trips([batch(rows), batch(rows[:1])], bound(each_trip=True))


def test_paths_over_the_bound_are_refused_and_the_key_is_not_shown():
    assert "run_key" not in repr(bound())
    good = {"grid": GRID, "cells": np.zeros(2, np.int32), "all_trips": 2, "cap": 2, "each_trip": False}
    arrays = {"first": np.arange(3), "unit": np.zeros(2, np.int64)}
    assert GridTrips(**good, **arrays, per_unit=2).count == 2
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        GridTrips(**good, **arrays, per_unit=1)


@for_each("most", [1, 2, 5, 15, 20, 29, 30, 99])
@for_each("each_trip", [False, True])
def test_cells_of_a_unit_beyond_the_most_are_cut_off(most, each_trip):
    """Fifteen cells from corner to corner, twice, by two users: as without the cut, but shorter."""
    rows = [(user, trip, 7.5 * p, 7.5 * p) for user in "ab" for trip in (0, 1) for p in (0, 1)]
    public = {"each_trip": True} if each_trip else {"per_unit": 9}
    whole = paths(encode_trips([batch(rows)], bound(**public)))
    found = encode_trips([batch(rows)], bound(**public, most_cells=most))
    first = min(most, 15)
    kept = [first, first if each_trip else max(min(most - first, 15), 1)] * 2
    assert [len(path) for path in paths(found)] == kept
    assert paths(found) == [path[:n] for path, n in zip(whole, kept, strict=True)]
    alone = encode_trips([batch(rows[4:])], bound(**public, most_cells=most))
    assert paths(alone) == paths(found)[2:]  # what is kept of a user does not depend on others


def test_one_person_jumping_from_corner_to_corner_cannot_exhaust_the_memory():
    """200,000 points on the finest grid cross 1.6e9 cells; ten million of them are kept."""
    fine = CellGrid(box=(0.0, 0.0, 8.0, 8.0), columns=2**12, rows=2**12, planar=True)
    rows = [("a", 0, 7.9 * (p % 2), 7.9 * (p % 2)) for p in range(200_000)]
    found = encode_trips([batch([*rows, ("b", 0, 1.0, 1.0)])], bound(grid=fine))
    assert np.diff(found.first).tolist() == [10_000_000, 1]
