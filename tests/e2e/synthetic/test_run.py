"""`shoal synthesize` from points to trips that nobody made; what is published is read again by itself.
`shoal synthesize run` at its edges: odd trips, nobody, tiny budgets, wrong plans, a failure halfway.
"""

import json
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.kinds.synthetic import build as flow
from shoal.kinds.synthetic.build import encoded
from shoal.release.trip_files import read_synthetic
from shoal.release.verify import check_release


def test_trips_come_out_as_they_went_in(walks, command):
    """All real trips are one: with hardly any noise the synthetic ones go the same way at the same hour."""
    walks.write(walks.trips)
    release, out, _ = walks.released(command)
    assert {file.name for file in release.iterdir()} == {
        *("trips.parquet", "trips.csv", "manifest.json", "README.md")
    }
    assert not check_release(release).problems
    paths = encoded(read_synthetic(release))
    assert abs(paths.count - 400) <= 1
    ways = [tuple(paths.cells[a:b]) for a, b in zip(paths.first[:-1], paths.first[1:], strict=True)]
    assert np.mean([way == (8, 9, 10, 11, 12, 13) for way in ways]) > 0.9
    assert np.mean(paths.total_stay == 2) > 0.9
    assert (
        np.mean(
            (paths.start_us >= walks.start + walks.eight)
            & (paths.start_us < walks.start + walks.eight + 60 * walks.minute)
        )
        > 0.9
    )
    assert "epsilon 1000 spent" in out
    figures = json.loads((walks.folder / "owner" / "utility.json").read_text())
    assert (figures["real_trips"], figures["synthetic_trips"]) == (400, paths.count)
    assert figures["distance_jsd"] < 0.05
    assert stat.S_IMODE(os.stat(walks.folder / "owner" / "utility.json").st_mode) == 0o600
    assert "eyes only" in (walks.folder / "owner" / "report.html").read_text()


def test_parquet_and_csv_say_the_same_in_the_input_s_columns(walks, command):
    walks.write(walks.trips, names=("cab", "ride", "when", "x_m", "y_m"))
    roles = ("user=cab", "trip=ride", "time=when", "x=x_m", "y=y_m")
    release, _, _ = walks.released(command, *(part for role in roles for part in ("--column", role)))
    table = pq.read_table(release / "trips.parquet")
    assert table.column_names == ["cab", "ride", "point", "when", "x_m", "y_m", "geometry"]
    assert table["ride"][0].as_py() == "s0000001"
    rows = pyarrow.csv.read_csv(release / "trips.csv")
    assert rows.column_names == table.column_names[:-1]
    for name in ("ride", "point", "x_m", "y_m"):
        assert rows[name].to_pylist() == table[name].to_pylist()
    assert rows["when"].cast(pa.timestamp("us", "UTC")).to_pylist() == table["when"].to_pylist()
    geo = json.loads(pq.read_schema(release / "trips.parquet").metadata[b"geo"])
    assert geo["columns"]["geometry"] == {"encoding": "WKB", "geometry_types": ["Point"], "crs": None}
    wkb = table["geometry"][0].as_py()
    assert np.frombuffer(wkb[5:], "<f8").tolist() == [table["x_m"][0].as_py(), table["y_m"][0].as_py()]


def test_the_files_can_be_a_source_again(walks, command):
    walks.write(walks.trips)
    release, _, _ = walks.released(command)
    for file in ("trips.parquet", "trips.csv"):
        source = shoal.open_source(release / file)
        assert str(source.shape) == "trip-point"
        assert not shoal.check_rows(source).bad
        batches = list(shoal.read_trips(source))
        points = sum(batch.num_rows for batch in batches)
        assert points == pq.read_metadata(release / "trips.parquet").num_rows


