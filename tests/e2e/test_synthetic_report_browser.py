"""The pages of synthetic trips in a real browser: drawn, offline, no wider than the window."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from shoal.kinds.synthetic.report import NearestTrips, SyntheticReportInputs, write_synthetic_report
from shoal.metrics.synthetic import synthetic_utility
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
NASTY = "</script><img src=x onerror=\"document.title='broken'\"><b>"
GRID = CellGrid(box=(0.0, 0.0, 30000.0, 20000.0), columns=30, rows=20, planar=True)
SUM = "(id) => document.getElementById(id).data[0].z.flat().reduce((sum, z) => sum + (z || 0), 0)"
SHARES = "(id) => document.getElementById(id).data.map((t) => [...t.y].reduce((sum, y) => sum + y, 0))"
SPREADS = ["spread-distance", "spread-moves", "spread-stay", "spread-duration", "spread-hours"]
MANIFEST = {
    "unit": "One user: all.",
    "promise": f"A promise {NASTY}",
    "population": NASTY,
    "guarantee": {"epsilon": 1.0, "delta": 0.0, "unit": "user"},
    "public": {
        "method": NASTY,
        "window": {"start": "2026-03-02", "end": "2026-03-03"},
        "time_zone": "Europe/Paris",
    },
    "spends": [{"name": NASTY, "rho": 0.5}],
}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


def trips(count: int, seed: int) -> CellPaths:
    """Straight ways east, from anywhere."""
    generator = np.random.default_rng(seed)
    lists = []
    for _ in range(count):
        row, column = int(generator.integers(20)), int(generator.integers(20))
        moves = int(generator.integers(1, 10))
        lists.append([(row * 30 + column + i, 2 * i, 1) for i in range(moves + 1)])
    paths = CellPaths.of(GRID, 60, lists)
    paths.start_us[:] = generator.integers(0, 86_400_000_000, count)
    return paths


def shown(path, width=1280):
    """What a browser makes of a page: its charts, figures of some, requests, errors, title."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    requests, problems = [], []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("#spread-hours .main-svg")
        charts = page.evaluate("() => [...document.querySelectorAll('.js-plotly-plot')].map((c) => c.id)")
        total = page.evaluate(SUM, "map-synthetic")
        sums = {chart: page.evaluate(SHARES, chart) for chart in charts if not chart.startswith("map")}
        title, images = page.title(), page.locator("img, h1 b").count()
        page.set_viewport_size({"width": 380, "height": 800})
        page.wait_for_function("() => document.documentElement.scrollWidth <= 380", timeout=10_000)
        browser.close()
    assert requests == [path.as_uri()]
    assert problems == []
    assert images == 0
    return charts, total, sums, title


def test_the_owners_page_shows_real_beside_synthetic(tmp_path):
    real, made = trips(400, 1), trips(300, 2)
    inputs = SyntheticReportInputs(
        title=f"Trips {NASTY}",
        manifest=MANIFEST,
        counts={"Synthetic trips": made.count, "Real trips": real.count},
        synthetic=made,
        real=real,
        figures=vars(synthetic_utility(real, made)),
        nearest=NearestTrips(
            synthetic_m=np.array([0.0, 100.0, 250.0, np.inf]),
            real_m=np.array([0.0, 0.0, 90.0, 400.0]),
            copies=(0.25, 0.5),
            ratios=(0.8, 0.9),
            least_cells=5,
        ),
        budget={"population": NASTY, "limit": "10", "spent_before": "1", "this_release": "2", "left": "7"},
    )
    path = write_synthetic_report(tmp_path / "report.html", inputs)
    charts, total, sums, title = shown(path)
    assert charts == ["map-real", "map-synthetic", "map-difference", *SPREADS, "nearest"]
    assert total == pytest.approx(1000 * made.cells.size / made.count, rel=1e-4)  # visits per 1,000 trips
    for chart in SPREADS:
        assert sums[chart] == pytest.approx([1.0, 1.0])  # no trip is left out, whatever is cut off
    assert sums["nearest"] == pytest.approx([0.75, 1.0])  # one has no neighbour
    assert title == f"Trips {NASTY}"
    assert (path.stat().st_mode & 0o777) == 0o600


def test_the_public_page_has_one_map_and_nothing_real(tmp_path):
    made = trips(300, 3)
    inputs = SyntheticReportInputs(
        title="T", manifest=MANIFEST, counts={"Synthetic trips": made.count}, synthetic=made
    )
    path = write_synthetic_report(tmp_path / "page.html", inputs)
    charts, _, sums, _ = shown(path)
    assert charts == ["map-synthetic", *SPREADS]
    assert all(len(each) == 1 for each in sums.values())
    said = path.read_text("utf-8").split("<script", 1)[0].split("</style>")[1].lower()
    assert "300" in said
    assert "raw" not in said.replace("drawn", "")
    assert "eyes only" not in said
