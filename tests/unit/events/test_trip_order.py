"""Rows of users in order of trip, time and place, against Python's sort; the same from any order of rows."""

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.loops import for_each

from shoal.events.schema import TripRule
from shoal.events.source import open_source
from shoal.events.trips import in_order, read_trips


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
