"""Trip rules against a plain Python reading of the same words.

Trips of a source: user-complete batches, whatever the order and split of the rows.

Rows of users in order of trip, time and place, against Python's sort; the same from any order of rows.
"""

import math
import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loops import for_each

from shoal.errors import PlanError, SourceError
from shoal.events.schema import TripRule
from shoal.events.source import open_source
from shoal.events.trips import count_trips, in_order, read_trips, split_trips

MINUTE_US = 60_000_000


def oracle(points, rule: TripRule, distance) -> list[int]:
    """Trips of one user's points [(minute, place, flag)], by lists: cut by flag and gap, then by stays."""
    pieces, piece = [], []
    for number, (minute, _, flag) in enumerate(points):
        gap = piece and rule.gap_minutes is not None and minute - points[piece[-1]][0] >= rule.gap_minutes
        if piece and (gap or (rule.flag and not flag)):
            pieces.append(piece)
            piece = []
        if flag or not rule.flag:
            piece.append(number)
    pieces.append(piece)
    trips = [trip for piece in pieces for trip in cut_at_stays(piece, points, rule, distance)]
    found = [-1] * len(points)
    for index, trip in enumerate(trip for trip in trips if len(trip) >= rule.min_points):
        for number in trip:
            found[number] = index
    return found


def cut_at_stays(piece, points, rule, distance):
    if rule.stay_m is None or not piece:
        return [piece] if piece else []
    stay = first_stay(piece, points, rule, distance)
    if stay is None:
        return [piece]
    first, last = stay
    before, after = piece[: first + 1], piece[last:]
    rest = cut_at_stays(after, points, rule, distance) if len(after) > 1 else []
    return ([before] if len(before) > 1 else []) + rest


def first_stay(piece, points, rule, distance):
    """Positions in the piece of the first point from which the user stays, and of the last within reach."""
    for first in range(len(piece)):
        last = first
        while (
            last + 1 < len(piece)
            and distance(points[piece[first]][1], points[piece[last + 1]][1]) <= rule.stay_m
        ):
            last += 1
        if last > first and points[piece[last]][0] - points[piece[first]][0] >= rule.stay_minutes:
            return first, last
    return None


rules = st.builds(
    lambda gap, flag, stay, least: TripRule(
        gap_minutes=gap if gap or flag or stay else 2.0,
        flag=flag,
        stay_m=stay[0] if stay else None,
        stay_minutes=stay[1] if stay else None,
        min_points=least,
    ),
    st.none() | st.sampled_from([1.0, 2.0, 3.0]),
    st.booleans(),
    st.none() | st.tuples(st.sampled_from([1.0, 2.0]), st.sampled_from([1.0, 2.0, 4.0])),
    st.integers(1, 3),
)
point = st.tuples(st.integers(0, 4), st.integers(-3, 3), st.booleans())  # minutes since the last, place, flag


@settings(max_examples=400, deadline=None)
@given(rule=rules, users=st.lists(st.lists(point, min_size=1, max_size=14), max_size=4))
def test_split_is_what_the_words_say(rule, users):
    user, time_us, x, flags, expected = [], [], [], [], []
    for number, steps in enumerate(users):
        points, minute = [], 0
        for step, place, flag in steps:
            minute += step
            points.append((minute, place, flag))
        expected += oracle(points, rule, lambda one, two: abs(one - two))
        user += [number * 7 - 3] * len(points)
        time_us += [minute * MINUTE_US for minute, _, _ in points]
        x += [float(place) for _, place, _ in points]
        flags += [flag for _, _, flag in points]
    found = split_trips(
        np.array(user, dtype=np.int64),
        np.array(time_us, dtype=np.int64),
        np.array(x, dtype=np.float64),
        np.zeros(len(x)),
        rule,
        np.array(flags, dtype=bool),
        planar=True,
    )
    assert found.tolist() == expected


def split(rule, minutes, x, y, planar=False, flag=None):
    minutes = np.array(minutes) * MINUTE_US
    return split_trips(
        np.zeros(len(minutes)), minutes, np.array(x), np.array(y), rule, flag, planar=planar
    ).tolist()


def test_gaps_and_stays_by_hand():
    assert split(TripRule(gap_minutes=5), [0, 4, 9, 13], [0.0] * 4, [0.0] * 4) == [0, 0, 1, 1]
    x = [0.0, 500.0, 1000.0, 1010.0, 990.0, 1500.0, 2000.0]
    rule = TripRule(stay_m=50, stay_minutes=10)
    assert split(rule, [0, 1, 2, 7, 12, 13, 14], x, [0.0] * 7, planar=True) == [0, 0, 0, -1, 1, 1, 1]
    assert split(rule, [0, 1, 2, 7, 11, 12, 13], x, [0.0] * 7, planar=True) == [0] * 7
    with pytest.raises(PlanError, match="trip-rule"):
        split(TripRule(flag=True), [0], [0.0], [0.0])


