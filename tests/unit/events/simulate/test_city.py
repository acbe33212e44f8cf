import json
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import OutputError, PlanError
from shoal.events.simulate import PRESETS, records, simulate_city
from shoal.events.simulate.geography import make_city
from shoal.events.simulate.people import HOME, make_ground, make_people, user_id
from shoal.events.simulate.presets import KINDS
from shoal.events.simulate.rhythm import count_running

USERS = 20_000
TOWN = replace(PRESETS["town"], users=USERS)
TINY = replace(PRESETS["town"], users=300, what=KINDS, trip_share=0.5)


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    return simulate_city(TOWN, tmp_path_factory.mktemp("sim") / "town", seed=11)


@pytest.fixture(scope="module")
def events(town):
    return read(town, "events")


def read(folder, kind) -> pa.Table:
    return pq.ParquetDataset(folder / kind).read()


def local_hours(table: pa.Table, folder) -> np.ndarray:
    start = json.loads((folder / "city.json").read_text())["window"]["start"]
    seconds = table["time"].cast(pa.int64()).to_numpy() // 1_000_000
    return (seconds - int(datetime.fromisoformat(start).timestamp())) // 3600


def rows(table: pa.Table) -> list[tuple]:
    def frozen(value):
        return tuple(value) if isinstance(value, list) else value

    return sorted(tuple(frozen(v) for v in row.values()) for row in table.to_pylist())


def test_visits_per_user_have_the_printed_mean_and_sd(events):
    """Within five standard errors of a sample of this size, computed from the distribution itself."""
    counts = np.unique(events["user"].to_numpy(), return_counts=True)[1]
    probability, visits = np.diff(count_running(13.55, 18.33, 732), prepend=0), np.arange(1, 733)
    fourth = probability @ (visits - 13.55) ** 4
    assert len(counts) == USERS
    assert abs(counts.mean() - 13.55) < 5 * 18.33 / np.sqrt(USERS)
    assert abs(counts.std() - 18.33) < 5 * np.sqrt((fourth - 18.33**4) / (4 * 18.33**2 * USERS))
    assert counts.min() >= 1
    assert counts.max() <= 732


def test_hours_of_the_week_and_characters_of_sites_are_as_printed(events, town):
    """At Paris size 91 per zone and hour, one visit per user and hour: 0.558 of all visits."""
    pairs = np.stack([events["user"].to_numpy(), local_hours(events, town)])
    seen = np.unique(pairs, axis=1).shape[1] / len(events)
    assert seen == pytest.approx(91 * 989 * 168 / (13.55 * 1_992_846), abs=0.02)
    hours = local_hours(events, town)
    assert hours.min() >= 0
    assert hours.max() < 168
    week = np.bincount(hours, minlength=168).reshape(7, 24)
    assert week[:5].sum(axis=0).argmin() in (3, 4, 5)
    assert week.sum(axis=0)[4] < 0.1 * week.sum(axis=0).max()
    assert week[5:].sum() / 2 < 0.9 * week[:5].sum() / 5  # a weekend day is quieter
    assert week[5, 1] > 1.5 * week[1, 1]  # but Saturday 1 h is livelier than Tuesday 1 h
    # Shares at weekday 10 h to 12 h differ between sites by far more than sampling error.
    site = events["site"].combine_chunks().indices.to_numpy()
    hours = local_hours(events, town)
    total = np.bincount(site, minlength=160)
    office = np.isin(hours % 24, (10, 11)) & (hours < 120)
    share = np.bincount(site[office], minlength=160) / total
    deviation = np.sqrt(office.mean() * (1 - office.mean()) / total.mean())
    assert share.std() > 3 * deviation
    key = zip(
        events["user"].to_pylist(),
        events["site"].to_pylist(),
        local_hours(events, town).tolist(),
        strict=True,
    )
    assert len(set(key)) == len(events)


def test_columns_are_as_the_card_says(town, events):
    card = json.loads((town / "city.json").read_text())
    assert events.schema.field("time").type == pa.timestamp("us", tz="UTC")
    assert events.schema.field("user").type == pa.int64()
    assert set(card["sources"]["events"]["columns"]) == set(events.column_names)
    assert card["sources"]["events"]["rows"] == len(events)
    assert card["sources"]["events"]["files"] == len(list((town / "events").iterdir()))
    assert card["window"] == {"start": "2026-03-02T00:00:00+01:00", "end": "2026-03-09T00:00:00+01:00"}
    assert (card["time_zone"], card["slot_minutes"], card["crs"]) == ("Europe/Paris", 60, "EPSG:4326")
    sites = {line.split(",")[0] for line in (town / "sites.csv").read_text().splitlines()[1:]}
    assert set(events["site"].to_pylist()) <= sites
    assert len(json.loads((town / "zones.geojson").read_text())["features"]) == 120


def test_the_same_seed_gives_the_same_rows_however_they_are_split(tmp_path, monkeypatch):
    one = simulate_city(TINY, tmp_path / "one", seed=5, parts=1)
    monkeypatch.setattr(records, "BLOCK_ROWS", 1)  # blocks of 200 users instead of all at once
    many = simulate_city(TINY, tmp_path / "many", seed=5, parts=7)
    other = simulate_city(TINY, tmp_path / "other", seed=6, parts=7)
    for kind in KINDS:
        assert len(list((many / kind).iterdir())) == 7
        assert rows(read(one, kind)) == rows(read(many, kind))
        assert rows(read(one, kind)) != rows(read(other, kind))
    for name in ("sites.csv", "zones.geojson", "stations.csv"):
        assert (one / name).read_bytes() == (many / name).read_bytes()


