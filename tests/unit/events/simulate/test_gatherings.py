"""The city with a concert, a market and a fleet: what the truth file says is what the records show."""

import csv
import json
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from shoal.events.simulate import PRESETS, records, simulate_city
from shoal.events.simulate.gatherings import Gathering
from shoal.space.places import read_zones

USERS = 4_000
CITY = replace(PRESETS["events-city"], users=USERS, weeks=2, zones=60, sites=90, what=("points", "events"))


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return simulate_city(CITY, tmp_path_factory.mktemp("sim") / "city", seed=3)


@pytest.fixture(scope="module")
def visits(city):
    """user, local second, zone number (-1: none) and point of every row."""
    table = pq.ParquetDataset(city / "points").read()
    start = datetime.fromisoformat(json.loads((city / "city.json").read_text())["window"]["start"])
    second = table["time"].cast(pa.int64()).to_numpy() // 1_000_000 - int(start.timestamp())
    points = shapely.points(table["lon"].to_numpy(), table["lat"].to_numpy())
    row, found = shapely.STRtree(read_zones(city / "zones.geojson").geometry).query(points, "intersects")
    zone = np.full(len(points), -1)
    zone[row] = found
    return table["user"].to_numpy(), second, zone, shapely.get_coordinates(points)


def truth(city, kind="points") -> list[dict]:
    rows = list(csv.DictReader((city / "events.csv").open()))
    return [row for row in rows if row["records"] == kind]


def people_of(visits, zone: int, hour: int) -> int:
    user, second, zones, _ = visits
    return len(set(user[(zones == zone) & (second // 3600 == hour)].tolist()))


def test_a_gathering_is_where_and_when_and_as_large_as_the_truth_file_says(city, visits):
    ids = read_zones(city / "zones.geojson").ids
    rows = truth(city)
    assert [row["event"] for row in rows] == ["concert", "market", "market"]
    assert [row["repeats"] for row in rows] == ["once", "weekly", "weekly"]
    for row in rows:
        begin, end = (datetime.fromisoformat(row[key]) for key in ("start", "end"))
        first = round((begin - datetime(2026, 3, 2)) / timedelta(hours=1))
        zone, hours = ids.index(row["zone"]), round((end - begin) / timedelta(hours=1))
        seen = [people_of(visits, zone, hour) for hour in range(first - 1, first + hours + 1)]
        usual = max(seen[0], seen[-1])
        inner = seen[1:-1] if row["event"] == "concert" else seen[2:-2]  # market goers come and go
        assert max(seen[0], seen[-1]) < 0.3 * int(row["people"])
        for people in inner:
            assert abs(people - int(row["people"])) < 0.2 * int(row["people"]) + usual


def test_participants_are_nowhere_else_meanwhile(visits, city):
    user, second, zone, point = visits
    concert = truth(city)[0]
    number = read_zones(city / "zones.geojson").ids.index(concert["zone"])
    first = (datetime.fromisoformat(concert["start"]) - datetime(2026, 3, 2)) // timedelta(hours=1)
    during = (second // 3600 >= first) & (second // 3600 < first + 4)
    places, number_at = np.unique(point[during & (zone == number)], axis=0, return_counts=True)
    venue = (point == places[number_at.argmax()]).all(axis=1)
    participants = np.unique(user[during & venue])
    assert abs(len(participants) - 0.028 * USERS) < 0.05 * 0.028 * USERS + 1
    assert venue[during & np.isin(user, participants)].all()
    assert (during & venue).sum() == 4 * len(participants)


def test_vehicles_rest_on_sunday_and_rush_hours_start_on_the_hour(visits):
    user, second, _, _ = visits
    names, counts = np.unique(user, return_counts=True)
    vehicles = names[counts > 1000]  # of two weeks; hardly any person reaches it
    working = [name for name in vehicles if not (second[user == name] // 86400 % 7 == 6).any()]
    assert len(working) == round(0.006 * USERS)
    per_week = [(user == name).sum() / 2 for name in working]
    assert abs(np.mean(per_week) - 800) < 5 * np.std(per_week) / np.sqrt(len(per_week))
    _, second, _, _ = visits
    weekday = second[(second // 86400 % 7) < 5] % 86400
    for hour in (7, 17):
        before = ((weekday >= 3600 * hour - 900) & (weekday < 3600 * hour)).sum()
        after = ((weekday >= 3600 * hour) & (weekday < 3600 * hour + 900)).sum()
        assert after > 1.5 * before


def test_at_towers_a_gathering_is_shared_out_by_area(city):
    shares = {}
    for row in truth(city, "events"):
        key = (row["event"], row["start"])
        shares[key] = shares.get(key, 0) + int(row["people"])
    for row in truth(city):
        total = int(row["people"])
        assert 0.8 * total <= shares[row["event"], row["start"]] <= total + 5


def test_rows_do_not_depend_on_blocks_or_parts(tmp_path, monkeypatch):
    tiny = replace(CITY, users=700, weeks=1)
    one = simulate_city(tiny, tmp_path / "one", seed=5, parts=1)
    monkeypatch.setattr(records, "BLOCK_ROWS", 1)
    many = simulate_city(tiny, tmp_path / "many", seed=5, parts=3)
    for kind in tiny.what:
        rows = [pq.ParquetDataset(folder / kind).read().to_pylist() for folder in (one, many)]
        assert len(rows[0]) > 700
        assert sorted(map(str, rows[0])) == sorted(map(str, rows[1]))
    assert (one / "events.csv").read_bytes() == (many / "events.csv").read_bytes()


def test_expected_participants_by_hour():
    market = Gathering(
        name="market",
        weekly=True,
        zone=0,
        site=0,
        xy=(0.0, 0.0),
        first_hours=(0,),
        hours=5,
        stay=2,
        share=0.5,
    )
    assert [market.people(hour, 800) for hour in range(5)] == [100, 200, 200, 200, 100]
