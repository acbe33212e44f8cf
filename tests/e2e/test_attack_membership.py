"""`shoal attack membership` on a simulated town."""

import json
import stat
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city
from shoal.kinds.simulated import write_city_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked") / "town"
    simulate_city(replace(preset_named("town"), users=600, zones=12, sites=16), folder, seed=4)
    write_city_plan(folder, population="town", owner="owner")
    return folder / "density.toml"


def test_members_are_told_from_raw_counts_and_not_from_protected(plan, tmp_path, command):
    flags = ["--group", "100", "--worlds", "12", "--targets", "30", "--defence", "gaussian,threshold"]
    code, out, err = command(
        "attack", "membership", "--plan", plan, *flags, "--out", tmp_path / "own", "--json"
    )
    assert (code, err) == (0, "")
    told = json.loads(out)
    rows = {(row["counts"], row["visits"]): row for row in told["rows"]}
    assert set(rows) == {(c, v) for c in ("raw", "gaussian", "threshold") for v in ("few", "many")}
    assert rows["raw", "many"]["auc"] > 0.95
    assert rows["raw", "many"]["auc"] > rows["raw", "few"]["auc"] > 0.55
    assert rows["gaussian", "many"]["auc"] < 0.65
    assert rows["gaussian", "many"]["auc_at_most"] == pytest.approx(0.8808, abs=1e-3)
    assert rows["threshold", "many"]["auc_at_most"] is None  # it promises nothing
    assert rows["raw", "few"]["tpr_at_fpr_0.001"] is None  # 180 scores cannot say
    assert len(told["summary"]) == 6
    curves = pq.read_table(tmp_path / "own" / "membership.parquet")
    assert set(curves.column("counts").to_pylist()) == {"raw", "gaussian", "threshold"}
    assert stat.S_IMODE((tmp_path / "own" / "membership.json").stat().st_mode) == 0o600
    command("attack", "membership", "--plan", plan, *flags, "--out", tmp_path / "own")
    first, second = (tmp_path / "own" / f"membership{each}.json" for each in ("", "-2"))
    assert first.read_text() == second.read_text()  # one seed, one result; earlier findings stay


def test_habits_tell_less_than_visits(plan, tmp_path, command):
    flags = ["--group", "100", "--worlds", "10", "--targets", "30", "--defence", "", "--knows", "past"]
    code, out, err = command("attack", "membership", "--plan", plan, *flags, "--out", tmp_path / "own")
    assert (code, err) == (0, "")
    assert "a person's habits from the past" in out
    told = json.loads((tmp_path / "own" / "membership.json").read_text())
    assert [row["counts"] for row in told["rows"]] == ["raw", "raw"]
    assert 0.5 < told["rows"][1]["auc"] < 0.99
    assert told["slots"] < 168


def test_bad_plans_are_refused(plan, tmp_path, command):
    for flags, said in (
        (["--group", "500"], "membership-group"),
        (["--defence", "magic"], "plan-method"),
        (["--worlds", "1"], "membership-size"),
        (["--group", "1"], "Pass a larger --group"),
        (["--defence", "gausian"], "Did you mean gaussian?"),
        (["--epsilon", "0,5"], "Pass --epsilon 0.5."),
    ):
        code, _, err = command("attack", "membership", "--plan", plan, *flags, "--out", tmp_path / "own")
        assert (code, said in err) == (2, True), err
    code, _, err = command("attack", "membership", "--out", tmp_path / "own")
    assert (code, "plan-missing" in err) == (2, True)
