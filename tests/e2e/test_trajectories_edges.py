"""Trajectory runs at the edges: bad plans, bad rows, thin data, and boxes that the verifier refutes."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal.kinds.trajectories.build as flow
from shoal.kinds.trajectories.blocks import Made
from shoal.stages.trajectories import Boxes


def ran(walks, command, *more):
    """A run that works and holds, as a dict."""
    code, out, err = command(*walks.arguments("--json", *more))
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["verified"]
    assert command(*walks.verify_arguments("--windows", 0))[0] == 0
    return told


def refused(walks, command, code, words, *more):
    """A run that ends in an error, with nothing written."""
    got, _, err = command(*walks.arguments(*more))
    assert err.startswith(words) or f"{words}:" in err, err
    assert got == code
    assert "Traceback" not in err
    assert "internal-error" not in err
    assert "release-failed" not in err
    assert not (walks.folder / "release").exists()
    assert not list(walks.folder.glob(".release*"))
    assert not list(walks.folder.glob("owner/record_key*"))
    return err


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--tau-minutes", 0), 2, "plan-range"),
        (("--tau-minutes", 30, "--step-minutes", 20), 2, "trajectories-tau"),
        (("--step-minutes", 7, "--tau-minutes", 7), 2, "lattice-steps"),
        (("--k", 1), 2, "plan-range"),
        (("--k", 61), 2, "trajectories-few"),
        (("--block-users", 4999), 2, "plan-range"),
        (("--cell-m", "nan"), 2, "lattice-unit"),
        (("--cell-m", 0.0001), 2, "lattice-far"),
        (("--origin", "2.3,91"), 2, "lattice-origin"),
        (("--origin", "west,south"), 2, "lattice-origin"),
        (("--start", "2026-03-04"), 2, "clock-window"),
        (("--end", "tomorrow"), 2, "clock-time"),
        (("--start", "2026-03-02T00:07"), 2, "clock-alignment"),
        (("--owner", "release/owner", "--out", "release"), 2, "plan-folders"),
        (("--licence", "a\nb"), 2, "plan-licence"),
    ],
)
def test_plans_that_make_no_sense_are_refused(walks, command, flags, code, words):
    err = refused(walks, command, code, words, *flags)
    assert len(err.strip().splitlines()) >= 2 or "licence" in words  # what is wrong, and what to do


def test_unsorted_and_repeated_rows_are_fine_and_counted(walks, command):
    first = ran(walks, command)
    assert first["rows"] == len(walks.user)
    boxes = released(walks, "release")
    order = np.random.default_rng(5).permutation(np.repeat(np.arange(len(walks.user)), 2))
    walks.user, walks.time = walks.user[order], walks.time[order]
    walks.lon, walks.lat = walks.lon[order], walks.lat[order]
    walks.write()
    walks.flags["--out"] = walks.folder / "twice"
    again = ("--run-id", "twice", "--compose-with", walks.folder / "release")
    told = json.loads(command(*walks.arguments(*again, "--json"))[1])
    assert told["rows"] == 2 * first["rows"]
    assert told["repeated"] == first["repeated"] + first["rows"]
    assert released(walks, "twice") == boxes


def released(walks, out):
    key = pq.read_table(walks.folder / "owner" / "record_key.parquet").to_pylist()
    whose = {row["record"]: row["user"] for row in key}
    rows = pq.read_table(walks.folder / out / "records.parquet").to_pylist()
    return sorted((whose[row.pop("record")], *row.values()) for row in rows)


def only(walks, rows):
    walks.user, walks.time = walks.user[rows], walks.time[rows]
    walks.lon, walks.lat = walks.lon[rows], walks.lat[rows]
    walks.write()


def test_everybody_has_one_sample(walks, command):
    only(walks, np.unique(walks.user, return_index=True)[1])
    told = ran(walks, command)
    assert told["utility"]["samples"] == told["users"] == len(walks.user)


def test_nobody_is_alike_and_all_is_suppressed(walks, command):
    """Each of a few people alone in an epoch: a release without a box, and figures that say so."""
    walks.user, walks.time = np.arange(5), walks.start + np.arange(5) * 60 * walks.minute
    walks.lon, walks.lat = np.full(5, 2.31), np.full(5, 48.81)
    walks.write()
    told = ran(walks, command)
    assert (told["utility"]["boxes"], told["utility"]["suppressed_share"]) == (0, 1.0)
    assert told["utility"]["granularity"]["per_box"]["space_m"]["median"] is None
    json.loads((walks.folder / "owner" / "utility.json").read_text(), parse_constant=pytest.fail)
    out = command(
        *walks.arguments(
            "--run-id", "b", "--out", walks.folder / "b", "--compose-with", walks.folder / "release"
        )
    )[1]
    assert "Nothing could be kept" in out
    assert "nan" not in out.lower()


def test_times_without_a_zone(walks, command, tmp_path):
    """A plan must say the clock of such times; the flag --time-zone says it."""
    naive = pa.array(walks.time + 60 * walks.minute, pa.timestamp("us"))
    walks.write(time=naive)
    plan = tmp_path / "plan.toml"
    plan.write_text('[window]\nstart = "2026-03-02"\nend = "2026-03-02T06:00"\ntime_zone = "Europe/Paris"\n')
    kept = {flag: walks.flags.pop(flag) for flag in ("--start", "--end", "--time-zone")}
    refused(walks, command, 3, "naive-time", "--plan", plan)
    walks.flags |= kept
    told = json.loads(command(*walks.arguments("--json"))[1])
    assert (told["verified"], told["rows"]) == (True, len(walks.user))
    assert command(*walks.verify_arguments("--windows", 0))[0] == 3
    assert command(*walks.verify_arguments("--windows", 0, "--time-zone", "Europe/Paris"))[0] == 0


def test_one_point_far_away_costs_the_density_figures_and_nothing_else(walks, command):
    walks.lon[0], walks.lat[0] = -150.0, -60.0
    walks.write()
    told = ran(walks, command)
    assert told["utility"]["density"]["relative_error"] is None
    assert told["utility"]["granularity"]["per_box"]["space_m"]["median"] > 0
    assert "too wide an area" in (walks.folder / "owner" / "report.html").read_text()


def test_rows_without_a_place_stop_the_run_or_are_dropped(walks, command):
    lon = walks.lon.copy()
    lon[[0, 5]] = np.nan
    walks.write(lon=lon)
    assert "--on-bad-row" in refused(walks, command, 3, "bad-row")
    code, out, _ = command(*walks.arguments("--on-bad-row", "drop", "--json"))
    assert (code, json.loads(out)["rows"]) == (0, len(walks.user) - 2)
    assert command(*walks.verify_arguments("--windows", 0, "--on-bad-row", "drop"))[0] == 0
    assert command(*walks.verify_arguments("--windows", 0))[0] == 3


@pytest.mark.parametrize("origin", ["48.7,2.2", "-4.4,5.0", "2.6,49.1"])
def test_an_origin_that_cannot_be_meant(walks, command, origin):
    assert "not swapped" in refused(walks, command, 2, "lattice-origin", "--origin", origin).replace(
        "\n", " "
    )


@pytest.mark.parametrize(
    "flags",
    [
        ("--epoch-minutes", 24 * 60, "--tau-minutes", 24 * 60),
        ("--tau-minutes", 24 * 60, "--epoch-minutes", 30),
        ("--full-length",),
        ("--forget-days", 1),
        ("--step-minutes", 5, "--tau-minutes", 30),
        ("--k", 5, "--tau-minutes", 120, "--epoch-minutes", 60),
        ("--k", 60),
        ("--block-users", 5000),
        ("--cell-m", 2500.5, "--origin", "2.1,48.6"),
    ],
)
def test_plans_at_the_edge_hold(walks, command, flags):
    told = ran(walks, command, *flags)
    assert told["users"] == walks.users
    public = json.loads((walks.folder / "release" / "manifest.json").read_text())["public"]
    if flags[0] == "--full-length":
        assert (public["tau_minutes"], public["full_length"]) == (360, True)
    if flags[0] == "--step-minutes":
        assert (public["lattice"]["steps"], public["lattice"]["minutes"]) == (72, 5)


def test_csv_and_text_ids(walks, command):
    walks.source = walks.folder / "samples.csv"
    rows = zip(walks.user, walks.time, walks.lon, walks.lat, strict=True)
    lines = [f"u{user},{time // 1_000_000},{lon},{lat}" for user, time, lon, lat in rows]
    walks.source.write_text("user,time,lon,lat\n" + "\n".join(lines) + "\n")
    code, out, err = command(*walks.arguments("--time-unit", "s", "--json"))
    assert (code, err) == (0, "")
    assert json.loads(out)["verified"]
    key = pq.read_table(walks.folder / "owner" / "record_key.parquet")
    assert set(key["user"].to_pylist()) == {f"u{user}" for user in walks.user}
    assert command(*walks.verify_arguments("--windows", 0, "--time-unit", "s"))[0] == 0


@pytest.fixture
def damaged(monkeypatch):
    """The anonymiser forgets a part of every third record."""
    anonymise = flow.anonymise

    def spoiled(*given):
        made = anonymise(*given).boxes
        kept = (made.record % 3 > 0) | (made.t0 < 60)
        names = ("record", "t0", "t1", "x0", "x1", "y0", "y1")
        boxes = Boxes.of(*(getattr(made, name)[kept] for name in names), records=made.records)
        return Made(boxes=boxes, pairs_again=0)

    monkeypatch.setattr(flow, "anonymise", spoiled)


def test_what_the_verifier_refutes_is_not_written(walks, command, damaged):
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (6, "trajectories-unsafe")
    assert "Nothing was released." in err
    assert not (walks.folder / "release").exists()
    assert not list(walks.folder.glob(".release*"))
    owner = walks.folder / "owner"
    assert not list(owner.glob("record_key*"))
    told = json.loads((owner / "verification.json").read_text())
    assert told["violations"] > 0
    assert {each["user"] for each in told["examples"]} <= set(walks.user.tolist())
    assert told["examples"]
    assert (owner / "verification.json").stat().st_mode & 0o777 == 0o600


def test_unsafe_records_are_marked_and_cannot_be_published(walks, command, damaged):
    code, out, _ = command(*walks.arguments("--keep-unsafe"))
    assert code == 0
    assert "UNSAFE, NOT FOR PUBLICATION" in out
    release = walks.folder / "release"
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["guarantee"]["verified"] is False
    assert manifest["promise"].startswith("Nothing is promised")
    assert "Nothing is promised" in (release / "README.md").read_text()
    assert "Nothing is promised" in command("verify", release)[1]
    code, _, err = command("publish", release, walks.folder / "public")
    assert (code, err.split(":")[0]) == (6, "unsafe-release")
    assert not (walks.folder / "public").exists()
    assert command(*walks.verify_arguments("--windows", 0))[0] == 1
    again = json.loads(command(*walks.arguments("--keep-unsafe", "--json"))[1])
    assert (again["reused"], again["verified"], again["publishable"]) == (True, False, False)