@pytest.mark.parametrize(
    ("lon", "lat"),
    [((2.0, 2.001), (48.0, 48.0)), ((2.0, 2.0), (48.0, 48.001)), ((179.9995, -179.9995), (0.0, 0.0))],
)
def test_distances_on_the_globe_are_metres(lon, lat):
    """Against the law of cosines: the pair is a stay just above its distance and none just below."""
    phi = [math.radians(each) for each in lat]
    angle = math.sin(phi[0]) * math.sin(phi[1]) + math.cos(phi[0]) * math.cos(phi[1]) * math.cos(
        math.radians(lon[1] - lon[0])
    )
    metres = 6_371_008.8 * math.acos(angle)
    assert 50 < metres < 150
    for factor, expected in ((1.001, [-1, -1]), (0.999, [0, 0])):
        assert split(TripRule(stay_m=metres * factor, stay_minutes=1), [0, 1], lon, lat) == expected


@for_each(
    "settings",
    [
        {},
        {"gap_minutes": 0.0},
        {"gap_minutes": float("nan")},
        {"stay_m": 10.0},
        {"stay_minutes": 10.0},
        {"stay_m": -1.0, "stay_minutes": 10.0},
        {"flag": True, "min_points": 0},
    ],
)
def test_rules_that_make_no_sense(settings):
    with pytest.raises(PlanError, match="trip-rule"):
        TripRule(**settings)


NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
NOON_US = 1_780_315_200_000_000


