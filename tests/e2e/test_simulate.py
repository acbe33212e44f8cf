from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli.simulate import simulate
from shoal.errors import OutputError, PlanError
from shoal.kinds.kind import KINDS
from shoal.kinds.plan import read_plan


def run(*arguments):
    return CliRunner().invoke(simulate, [str(a) for a in arguments])


def test_a_city_is_written_then_reused(tmp_path):
    out = tmp_path / "town"
    first = run("town", "--users", 60, "--seed", 3, "--out", out)
    assert first.exit_code == 0, first.output
    assert "written" in first.output
    assert "60 users" in first.output
    assert (out / "density.toml").is_file()
    again = run("town", "--users", 60, "--seed", 3, "--out", out, "--json")
    card = json.loads(again.output)
    assert card["reused"] is True
    assert card["folder"] == str(out)
    assert card["sources"]["events"]["rows"] > 60


def test_every_kind_can_be_asked_for(tmp_path):
    result = run(
        "tfl", "--users", 40, "--weeks", 1, "--what", "trips,transit", "--out", tmp_path / "x", "--json"
    )
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.output)["sources"]) == {"trips", "transit"}
    assert (tmp_path / "x" / "stations.csv").is_file()


@pytest.mark.parametrize("what", ["points", "events"])
def test_the_plan_of_a_density_reads_what_was_simulated(what, tmp_path):
    result = run("events-city", "--users", 200, "--what", what, "--out", tmp_path / "x", "--json")
    assert result.exit_code == 0, result.output
    plan = KINDS["density"].plan.from_settings(read_plan(tmp_path / "x" / "density.toml"))
    assert plan.source.paths[0].endswith(f"{what}/part-*.parquet")
    assert (plan.space.sites is None) == (what == "points")
    assert (tmp_path / "x" / "events.csv").is_file()


def test_own_zones_and_sites_are_used(tmp_path):
    made = tmp_path / "made"
    run("town", "--users", 40, "--out", made)
    result = run(
        "paris", "--users", 40, "--zones", made / "zones.geojson", "--sites", made / "sites.csv",
        "--out", tmp_path / "own", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    card = json.loads(result.output)
    assert (card["zones"]["count"], card["sites"]["count"]) == (120, 160)
    assert (tmp_path / "own" / "sites.csv").read_text() == (made / "sites.csv").read_text()
    zones = [json.loads((folder / "zones.geojson").read_text()) for folder in (made, tmp_path / "own")]
    assert zones[0] == zones[1]


def test_a_full_folder_is_refused_and_kept(tmp_path):
    (tmp_path / "note").write_text("mine")
    result = run("town", "--users", 40, "--out", tmp_path)
    assert isinstance(result.exception, OutputError)
    assert [p.name for p in Path(tmp_path).iterdir()] == ["note"]


def test_an_unknown_kind_is_named(tmp_path):
    result = run("town", "--what", "events,rumours", "--out", tmp_path / "x")
    assert isinstance(result.exception, PlanError)
    assert "rumours" in str(result.exception)


@pytest.mark.parametrize("arguments", [("nowhere",), ("town", "--users", "0"), ("town", "--weeks", "-1")])
def test_wrong_arguments_end_with_usage(arguments):
    assert run(*arguments).exit_code == 2


def test_help_shows_an_example():
    assert "shoal simulate town --out town" in run("--help").output
