"""Trips of a source: user-complete batches, whatever the order and split of the rows."""

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import PlanError, SourceError
from shoal.events.schema import TripRule
from shoal.events.source import open_source
from shoal.events.trips import count_trips, read_trips

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
