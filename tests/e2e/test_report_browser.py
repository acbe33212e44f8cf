"""The owner's report in a real browser: opens offline, has colours, moves, answers clicks, runs no name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from plotly.colors import sequential, unlabel_rgb
from tests.browser import NASTY, OpenPage, in_a_browser, open_page

from shoal.kinds.density.compare_report import ComparedMethod, CompareReportInputs, compare_report_html
from shoal.kinds.density.report import DensityReportInputs, density_report_html
from shoal.metrics import density_utility
from shoal.release.page.page import write_page
from shoal.space.places import Zones

OUT = Path(__file__).parents[1] / "out"
SIDE = 5  # zones per row and column
SLOTS = 24

pytestmark = in_a_browser

# Colour of the map at the middle of a zone of the grid, read from the canvas itself.
COLOUR_AT = """([column, row, id]) => {
  const canvas = document.getElementById(id);
  const ratio = canvas.width / canvas.clientWidth;
  const [x, y] = window.middle(column, row, id);
  return Array.from(canvas.getContext('2d').getImageData(x * ratio, y * ratio, 1, 1).data);
}"""
# The square map fills the height of its box but for a margin of 12 pixels.
MIDDLE = """(side) => { window.middle = (column, row, id = 'map') => {
  const canvas = document.getElementById(id), size = canvas.clientHeight - 24;
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
    low, high = np.maximum(released - 10, 0), released + 10
    centres = np.array([[500 + 1000 * c, 4500 - 1000 * r] for r in range(SIDE) for c in range(SIDE)])
    return DensityReportInputs(
        manifest={"guarantee": {"epsilon": 1.0, "delta": 1e-6, "unit": "user"}, "public": {"ell": 24}},
        zones=zones,
        slot_starts=[f"2026-03-02T{hour:02d}:00:00+01:00" for hour in range(SLOTS)],
        exact=exact,
        released=released,
        low=low,
        high=high,
        budget={},
        title=f"Town {NASTY}",
        utility=density_utility(exact, released, low, high, hour_of_day=np.arange(SLOTS), zone_xy_m=centres),
    )


def colour(report: OpenPage, column: int, row: int, map_id: str = "map") -> tuple[int, ...]:
    return tuple(report.page.evaluate(COLOUR_AT, [column, row, map_id]))


def colours(report: OpenPage) -> list[tuple[int, ...]]:
    return [colour(report, column, row) for row in range(SIDE) for column in range(SIDE)]


def open_report(browser: Any, path: Path) -> OpenPage:
    report = open_page(browser, path, "city")
    report.page.evaluate(MIDDLE, SIDE)
    report.settle()
    return report


def test_the_report_lives_in_a_browser(browser, tmp_path: Path):
    path = write_page(tmp_path / "report.html", density_report_html(town_inputs()))
    report = open_report(browser, path)
    OUT.mkdir(exist_ok=True)
    report.page.screenshot(path=OUT / "density-report.png", full_page=True)

    _zones_have_colours(report)
    _time_moves_the_map(report)
    _layers_differ(report)
    _a_click_shows_the_series(report)
    _errors_are_drawn(report)
    _names_stay_text(report)
    report.check(f"Town {NASTY}")


def _zones_have_colours(report: OpenPage) -> None:
    drawn = colours(report)
    assert all(each[3] == 255 for each in drawn)
    assert len(set(drawn)) >= 10
    # Viridis runs from dark to light: the emptiest zone is darker than the fullest.
    assert sum(drawn[0][:3]) < sum(drawn[-1][:3])


def _time_moves_the_map(report: OpenPage) -> None:
    before, label = colours(report), report.page.text_content("#slot-label")
    report.page.evaluate(
        """() => {
          const slider = document.getElementById('slot');
          slider.value = 18;
          slider.dispatchEvent(new Event('input'));
        }"""
    )
    report.settle()
    after = colours(report)
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


def _layers_differ(report: OpenPage) -> None:
    shown = {}
    for layer in ("released", "exact", "difference"):
        report.page.click(f"[data-layer={layer}]")
        report.settle()
        shown[layer] = tuple(colours(report))
    assert len(set(shown.values())) == 3


def _a_click_shows_the_series(report: OpenPage) -> None:
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


TRACE = (
    "([id, i]) => { const t = document.getElementById(id).data[i]; return { x: t.x, y: t.y, name: t.name }; }"
)


def _errors_are_drawn(report: OpenPage) -> None:
    """Each chart has its numbers and titled axes; the maps of errors tell good zones from bad ones."""
    town = town_inputs()
    profiles = [f"{name}-{part}" for name in ("mre", "emd", "bias", "mae") for part in ("slot", "day")]
    for chart in ("series", "city", "totals", *profiles):
        titles = report.page.evaluate(
            "(id) => ['xaxis', 'yaxis'].map((a) => document.getElementById(id).layout[a].title.text)", chart
        )
        assert all(titles), chart
    bias, distance = (report.page.evaluate(TRACE, [f"{name}-slot", 0])["y"] for name in ("bias", "emd"))
    city = town.exact.sum(axis=0)
    assert bias[18] is distance[18] is None  # nobody was seen at 18:00
    seen = [slot for slot in range(SLOTS) if slot != 18]
    assert [bias[slot] for slot in seen] == pytest.approx(
        (town.released.sum(axis=0)[seen] / city[seen] - 1).tolist()
    )
    assert min(distance[slot] for slot in seen) > 0
    points = report.page.evaluate(TRACE, ["totals", 1])
    assert points["x"] == town.exact.sum(axis=1)[1:].tolist()  # zone 0 has nobody
    # Zone 0 has no figure: grey. Zone 24 has ten times the people of zone 2: a smaller error, hence paler.
    for map_id in ("map-mre", "map-pearson"):
        empty, small, large = (colour(report, c, r, map_id) for c, r in ((0, 0), (2, 0), (4, 4)))
        assert max(empty[:3]) - min(empty[:3]) < 20
        assert sum(small[:3]) < sum(large[:3])
    # A correlation has its colour on a fixed scale from 0 to 1, whatever the other zones have.
    stops = [unlabel_rgb(stop) for stop in reversed(sequential.YlOrBr[1:])]
    for column, row in ((2, 0), (4, 4)):
        zone = row * SIDE + column
        place = np.corrcoef(town.exact[zone], town.released[zone])[0, 1] * (len(stops) - 1)
        wanted = [np.interp(place, range(len(stops)), part) for part in zip(*stops, strict=True)]
        assert colour(report, column, row, "map-pearson")[:3] == pytest.approx(wanted, abs=4)
    report.page.locator("#map-mre").scroll_into_view_if_needed()
    box = report.page.locator("#map-mre").bounding_box()
    x, y = report.page.evaluate("() => window.middle(3, 1, 'map-mre')")
    report.page.mouse.click(box["x"] + x, box["y"] + y)
    assert report.page.text_content("#zone-name") == "Quarter 8 (z8)"
    assert "Relative error" in report.page.text_content("#tooltip-mre")
    chosen = report.page.evaluate(TRACE, ["totals", 2])
    assert chosen["x"] == [town.exact[8].sum()]


def _names_stay_text(report: OpenPage) -> None:
    report.page.select_option("#zone", "0")
    assert report.page.text_content("#zone-name") == f"{NASTY} (z0)"
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
        utility=density_utility(zero, zero, zero, zero + 3),
        budget={},
        title="One",
    )
    report = open_report(browser, write_page(tmp_path / "report.html", density_report_html(inputs)))
    assert report.page.is_disabled("#play")
    assert "There are no visits in the window" in report.page.inner_text("header")
    assert "not defined" in report.page.inner_text("#box-mre")
    report.check("One")


def test_methods_compared_in_a_browser(browser, tmp_path: Path):
    rows = [
        {
            "method": method,
            "epsilon": epsilon,
            "mre": level / epsilon,
            "pc": 0.9,
            "emd_m": 100.0,
            "bias": 0.0004 * level / 9,
            "mae": level,
            "coverage": 0.95 + level / 1000,
        }
        for method, level in (("best", 0.1), (NASTY, 9.0))
        for epsilon in (0.1, 0.3, 1.0)
    ]
    page = CompareReportInputs(
        title="Compared",
        subtitle="A town",
        rows=rows,
        on_private_data=False,
        methods=(ComparedMethod(name=NASTY, words="w", guarantee="none", sound=False),),
    )
    path = write_page(tmp_path / "compare.html", compare_report_html(page))
    report = open_page(browser, path, "by-coverage")
    report.page.screenshot(path=OUT / "compare-report.png", full_page=True)
    axes = report.page.evaluate(
        "() => { const l = document.getElementById('by-mre').layout; return [l.xaxis.type, l.yaxis.type]; }"
    )
    assert axes == ["log", "log"]
    for chart in ("by-bias", "by-coverage"):
        ticks = report.page.locator(f"#{chart} .ytick text").all_text_contents()
        assert len(ticks) == len(set(ticks)) > 2, ticks
    assert report.page.evaluate(TRACE, ["by-mae", 1])["y"] == pytest.approx([0.1] * 3)
    best = report.page.evaluate(TRACE, ["by-mre", 1])
    assert (best["name"], best["x"]) == ("best", [0.1, 0.3, 1.0])
    assert best["y"] == pytest.approx([1.0, 1 / 3, 0.1])
    report.page.click("#legend button >> nth=1")
    shown = report.page.evaluate("() => document.getElementById('by-emd_m').data.map((t) => t.visible)")
    assert shown == [None, False] or shown == [True, False]
    assert report.page.is_hidden("#over-time")
    report.check("Compared")
