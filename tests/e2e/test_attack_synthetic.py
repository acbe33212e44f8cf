"""`shoal attack synthetic` on the trips of a simulated town."""

import json
import stat
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city
from shoal.kinds.simulated import write_city_plan

SMALL = ["--group", "60", "--worlds", "8", "--targets", "30"]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked") / "town"
    preset = replace(preset_named("town"), users=240, what=("trips",), trip_share=1.0)
    simulate_city(preset, folder, seed=4)
    write_city_plan(folder, "synthetic", population="town")
    return folder / "synthetic.toml"


def test_copies_are_found_and_protected_trips_are_not(plan, tmp_path, command):
    flags = [*SMALL, "--defence", "raw,tgm-np,markov", "--epsilon", "0.5", "--out", tmp_path / "own"]
    code, out, err = command("attack", "synthetic", "--plan", plan, *flags, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    rows = {(row["release"], row["targets"], row["statistic"]): row for row in told["membership"]}
    kinds = {row["targets"] for row in told["membership"]}
    assert kinds in ({"usual", "unusual"}, {"usual", "unusual", "alone"})
    assert len(rows) == 3 * len(kinds) * 4
    assert rows["raw", "unusual", "nearest"]["auc"] > 0.95
    assert rows["raw", "unusual", "nearest"]["auc_low"] > 0.9
    assert rows["raw", "unusual", "nearest"]["auc_at_most"] is None
    assert rows["tgm-np", "unusual", "nearest"]["set_at"] is None
    for kind in ("usual", "unusual"):
        row = rows["markov", kind, "nearest"]
        assert row["auc_low"] < 0.55
        assert row["auc_at_most"] == pytest.approx(0.731, abs=1e-3)  # of 2 epsilon
    near = {row["release"]: row for row in told["nearest"]}
    assert near["raw"]["copies_seen"] == 1.0
    assert near["raw"]["nearer_seen"] > near["raw"]["by_chance_high"]
    assert near["tgm-np"]["copies_seen"] > 0.5  # long prefixes have one trip
    assert near["markov"]["copies_seen"] < 0.05
    assert (told["group"], told["worlds"], told["unit"]) == (60, 8, "user")
    curves = pq.read_table(tmp_path / "own" / "synthetic.parquet")
    assert set(curves.column("release").to_pylist()) == {"raw", "tgm-np", "markov"}
    assert stat.S_IMODE((tmp_path / "own" / "synthetic.json").stat().st_mode) == 0o600


def test_words_are_printed_the_look_is_listed_and_one_seed_is_one_result(plan, tmp_path, command):
    command("ledger", "create", "town", "--epsilon", "4", "--delta", "1e-6")
    flags = [*SMALL, "--worlds", "4", "--defence", "raw", "--unit", "trip", "--out", tmp_path / "own"]
    code, out, err = command("attack", "synthetic", "--plan", plan, *flags)
    assert (code, err) == (0, "")
    assert "tells a trip that is in the data from one that is not" in out
    first = (tmp_path / "own" / "synthetic.json").read_text()
    assert "copy one they never saw" in first
    assert json.loads(first)["unit"] == "trip"
    command("attack", "synthetic", "--plan", plan, *flags)
    assert (tmp_path / "own" / "synthetic-2.json").read_text() == first
    _, shown, _ = command("ledger", "show", "town")
    assert "synthetic attack" in shown


def test_bad_plans_are_refused(plan, tmp_path, command):
    for flags, said in (
        (["--group", "5000"], "membership-group"),
        (["--defence", "bridge"], "attack-defence"),
        (["--defence", "commute"], "attack-defence"),
        (["--worlds", "1"], "membership-size"),
        (["--epsilon", "-1"], "epsilon"),
    ):
        code, _, err = command("attack", "synthetic", "--plan", plan, *flags, "--out", tmp_path / "own")
        assert (code, said in err) == (2, True), err
    code, _, err = command(
        "attack", "synthetic", "--plan", plan, "--box", "0,0,0.1,0.1", "--out", tmp_path / "own"
    )
    assert (code, "nobody" in err) == (3, True), err
