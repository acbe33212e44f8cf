"""Week after week for the same people: shares of a budget through the ledger, and one joint release."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.loops import tiers

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city
from shoal.kinds.density.plan import METHODS
from shoal.kinds.density.year import to_toml
from shoal.kinds.plan import read_plan
from shoal.kinds.simulated import write_city_plan
from shoal.privacy.accounting import epsilon_for
from shoal.privacy.ledger import open_ledger

MONDAYS = ["2026-03-02", "2026-03-09", "2026-03-16", "2026-03-23", "2026-03-30"]


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    """Four weeks of a small town; the last one is an hour short, since the clocks go forward."""
    folder = tmp_path_factory.mktemp("month") / "town"
    simulate_city(replace(preset_named("town"), users=150, weeks=4, zones=12, sites=16), folder, seed=4)
    write_city_plan(folder, population="town")
    return folder


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    return open_ledger()


def week(month, out, number, rho, *flags):
    window = ["--start", MONDAYS[number], "--end", MONDAYS[number + 1]]
    folders = ["--out", out / f"week-{number}", "--owner", out / "owner"]
    return ["density", "run", "--plan", month / "density.toml", "--rho", rho, *window, *folders, *flags]


def test_three_weeks_use_the_budget_exactly_and_the_fourth_is_refused(month, tmp_path, ledger, command):
    share = 5_982_018
    ledger.create("town", currency="rho", limit_nano=3 * share, delta=1e-6)
    code, out, err = command("density", "year", "--population", "town", "--releases", 3, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["each"]["rho_nano"] == share
    assert told["ledger"] == {
        "population": "town",
        "pot": "one",
        "currency": "rho",
        "limit_nano": 3 * share,
        "left_nano": 3 * share,
        "releases_left": 3,
        "fits": True,
    }
    for number in range(3):
        code, out, err = command(*week(month, tmp_path, number, told["each"]["rho"], "--json"))
        assert (code, err) == (0, "")
        assert json.loads(out)["budget_left_nano"] == (2 - number) * share
    code, _, err = command(*week(month, tmp_path, 3, told["each"]["rho"]))
    assert code == 4
    assert err.startswith("budget-exceeded")
    assert not (tmp_path / "week-3").exists()
    code, out, _ = command(*week(month, tmp_path, 1, told["each"]["rho"], "--json"))  # asked again: free
    assert code == 0
    assert json.loads(out)["reused"]
    manifest = json.loads((tmp_path / "week-2" / "manifest.json").read_text())
    assert manifest["guarantee"]["rho"] == share / 1e9
    assert manifest["guarantee"]["epsilon"] == epsilon_for(share, 1e-6)
    assert command("verify", tmp_path / "week-2")[0] == 0


def test_a_year_that_was_written_runs_as_it_is(month, tmp_path, ledger, command):
    ledger.create("town", currency="rho", limit_nano=300_000_001, delta=1e-6)
    flags = ["--plan", month / "density.toml", "--releases", 4, "--start", MONDAYS[0]]
    code, _, err = command("density", "year", *flags, "--write", tmp_path / "plans")
    assert (code, err) == (0, "")
    plans = sorted((tmp_path / "plans").glob("*.toml"))
    assert [plan.name for plan in plans] == [f"week-0{i}.toml" for i in range(1, 5)]
    settings = [read_plan(plan) for plan in plans]
    assert [each["window"]["start"] for each in settings] == MONDAYS[:4]
    assert {each["rho"] for each in settings} == {0.075}
    assert "epsilon" not in settings[0]
    place = ["--out", tmp_path / "first", "--owner", tmp_path / "owner"]
    code, _, err = command("density", "run", "--plan", plans[0], *place)
    assert (code, err) == (0, "")
    assert open_ledger().state().population("town").spent_nano == 75_000_000
    assert command("density", "year", *flags, "--write", tmp_path / "plans")[0] == 2  # not overwritten


@pytest.mark.parametrize("method", tiers(METHODS, ("best", "laplace")))
def test_one_joint_release_over_four_weeks(month, tmp_path, ledger, command, method):
    ledger.create("town", currency="rho", limit_nano=10**10, delta=1e-6)
    flags = ["--start", MONDAYS[0], "--end", "2026-03-30", "--users", 150, "--method", method]
    plan = tmp_path / "plan.toml"
    base = {**read_plan(month / "density.toml"), "delta": None}
    plan.write_text(to_toml(base))
    place = ["--out", tmp_path / "joint", "--owner", tmp_path / "owner"]
    code, _, err = command("density", "run", "--plan", plan, *flags, *place)
    assert (code, err) == (0, "")
    table = pq.read_table(tmp_path / "joint" / "density.parquet")
    people, low, high = (table[name].to_numpy() for name in ("people", "people_low", "people_high"))
    assert len(people) == 12 * 671
    assert np.isfinite(people).all()
    assert (people >= 0).all()
    assert ((low <= people) & (people <= high)).all()
    assert command("verify", tmp_path / "joint")[0] == 0
