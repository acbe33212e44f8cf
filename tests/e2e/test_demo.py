"""`shoal demo`: twice, and its report in a browser."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.browser import CHROMIUM

from shoal.cli.simulate import demo
from shoal.privacy.ledger import open_ledger
from shoal.release.verify import check_release

OUT = Path(__file__).parents[1] / "out"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "demo"
    return folder, CliRunner().invoke(demo, ["--out", str(folder), "--users", "3000"])


def spent(folder):
    return open_ledger(folder / "ledger.sqlite").state().population("demo-town").spent_nano


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
    assert spent(folder) == 2 * paid


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
