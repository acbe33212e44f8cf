"""`shoal synthesize` from points to trips that nobody made; what is published is read again by itself."""

import json
import math
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.flows import synthetic as flow
from shoal.flows.synthetic import encoded
from shoal.privacy.ledger import open_ledger
from shoal.release.trip_files import read_synthetic
from shoal.release.verify import check_release

START = 1_772_406_000_000_000  # 2026-03-02 00:00 in Paris
MINUTE = 60_000_000
EIGHT = 8 * 60 * MINUTE


class Walks:
    """Trips on a planar map of 8 x 6 cells of 100 m, written as points, and how to run a release of them."""

    def __init__(self, folder):
        self.folder = folder
        self.source = folder / "trips.parquet"
        self.flags = {
            "--box": "0,0,800,600",
            "--cell-m": 100,
            "--start": "2026-03-02",
            "--end": "2026-03-03",
            "--time-zone": "Europe/Paris",
            "--population": "rich",
            "--epsilon": 1000,
            "--trips-cap": 1,
            "--out": folder / "release",
            "--owner": folder / "owner",
        }

    def write(self, trips, names=("user", "trip", "time", "x", "y"), seconds=60):
        """trips: (user, [(x, y), ...]); `seconds` between points, from eight in the morning."""
        rows = [
            (user, number, START + EIGHT + i * seconds * 1_000_000, float(x), float(y))
            for number, (user, points) in enumerate(trips)
            for i, (x, y) in enumerate(points)
        ]
        user, trip, time, x, y = (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
        kinds = (pa.int64(), pa.int64(), pa.timestamp("us", "UTC"), pa.float64(), pa.float64())
        columns = [
            pa.array(values, kind) for values, kind in zip((user, trip, time, x, y), kinds, strict=True)
        ]
        pq.write_table(pa.table(columns, names=list(names)), self.source)

    def arguments(self, *more):
        named = [
            str(part) for flag, value in self.flags.items() if value is not None for part in (flag, value)
        ]
        return ["synthesize", "run", str(self.source), *named, *map(str, more)]


# Along the second row from the west, one cell a minute, with two minutes in the fourth cell.
ALONG = [(50 + 100 * i, 150) for i in (0, 1, 2, 3, 3, 3, 4, 5)]
TRIPS = [(user, ALONG) for user in range(400)]


@pytest.fixture
def walks(tmp_path):
    open_ledger().create("rich", currency="epsilon", limit_nano=10**18)
    open_ledger().create("poor", currency="epsilon", limit_nano=10**8)
    open_ledger().create("small", currency="rho", limit_nano=10**12, delta=1e-6)
    return Walks(tmp_path)


def released(walks, command, *flags):
    code, out, err = command(*walks.arguments(*flags))
    assert code == 0, err
    return walks.folder / "release", out, err


def spent(population="rich"):
    return open_ledger().state().population(population).spent_nano


def manifest_of(release):
    return json.loads((release / "manifest.json").read_text())


def test_trips_come_out_as_they_went_in(walks, command):
    """All real trips are one: with hardly any noise the synthetic ones go the same way at the same hour."""
    walks.write(TRIPS)
    release, out, _ = released(walks, command)
    assert {file.name for file in release.iterdir()} == {
        *("trips.parquet", "trips.csv", "manifest.json", "README.md")
    }
    assert not check_release(release).problems
    paths = encoded(read_synthetic(release))
    assert abs(paths.count - 400) <= 1
    ways = [tuple(paths.cells[a:b]) for a, b in zip(paths.first[:-1], paths.first[1:], strict=True)]
    assert np.mean([way == (8, 9, 10, 11, 12, 13) for way in ways]) > 0.9
    assert np.mean(paths.total_stay == 2) > 0.9
    assert np.mean((paths.start_us >= START + EIGHT) & (paths.start_us < START + EIGHT + 60 * MINUTE)) > 0.9
    assert "epsilon = 1000.0000 spent" in out
    figures = json.loads((walks.folder / "owner" / "utility.json").read_text())
    assert (figures["real_trips"], figures["synthetic_trips"]) == (400, paths.count)
    assert figures["distance_jsd"] < 0.05
    assert stat.S_IMODE(os.stat(walks.folder / "owner" / "utility.json").st_mode) == 0o600
    assert "eyes only" in (walks.folder / "owner" / "report.html").read_text()


def test_parquet_and_csv_say_the_same_in_the_input_s_columns(walks, command):
    walks.write(TRIPS, names=("cab", "ride", "when", "x_m", "y_m"))
    roles = ("user=cab", "trip=ride", "time=when", "x=x_m", "y=y_m")
    release, _, _ = released(walks, command, *(part for role in roles for part in ("--column", role)))
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
    walks.write(TRIPS)
    release, _, _ = released(walks, command)
    for file in ("trips.parquet", "trips.csv"):
        source = shoal.open_source(release / file)
        assert str(source.shape) == "trip-point"
        assert not shoal.check_rows(source).bad
        batches = list(shoal.read_trips(source))
        points = sum(batch.num_rows for batch in batches)
        assert points == pq.read_metadata(release / "trips.parquet").num_rows


def test_other_formats_hold_every_trip(walks, command):
    walks.write(
        [(user, [(5.01 + x / 1e5, 47.3 + y / 1e5) for x, y in ALONG]) for user in range(50)],
        names=("user", "trip", "time", "lon", "lat"),
    )
    walks.flags |= {"--box": "5.0,47.29,5.03,47.31", "--format": "gpx,geojson", "--count": 30}
    release, _, _ = released(walks, command)
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


def test_asked_again_it_is_the_stored_release(walks, command):
    walks.write(TRIPS)
    release, _, _ = released(walks, command)
    before, paid = (release / "trips.parquet").read_bytes(), spent()
    walks.flags["--out"] = walks.folder / "again"
    code, out, _ = command(*walks.arguments("--format", "csv"))
    assert (code, spent()) == (0, paid)
    assert "released before" in out
    assert not (walks.folder / "again").exists()
    assert (release / "trips.parquet").read_bytes() == before
    code, out, err = command(*walks.arguments("--count", 7))
    assert code == 0, err
    assert spent() == 2 * paid  # another question
    assert read_synthetic(walks.folder / "again").about.trips == 7


def test_a_dry_run_reads_no_row_and_spends_nothing(walks, command, monkeypatch):
    walks.write([(1, [(math.nan, 50)])])  # a bad row would stop a run
    code, out, _ = command(*walks.arguments("--dry-run"))
    assert code == 0
    assert "8 x 6, each 100 x 100 m" in out
    assert "for the number of trips" in out
    code, out, _ = command(*walks.arguments("--dry-run", "--json"))
    told = json.loads(out)
    assert sum(spend["epsilon"] for spend in told["spends"]) == pytest.approx(1000)
    assert told["public"]["synthetic"] is True
    assert told["public"]["step_s"] == 60
    assert spent() == 0
    assert not (walks.folder / "release").exists()


def test_the_unit_is_said_first(walks, command):
    walks.write([(1, ALONG)] * 300)
    walks.flags["--trips-cap"] = None
    release, out, _ = released(walks, command, "--unit", "trip")
    assert manifest_of(release)["unit"].startswith("One trip: ")
    assert "not protected as a person" in out
    assert abs(read_synthetic(release).about.trips - 300) <= 1
    walks.flags["--out"] = walks.folder / "second"
    for more in (("--trips-cap", 5), ("--trips-per-user", 5)):
        code, _, err = command(*walks.arguments("--unit", "trip", *more))
        assert (code, err.split(":")[0]) == (2, "trip-bound")


def test_one_user_with_very_many_trips_counts_as_one(walks, command):
    """A user's trips all in the north against 30 users in the south: one of 31, not 2,000 of 2,030."""
    north = [(50 + 100 * i, 550) for i in range(6)]
    walks.write([(0, north)] * 2000 + [(user, ALONG) for user in range(1, 31)])
    release, _, _ = released(walks, command, "--count", 2000, "--trips-per-user", 100)
    paths = encoded(read_synthetic(release))
    assert np.mean(paths.starts >= 40) < 0.15
    told = manifest_of(release)
    assert told["public"]["trips_per_unit"] == 100
    assert told["input"]["trips_with_noise"] == pytest.approx(31, abs=1)


def test_a_delta_is_recommended_to_users_and_makes_the_noise_gaussian(walks, command):
    walks.write(TRIPS)
    _, out, _ = released(walks, command)
    assert "with --delta 1e-6" in out
    walks.flags |= {"--out": walks.folder / "second", "--population": "small"}
    code, out, err = command(*walks.arguments("--delta", 1e-6))
    assert code == 0, err
    assert "with --delta 1e-6" not in out
    assert manifest_of(walks.folder / "second")["guarantee"]["delta"] == 1e-6


@pytest.mark.parametrize("method", ["markov", "ngram", "prefix", "dpt"])
def test_every_method_makes_a_release(walks, command, method):
    walks.write(TRIPS)
    release, out, _ = released(walks, command, "--method", method)
    assert not check_release(release).problems
    assert manifest_of(release)["public"]["method"] == method
    assert all(spend["pays_for"] for spend in manifest_of(release)["spends"])
    assert "there to compare with" in out
    assert encoded(read_synthetic(release)).count == read_synthetic(release).about.trips


def test_trips_of_one_point_are_trips(walks, command):
    walks.write([(user, [(350, 250)]) for user in range(300)])
    release, _, _ = released(walks, command)
    paths = encoded(read_synthetic(release))
    assert np.mean((paths.moves == 0) & (paths.starts == 2 * 8 + 3)) > 0.9


def test_mixed_sampling_and_a_step_below_it_are_told_to_the_owner_alone(walks, command):
    walks.write([(user, [(50, 50), (650, 50)]) for user in range(100)], seconds=600)
    release, _, _ = released(walks, command)
    figures = json.loads((walks.folder / "owner" / "utility.json").read_text())
    assert figures["steps_longer_than_step_s_share"] == 1
    assert "longer than the step of time" in (walks.folder / "owner" / "report.html").read_text()
    assert "longer than" not in (release / "README.md").read_text()


@pytest.mark.parametrize(
    "trips", [[], [(1, [(5000, 50), (5100, 50)])]], ids=["an empty file", "nobody in the box"]
)
def test_nobody_is_a_release_of_noise(walks, command, trips):
    walks.write(trips)
    walks.flags["--epsilon"] = 1
    release, _, err = released(walks, command, "--count", 50)
    assert "Warning: No point lies in the window and the box" in err
    assert not check_release(release).problems
    assert encoded(read_synthetic(release)).count == 50


def test_a_tiny_epsilon_is_a_valid_release(walks, command):
    walks.write(TRIPS)
    walks.flags["--epsilon"] = 0.001
    release, _, _ = released(walks, command, "--count", 100)
    assert not check_release(release).problems
    assert encoded(read_synthetic(release)).count == 100
    walks.flags |= {"--epsilon": 1e-9, "--out": walks.folder / "second"}
    code, _, err = command(*walks.arguments())
    assert code == 2
    assert "--epsilon" in err


def test_a_number_that_is_noise_alone_is_not_written_without_end(walks, command, monkeypatch):
    walks.write(TRIPS)
    monkeypatch.setattr(flow, "MOST_UNASKED", 60)
    release, _, _ = released(walks, command)
    assert read_synthetic(release).about.trips == 60
    assert manifest_of(release)["input"]["synthetic_trips"] == 60
    assert manifest_of(release)["input"]["trips_with_noise"] == pytest.approx(400, abs=1)


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
        ({"--epsilon": 0}, "epsilon-range"),
        ({"--epsilon": None}, "plan-incomplete"),
        ({"--start": None}, "plan-incomplete"),
        ({"--population": "nobody"}, "unknown-population"),
        ({"--population": "poor"}, "budget-exceeded"),
        ({"--unit": "cab"}, "plan-unit"),
    ],
)
def test_bad_plans_say_the_rule_and_spend_nothing(walks, command, change, code):
    walks.write(TRIPS[:3])
    walks.flags |= change
    status, _, err = command(*walks.arguments())
    assert status in (2, 4)
    assert err.split(":")[0] == code, err
    assert "Traceback" not in err
    assert spent() == spent("poor") == 0
    assert not (walks.folder / "release").exists()