def test_other_formats_hold_every_trip(walks, command):
    walks.write(
        [(user, [(5.01 + x / 1e5, 47.3 + y / 1e5) for x, y in walks.along]) for user in range(50)],
        names=("user", "trip", "time", "lon", "lat"),
    )
    walks.flags |= {"--box": "5.0,47.29,5.03,47.31", "--format": "gpx,geojson", "--count": 30}
    release, _, _ = walks.released(command)
    assert not (release / "trips.csv").exists()
    features = json.loads((release / "trips.geojson").read_text())["features"]
    assert len(features) == 30
    assert all(feature["properties"]["synthetic"] is True for feature in features)
    from xml.etree import ElementTree

    tracks = ElementTree.parse(release / "trips.gpx").getroot().findall("{*}trk")
    assert len(tracks) == 30
    table = pq.read_table(release / "trips.parquet")
    first = tracks[0].find("{*}trkseg/{*}trkpt")
    assert [float(first.get(name)) for name in ("lon", "lat")] == [
        table["lon"][0].as_py(),
        table["lat"][0].as_py(),
    ]
    assert not check_release(release).problems


def test_another_number_of_trips_is_another_run_and_another_format_is_not(walks, command):
    walks.write(walks.trips)
    walks.released(command)
    paid = walks.spent()
    walks.flags["--out"] = walks.folder / "again"
    code, out, _ = command(*walks.arguments("--format", "csv"))
    assert (code, walks.spent()) == (0, paid)
    assert "released before" in out
    assert not (walks.folder / "again").exists()
    code, out, err = command(*walks.arguments("--count", 7))
    assert code == 0, err
    assert walks.spent() == 2 * paid  # another question
    assert read_synthetic(walks.folder / "again").about.trips == 7


def test_one_user_with_very_many_trips_counts_as_one(walks, command):
    """A user's trips all in the north against 30 users in the south: one of 31, not 2,000 of 2,030."""
    north = [(50 + 100 * i, 550) for i in range(6)]
    walks.write([(0, north)] * 2000 + [(user, walks.along) for user in range(1, 31)])
    release, _, _ = walks.released(command, "--count", 2000, "--trips-per-user", 100)
    paths = encoded(read_synthetic(release))
    assert np.mean(paths.starts >= 40) < 0.15
    stated = walks.manifest_of(release)
    assert stated["public"]["trips_per_unit"] == 100
    assert stated["input"]["trips_with_noise"] == pytest.approx(31, abs=1)


def test_a_delta_is_recommended_to_users_and_makes_the_noise_gaussian(walks, command):
    walks.write(walks.trips)
    _, out, _ = walks.released(command)
    assert "with --delta 1e-6" in out
    walks.flags |= {"--out": walks.folder / "second", "--population": "small"}
    code, out, err = command(*walks.arguments("--delta", 1e-6))
    assert code == 0, err
    assert "with --delta 1e-6" not in out
    assert walks.manifest_of(walks.folder / "second")["guarantee"]["delta"] == 1e-6


@pytest.mark.parametrize("method", ["markov", "ngram", "prefix", "dpt"])
def test_every_method_makes_a_release(walks, command, method):
    walks.write(walks.trips)
    release, out, _ = walks.released(command, "--method", method)
    assert not check_release(release).problems
    assert walks.manifest_of(release)["public"]["method"] == method
    assert all(spend["pays_for"] for spend in walks.manifest_of(release)["spends"])
    assert "bridges is the default" in out
    assert encoded(read_synthetic(release)).count == read_synthetic(release).about.trips


def test_the_public_page_is_drawn_from_the_files_alone(walks, command):
    walks.write(walks.trips)
    public, _, _ = walks.released(command)
    page = walks.folder / "page.html"
    code, out, _ = command("synthesize", "report", public, "--out", page)
    assert code == 0
    assert "all synthetic" in out
    assert "eyes only" not in page.read_text()
    code, _, err = command("synthesize", "report", public, "--out", public / "page.html")
    assert (code, err.split(":")[0]) == (5, "report-in-release")
    code, _, err = command("synthesize", "report", walks.folder, "--out", page)
    assert (code, err.split(":")[0]) == (3, "not-synthetic")


def test_trips_of_one_point_are_trips(walks, command):
    walks.write([(user, [(350, 250)]) for user in range(300)])
    release, _, _ = walks.released(command)
    paths = encoded(read_synthetic(release))
    assert np.mean((paths.moves == 0) & (paths.starts == 2 * 8 + 3)) > 0.9