def test_longer_windows_keep_their_first_week_and_one_site_is_a_city(tmp_path):
    preset = replace(TINY, what=("transit",))
    short = rows(read(simulate_city(preset, tmp_path / "short", seed=5), "transit"))
    both = rows(read(simulate_city(replace(preset, weeks=2), tmp_path / "long", seed=5), "transit"))
    assert set(short) < set(both)
    preset = replace(PRESETS["town"], users=30, zones=1, sites=1, what=KINDS, trip_share=1.0)
    folder = simulate_city(preset, tmp_path / "dot", seed=1)
    assert set(read(folder, "events")["site"].to_pylist()) == {"S0000"}
    assert read(folder, "trips").num_rows == 0


def test_all_kinds_of_record_show_the_same_people(tmp_path):
    """At 2 h to 6 h on weekdays people are at home, in events and samples; there the first ride begins."""
    folder = simulate_city(TINY, tmp_path / "city", seed=5)
    city = make_city(TINY, 5)
    people = make_people(make_ground(city, TINY, 5), 5, 0, 300)
    home = {user_id(i, 5): city.near[people.anchors[i, HOME]] for i in range(300)}
    index = {name: i for i, name in enumerate(city.site_ids)}
    position = {pair: i for i, pair in enumerate(zip(*(c.tolist() for c in city.site_lonlat), strict=True))}
    for kind in ("events", "samples"):
        table = read(folder, kind)
        hours = local_hours(table, folder)
        night = table.filter(pa.array((hours % 24 >= 2) & (hours % 24 < 6) & (hours < 96))).to_pylist()
        at = [index[r["site"]] if kind == "events" else position[r["lon"], r["lat"]] for r in night]
        assert len(at) > 30
        assert np.mean([site in home[r["user"]] for site, r in zip(at, night, strict=True)]) > 0.9
    rides = sorted(read(folder, "transit").to_pylist(), key=lambda r: -r["start_time"].timestamp())
    firsts = {r["user"]: index[r["start_site"]] for r in rides}
    assert np.mean([site == home[user][0] for user, site in firsts.items()]) > 0.5
    assert set(read(folder, "trips")["user"].to_pylist()) <= set(home)


def test_card_holders_look_like_the_printed_ones(tmp_path):
    """Reports 171 +- 26 and unique stations 19 +- 9 per card in four weeks (Pyrgelis et al. 2017)."""
    table = read(simulate_city(replace(PRESETS["tfl"], users=1000), tmp_path / "tfl", seed=2), "transit")
    assert (pa.compute.less(table["start_time"], table["end_time"])).to_numpy().all()
    reports = set()
    for user, t0, s0, t1, s1 in zip(*(table[c].to_pylist() for c in table.column_names), strict=True):
        reports |= {(user, s0, t0.replace(minute=0, second=0)), (user, s1, t1.replace(minute=0, second=0))}
    per_user = np.unique([r[0] for r in reports], return_counts=True)[1]
    stations = np.unique([u for u, _ in {(u, s) for u, s, _ in reports}], return_counts=True)[1]
    assert abs(per_user.mean() - 171) < 9
    assert abs(per_user.std() - 26) < 6
    assert abs(stations.mean() - 19) < 3


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_runs_at_a_tiny_size(name, tmp_path):
    preset = replace(PRESETS[name], users=40, zones=12, sites=9, weeks=1)
    folder = simulate_city(preset, tmp_path / name, seed=0)
    card = json.loads((folder / "city.json").read_text())
    assert all(read(folder, kind).num_rows == card["sources"][kind]["rows"] > 0 for kind in preset.what)


def test_the_same_city_is_reused_and_another_one_refused(tmp_path):
    preset = replace(PRESETS["town"], users=50)
    out = simulate_city(preset, tmp_path / "city", seed=1)
    before = (out / "city.json").stat().st_mtime_ns
    simulate_city(preset, out, seed=1)
    assert (out / "city.json").stat().st_mtime_ns == before
    for other, seed in ((replace(preset, users=51), 1), (preset, 2), (replace(preset, weeks=2), 1)):
        with pytest.raises(OutputError, match="simulate-out"):
            simulate_city(other, out, seed=seed)


def test_what_is_in_the_way_is_refused_and_left_alone(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("full", "file"):
        with pytest.raises(OutputError):
            simulate_city(TINY, tmp_path / name, seed=1)
    assert (tmp_path / "full" / "letter.txt").read_text() == "mine"
    with pytest.raises(PlanError):
        simulate_city(TINY, tmp_path / "city", seed=1, parts=0)


def test_an_interrupted_run_leaves_nothing(tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_city(TINY, tmp_path / "city", seed=1, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_users_rows_are_spread_over_the_parts(town):
    parts = sorted((town / "events").glob("part-*.parquet"))
    assert len(parts) >= 4
    sizes = [pq.ParquetFile(part).metadata.num_rows for part in parts]
    assert min(sizes) > 0.1 * max(sizes)
    users = [np.unique(pq.read_table(part)["user"].to_numpy(), return_counts=True) for part in parts]
    busy = np.concatenate([u for u, _ in users])
    names, in_parts = np.unique(busy, return_counts=True)
    counts = np.zeros(len(names), int)
    for u, n in users:
        counts[np.searchsorted(names, u)] += n
    assert (in_parts[counts >= 20] >= 2).mean() > 0.99


def test_samples_come_at_the_wanted_rate(tmp_path):
    preset = replace(PRESETS["abi"], users=1500)
    table = read(simulate_city(preset, tmp_path / "abi", seed=2), "samples")
    per_hour = np.unique(table["user"].to_numpy(), return_counts=True)[1] / 336
    assert len(per_hour) == 1500
    assert abs(per_hour.mean() - 0.9) < 5 * per_hour.std() / np.sqrt(1500)
    assert len(set(zip(table["lon"].to_pylist(), table["lat"].to_pylist(), strict=True))) <= 400