def test_sites_are_refused_with_a_remedy(walks, command):
    time = pa.array([START], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"user": [1], "time": time, "site": ["S1"]}), walks.source)
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (2, "trips-need-points")
    assert "--method commute" in err


def test_a_method_of_sites_refuses_points_and_settings_it_would_not_read(walks, command):
    walks.write(TRIPS[:3])
    walks.flags |= {"--method": "commute"}
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (2, "synthetic-options")
    assert "box" in err
    walks.flags |= {"--box": None, "--cell-m": None, "--trips-cap": None}
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (2, "commute-needs-sites")
    code, _, err = command(*walks.arguments("--unit", "trip"))
    assert (code, err.split(":")[0]) == (2, "plan-unit")
    assert spent() == 0


def test_bad_rows_stop_before_the_spend(walks, command):
    walks.write([*TRIPS[:9], (9, [(50, 50), (math.nan, 50)])])
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (3, "bad-row")
    assert spent() == 0
    code, _, err = command(*walks.arguments("--on-bad-row", "drop"))
    assert code == 0, err


def test_a_run_that_fails_while_writing_leaves_nothing_half_written(walks, command, monkeypatch):
    walks.write(TRIPS)
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
    assert spent() > 0  # noise was drawn: what was reserved stays spent


def test_a_seeded_run_stays_with_the_owner_and_repeats(walks, command):
    walks.write(TRIPS)
    code, out, err = command(*walks.arguments("--seed", 7))
    assert code == 0, err
    assert "not for publication" in out
    assert spent() == 0
    assert not (walks.folder / "release").exists()
    seeded = walks.folder / "owner" / "seeded-7"
    assert manifest_of(seeded)["reproducible"] is True
    assert manifest_of(seeded)["tuned_on_private_data"] is True
    assert command("publish", seeded, walks.folder / "public")[0] != 0
    walks.flags["--owner"] = walks.folder / "other"
    assert command(*walks.arguments("--seed", 7))[0] == 0
    other = walks.folder / "other" / "seeded-7"
    assert (other / "trips.csv").read_bytes() == (seeded / "trips.csv").read_bytes()