def write(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def walk(user, minutes, **more):
    return [
        {"user": user, "time": NOON + timedelta(minutes=at), "lon": at / 100, "lat": 1.0, **more}
        for at in minutes
    ]


@pytest.mark.parametrize("rows_per_batch", [2048, 4096, 1_000_000])
@pytest.mark.parametrize("as_text", [False, True])
def test_no_user_is_in_two_batches(tmp_path, rows_per_batch, as_text):
    chance = random.Random(5)
    rows, expected = [], {}
    for number in range(200):
        user = f"u{number}" if as_text else number
        minutes = sorted(chance.sample(range(3000), chance.choice([1, 5, 40, 200])))
        rows += walk(user, minutes)
        trip, last = 0, minutes[0]
        for minute in minutes:
            trip += minute - last >= 20
            last = minute
            expected.setdefault(user, []).append((trip, minute))
    rows += walk("u7" if as_text else 7, range(4000, 9000))  # longer than a batch
    last = expected["u7" if as_text else 7]
    last += [(last[-1][0] + 1, minute) for minute in range(4000, 9000)]
    chance.shuffle(rows)
    for part in range(3):
        write(tmp_path / f"{part}.parquet", rows[part::3])
    found, batches_of = {}, {}
    for index, batch in enumerate(
        read_trips(open_source(tmp_path), TripRule(gap_minutes=20), rows_per_batch=rows_per_batch)
    ):
        assert batch.schema.names == ["user", "trip", "time_us", "x", "y"]
        for row in batch.to_pylist():
            found.setdefault(row["user"], []).append((row["trip"], (row["time_us"] - NOON_US) // 60_000_000))
            batches_of.setdefault(row["user"], set()).add(index)
    assert found == expected
    assert all(len(batches) == 1 for batches in batches_of.values())


def test_points_in_no_trip_are_left_out(tmp_path):
    rows = walk("a", [0, 1, 2, 3, 4, 5])
    for row, flag in zip(rows, [True, False, True, True, False, False], strict=True):
        row["occupied"] = flag
    source = open_source(write(tmp_path / "a.parquet", rows))
    batch = next(read_trips(source, TripRule(flag=True)))
    assert batch["trip"].to_pylist() == [0, 1, 1]
    assert batch["x"].to_pylist() == [0.0, 0.02, 0.03]
    batch = next(read_trips(source, TripRule(flag=True, min_points=2)))
    assert batch["trip"].to_pylist() == [0, 0]
    assert count_trips(source, TripRule(flag=True)) == 2
    assert list(read_trips(source, TripRule(flag=True, min_points=3))) == []


def test_trips_the_source_names_are_kept_and_may_be_split_further(tmp_path):
    rows = walk("a", [0, 1], trip="x") + walk("a", [1, 2, 30], trip="y") + walk("b", [0], trip="x")
    source = open_source(write(tmp_path / "a.parquet", rows))

    def numbers(rule=None):
        return [trip for batch in read_trips(source, rule) for trip in batch["trip"].to_pylist()]

    assert numbers() == [0, 0, 1, 1, 1, 0]
    assert numbers(TripRule(gap_minutes=10)) == [0, 0, 1, 1, 2, 0]


def test_what_cannot_give_trips(tmp_path):
    points = open_source(write(tmp_path / "a.parquet", walk("a", [0, 1])))
    with pytest.raises(PlanError, match="trip-rule"):
        list(read_trips(points))
    with pytest.raises(SourceError, match="missing-column"):
        list(read_trips(points, TripRule(flag=True)))
    sites = open_source(write(tmp_path / "b.parquet", [{"user": 1, "time": NOON, "site": "a"}]))
    with pytest.raises(PlanError, match="trips-need-points"):
        list(read_trips(sites, TripRule(gap_minutes=5)))


def batch_of(rows, names):
    return pa.record_batch([list(column) for column in zip(*rows, strict=True)], names)


def new_user(rows):
    return np.array([i == 0 or row[0] != rows[i - 1][0] for i, row in enumerate(rows)])


@for_each("text", [False, True])
@for_each("kind", ["any", "runs", "sorted", "reversed"])
def test_rows_are_sorted_within_users_and_users_stay(text, kind):
    names = ["user", "trip", "time_us", "x", "y", "flag"]
    chance = random.Random(3)
    rows = []
    for user in (5, 2, 9, 1, 7):  # users need not be sorted
        own = []
        for _ in range(chance.choice([1, 2, 33, 200])):
            trip = chance.choice([-3, 0, 7, 12])
            place = chance.choice([0.0, -0.5, 2.25]), chance.choice([1.0, 2.0])
            own.append(
                (user, f"é{trip}" if text else trip, chance.randrange(4), *place, chance.random() < 0.5)
            )
        if kind == "runs":  # whole trips in order, one after the other in any order
            own.sort(key=lambda row: (str(row[1])[::-1], *row[1:]))
        elif kind != "any":
            own.sort(reverse=kind == "reversed", key=lambda row: by_bytes(row))
        rows += own
    expected = [
        row
        for user in (5, 2, 9, 1, 7)
        for row in sorted((row for row in rows if row[0] == user), key=by_bytes)
    ]
    batch = batch_of(rows, names)
    found = in_order(batch, new_user(rows))
    assert [tuple(row.values()) for row in found.to_pylist()] == expected
    if kind == "sorted":
        assert found is batch  # nothing is copied


def by_bytes(row):
    return (row[1].encode() if isinstance(row[1], str) else row[1], *row[2:])


def test_a_slice_and_no_rows():
    names = ["user", "time_us", "x", "y"]
    rows = [(1, 9, 0.0, 0.0), (1, 3, 0.0, 0.0), (1, 2, 0.0, 0.0), (2, 1, 5.0, 0.0), (2, 1, 4.0, 0.0)]
    part = batch_of(rows, names).slice(1)
    assert in_order(part, new_user(rows[1:]))["time_us"].to_pylist() == [2, 3, 1, 1]
    assert in_order(part, new_user(rows[1:]))["x"].to_pylist() == [0.0, 0.0, 4.0, 5.0]
    empty = batch_of(rows, names).slice(0, 0)
    assert in_order(empty, np.zeros(0, bool)).num_rows == 0


@pytest.mark.parametrize("shape", ["points", "trip points", "lists"])
def test_any_order_of_the_source_gives_the_same_batches(tmp_path, shape):
    """Rows sorted, shuffled, in one file and in five: one result."""
    chance = random.Random(4)
    start = datetime(2026, 6, 1, tzinfo=UTC)
    trips = []
    for user in range(40):
        at = 0
        for trip in range(chance.randrange(1, 6)):
            at += chance.randrange(30, 90)
            minutes = [at := at + chance.randrange(0, 3) for _ in range(chance.randrange(1, 9))]
            trips.append((f"u{user % 17}", f"{user}-{trip}", minutes))
    if shape == "lists":
        rows = [
            {
                "user": user,
                "trip": trip,
                "time": [start + timedelta(minutes=m) for m in minutes],
                "lon": [m / 1000 for m in minutes],
                "lat": [i / 10 for i in range(len(minutes))],
            }
            for user, trip, minutes in trips
        ]
    else:
        rows = [
            {"user": user, "time": start + timedelta(minutes=m), "lon": m / 1000, "lat": i / 10}
            | ({"trip": trip} if shape == "trip points" else {})
            for user, trip, minutes in trips
            for i, m in enumerate(minutes)
        ]
    rule = TripRule(gap_minutes=20) if shape == "points" else None
    results = []
    for version in range(4):
        folder = tmp_path / str(version)
        folder.mkdir()
        files = 1 if version < 2 else 5
        for part in range(files):
            pq.write_table(pa.Table.from_pylist(rows[part::files]), folder / f"{part}.parquet")
        batches = read_trips(open_source(folder), rule, rows_per_batch=64)
        results.append([row for batch in batches for row in batch.to_pylist()])
        chance.shuffle(rows)
    assert results[0] == results[1] == results[2] == results[3]
    assert len(results[0]) == sum(len(minutes) for _, _, minutes in trips)
    keys = [(row["user"], row["trip"], row["time_us"]) for row in results[0]]
    assert keys == sorted(keys)
