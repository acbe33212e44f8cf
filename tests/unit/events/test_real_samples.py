"""Public research samples, where they are at hand: they read as they are, and trips agree with an oracle."""

import os
from itertools import groupby, pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shoal.events.readers import check_rows
from shoal.events.schema import TripRule
from shoal.events.source import open_source
from shoal.events.trips import count_trips

SAMPLES = Path(os.environ.get("SHOAL_DATA", Path(__file__).parents[3] / "../shared/data"))


def sample(name):
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"the sample {name} is not here (set SHOAL_DATA)")
    return path


def test_occupied_runs_of_taxis():
    path = sample("cabspotting/sample_49cabs_7days.parquet")
    rows = pq.read_table(path).to_pylist()
    rows.sort(key=lambda row: (row["user_id"], row["timestamp"], row["lon"], row["lat"], row["occupied"]))
    runs = trips = 0
    for (_, occupied), run in groupby(rows, key=lambda row: (row["user_id"], row["occupied"])):
        times = [row["timestamp"] for row in run]
        if occupied:
            runs += 1
            trips += 1 + sum(after - before >= 300 for before, after in pairwise(times))
    source = open_source(path)
    assert count_trips(source, TripRule(flag=True)) == runs
    assert count_trips(source, TripRule(flag=True, gap_minutes=5)) == trips


@pytest.mark.exhaustive
def test_occupied_runs_of_all_taxis():
    sample("cabspotting/cabspotting_part0.parquet")
    source = open_source(str(SAMPLES / "cabspotting/cabspotting_part*.parquet"))
    assert source.coordinate_scale == 1e-5
    assert count_trips(source, TripRule(flag=True)) == 464_048


def test_trips_in_lists_with_one_start_time():
    path = sample("trips/porto_sample_trips.parquet")
    table = pq.read_table(path, columns=["taxi_id", "timestamp", "lon"]).to_pylist()
    report = check_rows(open_source(path, point_seconds=15))
    assert report.rows == sum(max(len(row["lon"] or []), 1) for row in table)
    assert report.by_reason["null-user"] == sum(len(row["lon"]) for row in table if row["taxi_id"] is None)


def test_numbers_of_a_bounded_kind_need_a_unit_told():
    source = open_source(sample("trips/oldenburg_brinkhoff.parquet"), time_unit="s")
    assert source.shape == "planar"
    assert check_rows(source).bad == 0