def test_it_is_published_verified_inspected_and_drawn(walks, command):
    walks.write(TRIPS)
    release, _, _ = released(walks, command, "--licence", "CC0-1.0")
    public = walks.folder / "public"
    assert command("publish", release, public)[0] == 0
    for look in ("verify", "inspect"):
        code, out, _ = command(look, public)
        assert code == 0
        assert "One user" in out
    page = walks.folder / "page.html"
    code, out, _ = command("synthesize", "report", public, "--out", page)
    assert code == 0
    assert "all synthetic" in out
    assert "eyes only" not in page.read_text()
    code, _, err = command("synthesize", "report", public, "--out", public / "page.html")
    assert (code, err.split(":")[0]) == (5, "report-in-release")
    code, _, err = command("synthesize", "report", walks.folder, "--out", page)
    assert (code, err.split(":")[0]) == (3, "not-synthetic")


def test_the_python_side_does_the_same(walks):
    walks.write(TRIPS)
    (walks.folder / "plan.toml").write_text(
        """population = "rich"
epsilon = 1000
trips = 400
out = "release"
owner = "owner"

[source]
paths = ["trips.parquet"]

[space]
box = [0, 0, 800, 600]
cell_m = 100

[window]
start = "2026-03-02"
end = "2026-03-03"
time_zone = "Europe/Paris"
"""
    )
    settings = shoal.read_plan(walks.folder / "plan.toml")
    prepared = shoal.prepare_synthetic(shoal.SyntheticPlan.from_settings(settings))
    made = shoal.run_synthetic(prepared, shoal.open_ledger())
    assert read_synthetic(made.release).about.trips == 400
    assert manifest_of(made.release)["input"]["trips_declared"] == 400
    assert not shoal.run_synthetic(prepared, shoal.open_ledger()).rows  # stored before
