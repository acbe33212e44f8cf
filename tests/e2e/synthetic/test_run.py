"""`shoal synthesize` from points to trips that nobody made; what is published is read again by itself."""

import json
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import shoal
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
    assert "epsilon = 1000.0000 spent" in out
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


def test_a_dry_run_says_the_grid_and_the_price(walks, command):
    walks.write([])
    code, out, _ = command(*walks.arguments("--dry-run"))
    assert code == 0
    assert "8 x 6, each 100 x 100 m" in out
    assert "for the number of trips" in out
    code, out, _ = command(*walks.arguments("--dry-run", "--json"))
    told = json.loads(out)
    assert sum(spend["epsilon"] for spend in told["spends"]) == pytest.approx(1000)
    assert told["public"]["synthetic"] is True
    assert told["public"]["step_s"] == 60


def test_the_unit_is_said_first(walks, command):
    walks.write([(1, walks.along)] * 300)
    walks.flags["--trips-cap"] = None
    release, out, _ = walks.released(command, "--unit", "trip")
    assert walks.manifest_of(release)["unit"].startswith("One trip of one user: ")
    assert "not protected as a person" in out
    assert abs(read_synthetic(release).about.trips - 300) <= 1
    walks.flags["--out"] = walks.folder / "second"
    for more in (("--trips-cap", 5), ("--trips-per-user", 5)):
        code, _, err = command(*walks.arguments("--unit", "trip", *more))
        assert (code, err.split(":")[0]) == (2, "trip-bound")


def test_one_user_with_very_many_trips_counts_as_one(walks, command):
    """A user's trips all in the north against 30 users in the south: one of 31, not 2,000 of 2,030."""
    north = [(50 + 100 * i, 550) for i in range(6)]
    walks.write([(0, north)] * 2000 + [(user, walks.along) for user in range(1, 31)])
    release, _, _ = walks.released(command, "--count", 2000, "--trips-per-user", 100)
    paths = encoded(read_synthetic(release))
    assert np.mean(paths.starts >= 40) < 0.15
    told = walks.manifest_of(release)
    assert told["public"]["trips_per_unit"] == 100
    assert told["input"]["trips_with_noise"] == pytest.approx(31, abs=1)


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


def test_the_python_side_does_the_same(walks):
    walks.write(walks.trips)
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
    made = shoal.run(prepared, shoal.open_ledger())
    assert read_synthetic(made.release).about.trips == 400
    assert walks.manifest_of(made.release)["input"]["trips_declared"] == 400
    assert not shoal.run(prepared, shoal.open_ledger()).rows  # stored before
