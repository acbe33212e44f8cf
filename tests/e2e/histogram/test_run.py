"""`shoal histogram run`: bounds, units, prices and what the owner sees; brute force is the oracle."""

import json
from dataclasses import replace
from unittest.mock import patch

import pytest

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
    assert "epsilon = 40000.0000 spent" in out


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


def test_a_dry_run_says_the_grid_and_the_price(paths, command):
    paths.write(paths.trips)
    code, out, _ = command(*paths.arguments("--dry-run"))
    assert code == 0
    assert "8 x 8, each 100 x 100 m" in out
    assert "One user" in out
    code, out, _ = command(*paths.arguments("--dry-run", "--json"))
    told = json.loads(out)
    assert told["spends"][0]["epsilon"] == pytest.approx(40000)
    assert told["public"]["grid"] == {"box": [0, 0, 800, 800], "columns": 8, "rows": 8, "planar": True}


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
