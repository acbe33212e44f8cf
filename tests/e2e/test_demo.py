"""`shoal demo`: twice, and its report in a browser."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.browser import CHROMIUM

from shoal.cli.simulate import demo, simulate
from shoal.errors import OutputError, PlanError
from shoal.kinds.kind import KINDS
from shoal.kinds.plan import read_plan
from shoal.privacy.ledger import open_ledger
from shoal.release.verify import check_release

OUT = Path(__file__).parents[1] / "out"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "demo"
    return folder, CliRunner().invoke(demo, ["--out", str(folder), "--users", "3000"])


def spent(folder):
    """What is spent of the part that pays for releases with Gaussian noise; the other is never touched."""
    pots = open_ledger(folder / "ledger.sqlite").state().population("demo-town").pots
    assert pots["pure"].spent_nano == 0
    return pots["gaussian"].spent_nano


def test_it_leaves_a_release_and_a_report(made):
    folder, result = made
    assert result.exit_code == 0, result.output
    manifest = json.loads((folder / "release" / "manifest.json").read_text())
    assert manifest["guarantee"]["epsilon"] == 1.0
    assert manifest["guarantee"]["delta"] == 1e-6
    assert manifest["guarantee"]["unit"] == "user"
    assert check_release(folder / "release").problems == ()
    assert (folder / "owner" / "report.html").stat().st_size > 10**6
    for place in ("release", "owner/report.html"):
        assert str(folder / place) in result.output


def test_a_second_time_nothing_is_spent(made):
    folder, _ = made
    before = spent(folder), (folder / "release" / "manifest.json").read_bytes()
    again = CliRunner().invoke(demo, ["--out", str(folder), "--users", "3000"])
    assert again.exit_code == 0, again.output
    assert "nothing was computed or spent again" in again.output
    assert (spent(folder), (folder / "release" / "manifest.json").read_bytes()) == before


def test_a_deleted_release_is_made_again_and_paid_again(made, tmp_path):
    folder = tmp_path / "demo"
    first = CliRunner().invoke(demo, ["--out", str(folder), "--users", "500", "--json"])
    assert json.loads(first.output)["reused"] is False
    paid = spent(folder)
    shutil.rmtree(folder / "release")
    again = CliRunner().invoke(demo, ["--out", str(folder), "--users", "500", "--json"])
    assert json.loads(again.output)["reused"] is False
    assert spent(folder) == 2 * paid > 0


# Distinct colours in the middle half of the map's canvas.
COLOURS = """() => {
  const canvas = document.getElementById('map');
  const w = canvas.width, h = canvas.height;
  const pixels = canvas.getContext('2d').getImageData(w / 4, h / 4, w / 2, h / 2).data;
  const seen = new Set();
  for (let i = 0; i < pixels.length; i += 4) seen.add(pixels[i] + ',' + pixels[i + 1] + ',' + pixels[i + 2]);
  return seen.size;
}"""


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_map_of_the_demo_has_colours(browser, made):
    folder, _ = made
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto((folder / "owner" / "report.html").as_uri())
    page.wait_for_selector("#city .main-svg")
    page.wait_for_timeout(300)
    OUT.mkdir(exist_ok=True)
    page.screenshot(path=OUT / "demo-report.png")
    colours = page.evaluate(COLOURS)
    page.close()
    assert colours > 20


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


def test_a_full_folder_and_an_unknown_kind_are_refused(tmp_path):
    (tmp_path / "note").write_text("mine")
    result = run("town", "--users", 40, "--out", tmp_path)
    assert isinstance(result.exception, OutputError)
    assert [p.name for p in Path(tmp_path).iterdir()] == ["note"]
    result = run("town", "--what", "events,rumours", "--out", tmp_path / "x")
    assert isinstance(result.exception, PlanError)
    assert "rumours" in str(result.exception)


@pytest.mark.parametrize("arguments", [("nowhere",), ("town", "--users", "0"), ("town", "--weeks", "-1")])
def test_wrong_arguments_end_with_usage(arguments):
    assert run(*arguments).exit_code == 2
