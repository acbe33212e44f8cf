"""`shoal trajectories run | verify` on a tiny town: folders, verdicts, planted faults, reuse, publication."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.privacy.ledger import open_ledger

NAMES = ("record", "t0", "t1", "x0", "x1", "y0", "y1")


def keys_of(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


def boxes_by_user(walks, out="release", key="record_key.parquet"):
    """(user, t0, t1, x0, x1, y0, y1) of every released box, by the key."""
    held = pq.read_table(walks.folder / "owner" / key)
    whose = dict(zip(held["record"].to_pylist(), held["user"].to_pylist(), strict=True))
    rows = pq.read_table(walks.folder / out / "records.parquet").to_pylist()
    return sorted((whose[row["record"]], *(row[name] for name in NAMES[1:])) for row in rows)


def test_from_flags_to_a_verified_release(walks, command):
    code, out, err = command(*walks.arguments())
    assert (code, err) == (0, "")
    assert "VERIFIED: k = 2, tau = 30 minutes" in out
    assert "No composition, no protection beyond the stated adversary." in out
    release, owner = walks.folder / "release", walks.folder / "owner"
    assert sorted(path.name for path in release.iterdir()) == [
        "README.md",
        "manifest.json",
        "records.csv",
        "records.parquet",
    ]
    kept = {"record_key.parquet", "report.html", "utility.json", "verification.json"}
    assert kept <= {path.name for path in owner.iterdir()}
    assert "not differentially private" in command("inspect", release)[1]
    code, out, err = command(*walks.verify_arguments("--json"))
    told = json.loads(out)
    assert (code, err, told["passed"], told["violations"]) == (0, "", True, 0)
    assert told["users"] == walks.users
    assert told["boxes"] > 20
    assert told["pairs_checked"] == walks.users * (6 * 60 + 30)  # windows of tau and one step more


def test_the_release_says_what_it_is_and_has_no_epsilon(walks, command):
    assert command(*walks.arguments("--licence", "CC BY 4.0"))[0] == 0
    manifest = json.loads((walks.folder / "release" / "manifest.json").read_text())
    assert not {"epsilon", "delta", "rho", "epsilon_delta"} & set(keys_of(manifest))
    assert manifest["guarantee"]["verified"] is True
    assert manifest["spends"] == []
    assert manifest["licence"] == "CC BY 4.0"
    public = manifest["public"]
    assert (public["k"], public["tau_minutes"], public["epoch_minutes"]) == (2, 30, 30)
    assert "records" not in public  # it was counted, so it does not stand among what the owner declared
    found = manifest["read_from_data"]
    assert found["records"] == walks.users
    single = found["share_with_single_record"]
    assert 0 <= single["two_stretches_of_tau"] <= 1
    assert 0 <= single["four_points"] <= 1
    assert public["lattice"]["start"] == "2026-03-01T23:00:00+00:00"
    assert (public["lattice"]["steps"], public["lattice"]["minutes"]) == (360, 1)
    readme = (walks.folder / "release" / "README.md").read_text()
    assert "not differentially private" in readme
    assert "No composition, no protection beyond the stated adversary." in readme
    assert "recipient of another release about the same people" in readme
    assert f"by two separate periods of 30 minutes, {single['two_stretches_of_tau']:.1%}" in readme
    assert f"by four points at random times, {single['four_points']:.1%}" in readme
    assert "Attribute disclosure is not prevented" in readme
    assert "Membership is not hidden" in readme
    figures = json.loads((walks.folder / "owner" / "utility.json").read_text())
    assert round(figures["unicity"][3]["released"], 3) == single["four_points"]
    assert "noise" not in readme.replace("There is no noise and no synthetic point", "")
    assert open_ledger().state().population("town").spent_nano == 0


def test_every_sample_of_a_record_lies_where_the_manifest_says(walks, command):
    """The lattice by arithmetic of our own: retained samples lie in boxes of their own record."""
    assert command(*walks.arguments("--json"))[0] == 0
    boxes = np.array(boxes_by_user(walks))
    lattice = json.loads((walks.folder / "release" / "manifest.json").read_text())["public"]["lattice"]
    by_x, by_y = lattice["metres_per_unit"]
    assert by_y == pytest.approx(110_574, rel=0.01)
    assert by_x == pytest.approx(111_320 * np.cos(np.radians(48.8)), rel=0.01)
    t = (walks.time - walks.start) // walks.minute
    x, y = np.floor((walks.lon - 2.3) * by_x / 100), np.floor((walks.lat - 48.8) * by_y / 100)
    held = np.zeros(len(boxes), int)
    for user, *at in zip(walks.user, t, x, y, strict=True):
        low, high = boxes[:, [1, 3, 5]], boxes[:, [2, 4, 6]]
        held += (boxes[:, 0] == user) & (low <= at).all(axis=1) & (at <= high).all(axis=1)
    assert held.min() >= 1


def test_the_same_run_again_is_reused_and_finds_its_own_key(walks, command):
    first = json.loads(command(*walks.arguments("--json"))[1])
    composed = ("--compose-with", walks.folder / "release")
    key = (walks.folder / "owner" / "record_key.parquet").read_bytes()
    other = json.loads(
        command(*walks.arguments("--k", 3, "--out", walks.folder / "three", *composed, "--json"))[1]
    )
    assert not other["reused"]
    keys = sorted(path.name for path in (walks.folder / "owner").glob("record_key*"))
    assert len(keys) == 2  # both releases can still be verified
    again = json.loads(command(*walks.arguments("--json"))[1])
    assert (again["reused"], again["release"]) == (True, first["release"])
    with open(again["record_key"], "rb") as file:
        assert file.read() == key
    assert os.stat(again["record_key"]).st_mode & 0o777 == 0o600
    assert again["report"] is None  # the page is the other release's by now
    verify = ("trajectories", "verify", walks.source, first["release"], "--windows", 0, "--key")
    assert command(*verify, again["record_key"])[0] == 0
    assert command(*verify, other["record_key"])[0] == 1


def test_another_run_id_draws_other_ids_and_the_same_boxes(walks, command):
    assert command(*walks.arguments())[0] == 0
    boxes = boxes_by_user(walks)
    ids = pq.read_table(walks.folder / "owner" / "record_key.parquet")
    assert (
        command(
            *walks.arguments(
                "--run-id", "b", "--out", walks.folder / "b", "--compose-with", walks.folder / "release"
            )
        )[0]
        == 0
    )
    assert boxes_by_user(walks, "b") == boxes
    again = pq.read_table(walks.folder / "owner" / "record_key.parquet")
    assert again["user"].equals(ids["user"])
    assert not again["record"].equals(ids["record"])
    assert sorted(again["record"].to_pylist()) == list(range(1, walks.users + 1))


def moved_away(rows, walks):
    box = rows[len(rows) // 2]
    for name in ("x0", "x1"):
        box[name] += 1000


def overlapping(rows, walks):
    at = next(i for i in range(1, len(rows)) if rows[i]["record"] == rows[i - 1]["record"])
    rows[at - 1]["t1"] = rows[at]["t1"]


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (moved_away, "boxes_without_own_sample"),
        (overlapping, "overlapping_boxes"),
    ],
)
def test_planted_changes_are_found(walks, command, plant, kind):
    assert command(*walks.arguments())[0] == 0
    path = walks.folder / "release" / "records.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    plant(rows, walks)
    path.chmod(0o600)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    code, out, err = command(*walks.verify_arguments("--json"))
    told = json.loads(out)
    assert (code, err, told["passed"]) == (1, "", False)
    found = {"violations": told["violations"], **told["structure"]}
    assert found[kind] > 0
    assert told["examples"] or told["structure_examples"]
    code, out, err = command(*walks.verify_arguments("--windows", 0))
    assert (code, err) == (1, "")
    assert out.startswith("FAILED")
