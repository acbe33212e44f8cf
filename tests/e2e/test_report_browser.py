"""The owner's report in a real browser: opens offline, has colours, moves, answers clicks, runs no name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from shoal.release.report import DensityReportInputs, write_density_report
from shoal.space.zones import Zones

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
OUT = Path(__file__).parents[1] / "out"
SIDE = 5  # zones per row and column
SLOTS = 24
NASTY = "<img src=x onerror=\"document.title='broken'\"><b>bold</b></script>"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

# Colour of the map at the middle of a zone of the grid, read from the canvas itself.
COLOUR_AT = """([column, row]) => {
  const canvas = document.getElementById('map');
  const ratio = canvas.width / canvas.clientWidth;
  const [x, y] = window.middle(column, row);
  return Array.from(canvas.getContext('2d').getImageData(x * ratio, y * ratio, 1, 1).data);
}"""
# The square map fills the height of its box but for a margin of 12 pixels.
MIDDLE = """(side) => { window.middle = (column, row) => {
  const canvas = document.getElementById('map'), size = canvas.clientHeight - 24;
  return [(canvas.clientWidth - size) / 2 + (column + 0.5) * size / side, 12 + (row + 0.5) * size / side];
}; }"""


def town_inputs() -> DensityReportInputs:
    """25 square zones of 1 km in planar metres, zone i with about 10 i people; zone 0 has a nasty name."""
    shapes = [
        shapely.box(1000 * c, 1000 * (SIDE - 1 - r), 1000 * (c + 1), 1000 * (SIDE - r))
        for r in range(SIDE)
        for c in range(SIDE)
    ]
    count = len(shapes)
    zones = Zones(
        ids=tuple(f"z{i}" for i in range(count)),
        names=(NASTY, *(f"Quarter {i}" for i in range(1, count))),
        geometry=np.array(shapes, dtype=object),
        crs=None,
    )
    rhythm = 1 + np.sin(np.arange(SLOTS) / SLOTS * 2 * np.pi)
    exact = np.round(10 * np.arange(count)[:, None] * rhythm[None, :])
    released = np.maximum(exact + np.random.default_rng(3).normal(0, 5, exact.shape), 0)
    return DensityReportInputs(
        manifest={"guarantee": {"epsilon": 1.0, "delta": 1e-6, "unit": "user"}, "public": {"ell": 24}},
        zones=zones,
        slot_starts=[f"2026-03-02T{hour:02d}:00:00+01:00" for hour in range(SLOTS)],
        exact=exact,
        released=released,
        low=np.maximum(released - 10, 0),
        high=released + 10,
        budget={},
        title=f"Town {NASTY}",
    )


@dataclass
class OpenReport:
    page: Any
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def colour(self, column: int, row: int) -> tuple[int, ...]:
        return tuple(self.page.evaluate(COLOUR_AT, [column, row]))

    def colours(self) -> list[tuple[int, ...]]:
        return [self.colour(column, row) for row in range(SIDE) for column in range(SIDE)]

    def settle(self) -> None:
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 150)))")


@pytest.fixture
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def open_report(browser: Any, path: Path) -> OpenReport:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    report = OpenReport(page)
    page.on("request", lambda request: report.requests.append(request.url))
    page.on("console", lambda said: report.problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: report.problems.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("#city .main-svg")
    page.evaluate(MIDDLE, SIDE)
    report.settle()
    return report


def test_the_report_lives_in_a_browser(browser, tmp_path: Path):
    path = write_density_report(tmp_path / "report.html", town_inputs())
    report = open_report(browser, path)
    OUT.mkdir(exist_ok=True)
    report.page.screenshot(path=OUT / "density-report.png", full_page=True)

    _zones_have_colours(report)
    _time_moves_the_map(report)
    _layers_differ(report)
    _a_click_shows_the_series(report)
    _names_stay_text(report)

    assert report.requests == [path.as_uri()]
    assert report.problems == []


def _zones_have_colours(report: OpenReport) -> None:
    colours = report.colours()
    assert all(colour[3] == 255 for colour in colours)
    assert len(set(colours)) >= 10
    # Viridis runs from dark to light: the emptiest zone is darker than the fullest.
    assert sum(colours[0][:3]) < sum(colours[-1][:3])


def _time_moves_the_map(report: OpenReport) -> None:
    before, label = report.colours(), report.page.text_content("#slot-label")
    report.page.evaluate(
        """() => {
          const slider = document.getElementById('slot');
          slider.value = 18;
          slider.dispatchEvent(new Event('input'));
        }"""
    )
    report.settle()
    after = report.colours()
    assert report.page.text_content("#slot-label") == "Mon 2 Mar 2026, 18:00 (UTC+01:00)" != label
    assert sum(a != b for a, b in zip(before, after, strict=True)) >= 15
    report.page.keyboard.press("ArrowRight")
    assert "19:00" in report.page.text_content("#slot-label")
    report.page.click("#play")
    report.page.wait_for_function(
        "() => !document.getElementById('slot-label').textContent.includes('19:00')"
    )
    report.page.click("#play")
    assert report.page.text_content("#play") == "Play"


def _layers_differ(report: OpenReport) -> None:
    shown = {}
    for layer in ("released", "exact", "difference"):
        report.page.click(f"[data-layer={layer}]")
        report.settle()
        shown[layer] = tuple(report.colours())
    assert len(set(shown.values())) == 3


def _a_click_shows_the_series(report: OpenReport) -> None:
    box = report.page.locator("#map").bounding_box()
    x, y = report.page.evaluate("() => window.middle(1, 2)")
    report.page.mouse.move(box["x"] + x, box["y"] + y)
    tooltip = report.page.inner_text("#tooltip")
    assert "Quarter 11 (z11)" in tooltip
    assert "95 % interval" in tooltip
    report.page.mouse.click(box["x"] + x, box["y"] + y)
    assert report.page.text_content("#zone-name") == "Quarter 11 (z11)"
    raw = report.page.evaluate("() => document.getElementById('series').data.find((t) => t.name === 'Raw').y")
    assert raw == town_inputs().exact[11].tolist()


def _names_stay_text(report: OpenReport) -> None:
    report.page.select_option("#zone", "0")
    assert report.page.text_content("#zone-name") == f"{NASTY} (z0)"
    assert report.page.title() == f"Town {NASTY}"
    assert report.page.locator("img").count() == 0
    assert report.page.locator("h1 b, h2 b, option b").count() == 0
    assert "Nobody was seen here" in report.page.text_content("#zone-facts")


def test_one_zone_and_one_slot_still_make_a_page(browser, tmp_path: Path):
    town = town_inputs()
    one = Zones(ids=("z0",), names=("z0",), geometry=town.zones.geometry[:1], crs=None)
    zero = np.zeros((1, 1))
    inputs = DensityReportInputs(
        manifest={},
        zones=one,
        slot_starts=town.slot_starts[:1],
        exact=zero,
        released=zero,
        low=zero,
        high=zero + 3,
        budget={},
        title="One",
    )
    report = open_report(browser, write_density_report(tmp_path / "report.html", inputs))
    assert report.page.is_disabled("#play")
    assert report.page.is_hidden("#failure")
    assert "Nobody was seen in any zone" in report.page.inner_text("header")
    assert "not defined" in report.page.inner_text("#box-mre")
    assert report.problems == []
