"""A published histogram: asked by boxes, polygons and zones, from Python and SQL, and drawn."""

import csv
import json
import re

import duckdb
import pytest

import shoal
from shoal.release.histogram_files import read_histogram
from shoal.release.verify import check_release


def test_what_the_readme_says_of_the_file_is_so(paths, command, monkeypatch):
    """The snippet for DuckDB answers as the package does; the grid in the README finds a point's cell."""
    paths.write(paths.trips)
    release, _, _ = paths.released(command)
    readme = (release / "README.md").read_text()
    query = re.search(r"```sql\n(.*?)```", readme, re.S)[1]
    for before, after in (("10", "0"), ("19", "4"), ("30", "1"), ("44", "7")):
        query = query.replace(f" {before} ", f" {after} ")
    monkeypatch.chdir(release)
    found = duckdb.execute(query).fetchall()[0][0]
    assert found == pytest.approx(float(read_histogram(release).answer([(0, 100, 500, 800)])[0]))
    assert round(found) == 3
    assert "column floor((x - 0.0) / (800.0 - 0.0) * 8)" in readme
    assert "a cell is 100 wide and 100 high" in readme


def test_the_python_side_says_the_same(paths, command):
    paths.write(paths.trips)
    settings = shoal.read_plan(_toml(paths))
    prepared = shoal.prepare_histogram(shoal.HistogramPlan.from_settings(settings))
    made = shoal.run(prepared, shoal.open_ledger())
    histogram = shoal.read_histogram(made.release)
    assert histogram.answer([(0, 0, 400, 100), (0, 0, 800, 800)]).round().tolist() == [1, 4]
    alone = shoal.read_histogram(made.release / "histogram.parquet")
    assert alone.answer((0, 0, 800, 800)).round().tolist() == [4]
    assert not alone.manifest
    code, out, _ = command("histogram", "run", "--plan", _toml(paths))
    assert code == 0
    assert "released before" in out
    with _toml(paths).open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write("trips_per_user = 5\ntrips_cap = 9\n" + text)
    other = ["--unit", "trip", "--out", paths.folder / "other"]
    code, out, _ = command("histogram", "run", "--plan", paths.folder / "plan.toml", *other, "--dry-run")
    assert (code, "One trip" in out) == (4, True)  # the population is counted per user


def _toml(paths):
    plan = paths.folder / "plan.toml"
    plan.write_text(
        """population = "rich"
epsilon = 40000
method = "stand-in"
given = 50
out = "release"
owner = "owner"

[source]
paths = ["trips.parquet"]

[space]
box = [0, 0, 800, 800]
cells = 8

[window]
start = "2026-03-02"
end = "2026-03-03"
time_zone = "Europe/Paris"
"""
    )
    return plan


def test_polygons_zones_and_files_of_boxes(paths, command):
    paths.write(paths.trips)
    square = [[[0, 0], [400, 0], [400, 100], [0, 100], [0, 0]]]
    corner = [[[0, 0], [100, 0], [100, 700], [800, 700], [800, 800], [0, 800], [0, 0]]]
    shapes = {"bottom": square, "corner": corner}
    features = [
        {
            "type": "Feature",
            "properties": {"zone": name},
            "geometry": {"type": "Polygon", "coordinates": ring},
        }
        for name, ring in shapes.items()
    ]
    zones = paths.folder / "zones.geojson"
    zones.write_text(json.dumps({"type": "FeatureCollection", "crs": None, "features": features}))
    release, _, _ = paths.released(command, "--zones", zones)
    assert (release / "zones.geojson").is_file()
    by_name = paths.ask(command, release, "--zone", "corner")
    assert (
        round(by_name["corner"]["trips"]) == 3
    )  # along the bottom (its first cell), up the side, the far corner
    assert by_name["corner"]["cells"] == 15
    everything = paths.ask(command, release, "--zones", zones)
    assert list(everything) == ["bottom", "corner"]
    polygon = paths.folder / "polygon.geojson"
    polygon.write_text(json.dumps({"type": "Polygon", "coordinates": square}))
    assert round(paths.ask(command, release, "--polygon", polygon)["polygon"]["trips"]) == 1
    boxes = paths.folder / "boxes.csv"
    boxes.write_text("name,west,south,east,north\nwide,0,0,825,440\ntiny,1,1,2,2\noff,900,0,1000,9\n")
    code, out, _ = command("histogram", "query", release, "--csv", boxes)
    assert code == 0
    wide, tiny, off = csv.DictReader(out.splitlines())
    corners = ("west", "south", "east", "north")
    assert [float(wide[side]) for side in corners] == [0, 0, 825, 440]
    assert [float(wide[f"counted_{side}"]) for side in corners] == [0, 0, 800, 400]
    assert float(wide["missed"]) == pytest.approx(1 - 320 / (825 * 0.44), abs=1e-6)
    assert (float(wide["added"]), wide["cells"], round(float(wide["trips"]))) == (0, "32", 3)
    assert wide["notes"].startswith("3.0% of the area lies beyond the map")
    assert (tiny["trips"], tiny["cells"], tiny["counted_west"]) == ("", "0", "")
    assert "no cell has its centre" in tiny["notes"]
    assert "map, which is 0 to 800, 0 to 800" in off["notes"]
    two = paths.ask(command, release, "--box", "0,0,400,100", "--box", "0,0,800,800")
    assert [(name, round(found["trips"])) for name, found in two.items()] == [("box 1", 1), ("box 2", 4)]
    for unread in (("--zones-crs", "EPSG:3857"), ("--repair-zones",)):
        code, _, err = command("histogram", "query", release, "--polygon", polygon, *unread)
        assert (code, err.split(":")[0]) == (2, "query-options")
        assert unread[0] in err
    code, _, err = command("histogram", "query", release, "--zone", "nowhere")
    assert (code, err.split(":")[0]) == (2, "zone-name")
    code, _, err = command("histogram", "query", release)
    assert (code, err.split(":")[0]) == (2, "query-area")
    code, _, err = command("histogram", "query", paths.folder, "--box", "0,0,1,1")
    assert (code, err.split(":")[0]) == (3, "not-a-histogram")


def test_the_given_rectangles_may_come_from_a_file(paths, command):
    paths.write(paths.trips)
    given = paths.folder / "given.csv"
    given.write_text("west,south,east,north\n0,0,400,400\n100,100,800,800\n")
    release, _, _ = paths.released(command, "--given-file", given)
    told = json.loads((release / "manifest.json").read_text())["public"]["given"]
    assert (told["rectangles"], told["from"], told["seed"]) == (2, "a file of the owner", None)


def test_the_public_page_is_drawn_from_the_file_alone(paths, command):
    paths.write(paths.trips)
    release, _, _ = paths.released(command)
    page = paths.folder / "page.html"
    code, _, _ = command("histogram", "report", release, "--out", page)
    assert code == 0
    assert "One user" in page.read_text()
    assert "eyes only" not in page.read_text()
    code, _, err = command("histogram", "report", release, "--out", release / "page.html")
    assert (code, err.split(":")[0]) == (5, "report-in-release")
    assert not check_release(release).problems
