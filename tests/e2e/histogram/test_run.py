"""`shoal histogram run`: bounds, units, prices and what the owner sees; brute force is the oracle.
The edges of the map and of the plan.
Its published file: asked by boxes, polygons and zones, from Python and SQL, and drawn.
"""

import csv
import json
import re
from dataclasses import replace
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.worlds import zones_json

from shoal.kinds.histogram.plan import METHODS as HISTOGRAM
from shoal.privacy.ledger import open_ledger
from shoal.release.histogram_files import read_histogram
from shoal.release.verify import check_release


def test_run_then_query_counts_distinct_trips(paths, command):
    paths.write(paths.trips)
    release, out, _ = paths.released(command)
    assert not check_release(release).problems
    assert {file.name for file in release.iterdir()} == {"histogram.parquet", "manifest.json", "README.md"}
    for box, trips in (("0,0,800,800", 4), ("0,0,400,100", 1), ("0,0,100,800", 2), ("400,400,800,800", 1)):
        answer = paths.ask(command, release, "--box", box)["box"]
        assert answer["trips"] == pytest.approx(trips, abs=0.05), box
        assert answer["snapped"] == [float(side) for side in box.split(",")]
    assert round(read_histogram(release).trips) == 4
    assert "shoal histogram query" in out
    assert "epsilon 40000 spent" in out


def test_one_user_counts_with_a_bounded_number_of_trips(paths, command):
    paths.write([(1, [(50, 50)])] * 30 + [(2, [(750, 750)])])
    release, out, _ = paths.released(command)
    assert [
        round(paths.ask(command, release, "--box", b)["box"]["trips"])
        for b in ("0,0,100,100", "700,700,800,800")
    ] == [
        10,
        1,
    ]
    assert "at most 10 trips per user" in out
    paths.flags["--out"] = paths.folder / "second"
    code, _, err = command(*paths.arguments("--trips-per-user", 3, "--trips-cap", 20))
    assert code == 0, err
    answer = paths.ask(command, paths.folder / "second", "--box", "0,0,800,800")["box"]
    assert answer["trips"] == pytest.approx(21, abs=0.05)  # 20 of user 1 under the cap, 1 of user 2
    assert "at most 20" in (paths.folder / "second" / "README.md").read_text()


def test_the_unit_trip_is_said_first_and_keeps_every_trip(paths, command):
    paths.write([(1, [(50, 50)])] * 30)
    release, out, _ = paths.released(command, "--unit", "trip")
    assert round(paths.ask(command, release, "--box", "0,0,100,100")["box"]["trips"]) == 30
    first = json.loads((release / "manifest.json").read_text())["unit"]
    assert first.startswith("One trip of one user: ")
    assert "not protected as a person" in first
    assert "not protected as a person" in out
    paths.flags["--out"] = paths.folder / "second"
    for more in (("--trips-per-user", 5), ("--trips-cap", 5)):
        code, _, err = command(*paths.arguments("--unit", "trip", *more))
        assert (code, err.split(":")[0]) == (2, "trip-bound")


def test_the_owner_sees_errors_and_a_comparison_that_is_remembered(paths, command):
    paths.write(paths.trips * 20)
    stand_in = HISTOGRAM["stand-in"]
    two = {"stand-in": stand_in, "other": replace(stand_in, name="other")}
    with patch("shoal.kinds.histogram.compare.METHODS", two):
        paths.released(command, "--unit", "trip", "--compare")
    figures = json.loads((paths.folder / "owner" / "utility.json").read_text())
    assert (figures["trips"], figures["kept"]) == (80, 80)
    assert figures["unseen"] < 1  # nearly exact, and no path here loops
    assert figures["euler"] == figures["euler_blocks"] == 0
    assert figures["violated_before"] == 0.25
    assert [row["method"] for row in figures["compared"]] == [
        "stand-in",
        "other",
        "published-dqam",
        "published-prish",
    ]
    assert [row["sound"] for row in figures["compared"]] == [True, True, False, False]
    page = (paths.folder / "owner" / "report.html").read_text()
    assert "Owner's eyes only" in page
    assert "No guarantee as published" in page
    state = open_ledger().state().population("rich")
    assert state.tuned
    paths.flags["--out"] = paths.folder / "later"
    assert command(*paths.arguments("--unit", "trip", "--run-id", "2"))[0] == 0
    assert (
        json.loads((paths.folder / "later" / "manifest.json").read_text())["tuned_on_private_data"]
        == "recorded"
    )
    assert len(list((paths.folder / "owner").glob("report*.html"))) == 2


