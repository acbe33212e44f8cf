"""The pages of synthetic trips in a real browser: drawn, offline, no wider than the window."""

from __future__ import annotations

import numpy as np
import pytest
from tests.browser import NASTY, in_a_browser, open_page

from shoal.attacks.models.nearest_record import Nearest, OwnRecords
from shoal.kinds.synthetic.report import SyntheticReportInputs, synthetic_report_html
from shoal.metrics.synthetic import synthetic_utility
from shoal.release.page.page import write_page
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

GRID = CellGrid(box=(0.0, 0.0, 30000.0, 20000.0), columns=30, rows=20, planar=True)
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

pytestmark = in_a_browser


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


def nearest(*metres: float) -> Nearest:
    return Nearest(distance_m=np.array(metres), second_m=np.array(metres))


def test_the_owners_page_shows_real_beside_synthetic(browser, tmp_path):
    real, made = trips(400, 1), trips(300, 2)
    inputs = SyntheticReportInputs(
        title=f"Trips {NASTY}",
        manifest=MANIFEST,
        counts={"Synthetic trips": made.count, "Real trips": real.count},
        synthetic=made,
        real=real,
        figures=vars(synthetic_utility(real, made)),
        nearest=OwnRecords(synthetic=nearest(0.0, 100.0, 250.0, np.inf), real=nearest(0.0, 0.0, 90.0, 400.0)),
        budget={"population": NASTY, "limit": "10", "spent_before": "1", "this_release": "2", "left": "7"},
    )
    path = write_page(tmp_path / "report.html", synthetic_report_html(inputs))
    report = open_page(browser, path, "spread-hours")
    assert report.charts() == ["map-real", "map-synthetic", "map-difference", *SPREADS, "nearest"]
    visits = report.sum_of("map-synthetic")
    assert visits == pytest.approx(1000 * made.cells.size / made.count, rel=1e-4)  # visits per 1,000 trips
    for chart in SPREADS:
        assert report.page.evaluate(SHARES, chart) == pytest.approx(
            [1.0, 1.0]
        )  # no trip is left out, whatever is cut off
    assert report.page.evaluate(SHARES, "nearest") == pytest.approx([0.75, 1.0])  # one has no neighbour
    report.check(f"Trips {NASTY}")
    assert (path.stat().st_mode & 0o777) == 0o600


def test_the_public_page_has_one_map_and_nothing_real(browser, tmp_path):
    made = trips(300, 3)
    inputs = SyntheticReportInputs(
        title="T", manifest=MANIFEST, counts={"Synthetic trips": made.count}, synthetic=made
    )
    path = write_page(tmp_path / "page.html", synthetic_report_html(inputs))
    report = open_page(browser, path, "spread-hours")
    report.check("T")
    assert report.charts() == ["map-synthetic", *SPREADS]
    assert all(len(report.page.evaluate(SHARES, chart)) == 1 for chart in SPREADS)
    said = path.read_text("utf-8").split("<script", 1)[0].split("</style>")[1].lower()
    assert "300" in said
    assert "raw" not in said.replace("drawn", "")
    assert "eyes only" not in said
