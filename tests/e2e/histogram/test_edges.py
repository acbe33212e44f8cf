"""`shoal histogram run` at its edges: the map's, the plan's, and a map with nobody on it."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.release.histogram_files import read_histogram


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


def test_jumps_follow_the_straight_line_unless_cut(paths, command):
    paths.write([(1, [(50, 50), (750, 50)])])
    release, _, _ = paths.released(command)
    assert round(paths.ask(command, release, "--box", "300,0,500,100")["box"]["trips"]) == 1
    paths.flags["--out"] = paths.folder / "cut"
    code, _, err = command(*paths.arguments("--jump-m", 500))
    assert code == 0, err
    cut = read_histogram(paths.folder / "cut")
    assert cut.answer([(300, 0, 500, 100), (0, 0, 800, 800)]).round().tolist() == [0, 2]


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


def test_nobody_on_the_map_stops_a_run_and_is_a_release_where_it_may_be_empty(paths, command):
    """Noise alone is released honestly."""
    paths.write([(1, [(5000, 50), (5100, 50)])])
    code, _, err = command(*paths.arguments())
    assert (code, err.partition(":")[0]) == (2, "nobody-counted")
    release, _, _ = paths.released(command, "--allow-empty")
    assert round(read_histogram(release).trips) == 0
    assert paths.ask(command, release, "--box", "0,0,800,800")["box"]["trips"] == pytest.approx(0, abs=0.05)


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