def test_mixed_sampling_and_a_step_below_it_are_told_to_the_owner_alone(walks, command):
    walks.write([(user, [(50, 50), (650, 50)]) for user in range(100)], seconds=600)
    release, _, _ = walks.released(command)
    figures = json.loads((walks.folder / "owner" / "utility.json").read_text())
    assert figures["steps_longer_than_step_s_share"] == 1
    assert "longer than the time step" in (walks.folder / "owner" / "report.html").read_text()
    assert "longer than" not in (release / "README.md").read_text()


def test_nobody_in_the_box_is_a_release_of_noise(walks, command):
    walks.write([(1, [(5000, 50), (5100, 50)])])
    walks.flags["--epsilon"] = 1
    code, _, err = command(*walks.arguments("--count", 50))
    assert code == 2
    assert "nobody-counted" in err
    release, _, _ = walks.released(command, "--count", 50, "--allow-empty")
    assert not check_release(release).problems
    assert encoded(read_synthetic(release)).count == 50


def test_a_number_that_is_noise_alone_is_not_written_without_end(walks, command, monkeypatch):
    walks.write(walks.trips)
    monkeypatch.setattr(flow, "MOST_UNASKED", 60)
    release, _, _ = walks.released(command)
    assert read_synthetic(release).about.trips == 60
    assert walks.manifest_of(release)["input"]["synthetic_trips"] == 60
    assert walks.manifest_of(release)["input"]["trips_with_noise"] == pytest.approx(400, abs=1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"--box": "0,800,800,0"}, "box-range"),
        ({"--box": None}, "box-missing"),
        ({"--cell-m": 0.1}, "grid-size"),
        ({"--cell-m": 1}, "grid-size"),
        ({"--cells": 8}, "grid-size"),
        ({"--step-s": 0.5}, "step-range"),
        ({"--step-s": 90000}, "step-range"),
        ({"--method": "bridge"}, "synthetic-method"),
        ({"--count": 0}, "plan-range"),
        ({"--trips": 0}, "plan-range"),
        ({"--trips-cap": 0}, "plan-range"),
        ({"--trips-per-user": 0}, "plan-range"),
        ({"--jump-m": -5}, "plan-range"),
        ({"--format": "shp"}, "trip-format"),
        ({"--format": "gpx"}, "trip-format"),  # the source is planar
        ({"--unit": "cab"}, "plan-unit"),
    ],
)
def test_bad_plans_say_the_rule_and_spend_nothing(walks, command, change, code):
    walks.write(walks.trips[:3])
    walks.flags |= change
    status, _, err = command(*walks.arguments())
    assert status == 2
    assert err.split(":")[0] == code, err
    assert "Traceback" not in err
    assert walks.spent() == 0
    assert not (walks.folder / "release").exists()


def test_sites_and_points_are_refused_by_methods_of_the_other(walks, command):
    time = pa.array([walks.start], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"user": [1], "time": time, "site": ["S1"]}), walks.source)
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (2, "trips-need-points")
    assert "--method commute" in err
    walks.write(walks.trips[:3])
    walks.flags |= {"--method": "commute"}
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (2, "synthetic-options")
    assert "box" in err
    walks.flags |= {"--box": None, "--cell-m": None, "--trips-cap": None}
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (2, "commute-needs-sites")
    code, _, err = command(*walks.arguments("--unit", "trip"))
    assert (code, err.split(":")[0]) == (2, "plan-unit")
    assert walks.spent() == 0


def test_a_run_that_fails_while_writing_leaves_nothing_half_written(walks, command, monkeypatch):
    walks.write(walks.trips)
    real = flow.path_points

    def full_disk(paths, seed, low, high):
        if low:
            raise OSError(28, "No space left on device")
        return real(paths, seed, low, high)

    monkeypatch.setattr(flow, "path_points", full_disk)
    monkeypatch.setattr(flow, "CHUNK", 100)
    code, _, err = command(*walks.arguments())
    assert code == 5, err
    assert "No space left" in err
    assert not (walks.folder / "release").exists()
    assert not [each for each in walks.folder.iterdir() if each.name.startswith(".")]
    assert walks.spent() == 0  # found out before the reserve