def test_points_outside_the_box_cut_a_trip_and_leave_no_count(paths, command):
    """In, out, in again: two trips; the release says the rule and nowhere how often it was used."""
    paths.write([(1, [(50, 50), (50, -350), (750, 50)]), (2, [(-5, -5), (-9, -9)])])
    release, _, _ = paths.released(command)
    assert round(read_histogram(release).trips) == 2
    assert round(paths.ask(command, release, "--box", "300,0,500,800")["box"]["trips"]) == 0
    seen = json.loads((paths.folder / "owner" / "utility.json").read_text())
    assert seen["points_outside_share"] == pytest.approx(3 / 5)  # for the owner alone
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["public"]["points_outside_the_box"].startswith("dropped")
    assert manifest["input"] == {
        "shape": "trip-point",
        "columns": ["time", "trip", "user", "x", "y"],
        "trips_with_noise": 2.0,
    }


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"--box": "170,-20,-170,0"}, "box-antimeridian"),
        ({"--box": "0,800,800,0"}, "box-range"),
        ({"--box": "0,0,0,800"}, "box-range"),
        ({"--box": None}, "box-missing"),
        ({"--cells": "many"}, "grid-size"),
        ({"--cells": 100000}, "grid-size"),
        ({"--method": "prich"}, "histogram-method"),
        ({"--trips-per-user": 0}, "plan-range"),
        ({"--trips-cap": 3}, "plan-range"),
        ({"--given": 0}, "plan-range"),
        ({"--jump-m": -5}, "plan-range"),
        ({"--unit": "cab"}, "plan-unit"),
    ],
)
def test_bad_plans_say_the_rule_and_spend_nothing(paths, command, change, code):
    paths.write(paths.trips)
    if code == "box-antimeridian":
        paths.lonlat()
    paths.flags |= change
    status, _, err = command(*paths.arguments())
    assert status == 2
    assert err.split(":")[0] == code, err
    assert "Traceback" not in err
    assert paths.spent() == 0
    assert not (paths.folder / "release").exists()


def test_trips_can_be_found_by_a_rule(paths, command):
    """Points without trip ids, an hour apart: one trip or two, as the rule says."""
    time = [
        paths.start,
        paths.start + paths.minute,
        paths.start + 61 * paths.minute,
        paths.start + 62 * paths.minute,
    ]
    columns = {"user": [1] * 4, "time": pa.array(time, pa.timestamp("us", "UTC"))}
    columns |= {"x": [50.0, 150.0, 650.0, 750.0], "y": [50.0] * 4}
    pq.write_table(pa.table(columns), paths.source)
    code, _, err = command(*paths.arguments())
    assert (code, err.split(":")[0]) == (2, "trip-rule")
    release, _, _ = paths.released(command, "--gap-minutes", 30)
    assert round(read_histogram(release).trips) == 2
    assert json.loads((release / "manifest.json").read_text())["public"]["trip_rule"]["gap_minutes"] == 30
    columns["occupied"] = [True, False, True, True]
    pq.write_table(pa.table(columns), paths.source)
    paths.flags["--out"] = paths.folder / "by-flag"
    code, _, err = command(*paths.arguments("--trip-flag", "--min-points", 2))
    assert code == 0, err
    found = read_histogram(paths.folder / "by-flag")
    assert found.answer([(0, 0, 300, 800), (600, 0, 800, 800)]).round().tolist() == [0, 1]


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


def test_polygons_zones_and_files_of_boxes(paths, command):
    paths.write(paths.trips)
    square = [[[0, 0], [400, 0], [400, 100], [0, 100], [0, 0]]]
    corner = [[[0, 0], [100, 0], [100, 700], [800, 700], [800, 800], [0, 800], [0, 0]]]
    shapes = {"bottom": square, "corner": corner}
    zones = paths.folder / "zones.geojson"
    zones.write_text(zones_json(shapes.items(), crs=None))
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
    stated = json.loads((release / "manifest.json").read_text())["public"]["given"]
    assert (stated["rectangles"], stated["from"], stated["seed"]) == (2, "a file of the owner", None)


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


def test_jumps_follow_the_straight_line_unless_cut(paths, command):
    paths.write([(1, [(50, 50), (750, 50)])])
    release, _, _ = paths.released(command)
    assert round(paths.ask(command, release, "--box", "300,0,500,100")["box"]["trips"]) == 1
    paths.flags["--out"] = paths.folder / "cut"
    code, _, err = command(*paths.arguments("--jump-m", 500))
    assert code == 0, err
    cut = read_histogram(paths.folder / "cut")
    assert cut.answer([(300, 0, 500, 100), (0, 0, 800, 800)]).round().tolist() == [0, 2]


def test_a_dry_run_says_the_grid_and_the_price(paths, command):
    paths.write(paths.trips)
    code, out, _ = command(*paths.arguments("--dry-run"))
    assert code == 0
    assert "8 x 8, each 100 x 100 m" in out
    assert "One user" in out
    code, out, _ = command(*paths.arguments("--dry-run", "--json"))
    stated = json.loads(out)
    assert stated["spends"][0]["epsilon"] == pytest.approx(40000)
    assert stated["public"]["grid"] == {"box": [0, 0, 800, 800], "columns": 8, "rows": 8, "planar": True}
