"""The pages of a histogram in a real browser: drawn, offline, no wider than the window."""

from __future__ import annotations

import numpy as np
import pytest
from tests.browser import NASTY, in_a_browser, open_page

from shoal.kinds.histogram.compare import ComparedHistogram
from shoal.kinds.histogram.report import HistogramReportInputs, histogram_report_html
from shoal.metrics.histogram import HistogramUtility, error_by_size
from shoal.release.histogram_files import PublishedHistogram
from shoal.release.page.page import write_page
from shoal.space.cells import CellGrid, Euler, random_rectangles

GRID = CellGrid(box=(0.0, 0.0, 3000.0, 2000.0), columns=300, rows=200, planar=True)

pytestmark = in_a_browser


def utility() -> HistogramUtility:
    rectangles = random_rectangles(GRID, 100, seed=1)
    exact = rectangles.areas.astype(float)
    sizes = error_by_size(rectangles, GRID, exact + 3, exact)
    return HistogramUtility(
        trips=1000,
        bounded_trips=900,
        mean_exact=500.0,
        given=3.0,
        unseen=4.0,
        bounded=1.0,
        euler=2.0,
        euler_blocks=0.0,
        kld=1.5,
        violated_before=0.2,
        violated_after=0.0,
        rectangles=(100, 100),
        by_size=dict.fromkeys(("released", "euler", "euler_blocks"), sizes),
    )


def published() -> PublishedHistogram:
    faces = np.random.default_rng(1).gamma(1.0, 20.0, (GRID.rows, GRID.columns))
    manifest = {
        "unit": "One user: all.",
        "promise": f"A promise {NASTY}",
        "population": NASTY,
        "guarantee": {"epsilon": 1.0, "delta": 0.0, "unit": "user"},
        "public": {"method": NASTY, "window": {"start": "2026-03-02", "end": "2026-03-03"}},
        "spends": [{"name": NASTY, "rho": 0.5}],
    }
    return PublishedHistogram(GRID, Euler(faces=faces), {"trips": 1234.5}, manifest)


def test_the_owners_page_shows_both_maps_errors_and_methods(browser, tmp_path):
    made = published()
    rows = [
        ComparedHistogram(method=name, words=NASTY, sound=True, utility=utility(), seconds=1.0)
        for name in ("boxes", NASTY)
    ]
    inputs = HistogramReportInputs(
        title=f"Trips {NASTY}",
        published=made,
        exact_faces=np.full((GRID.rows, GRID.columns), 7),
        utility=utility(),
        compared=rows,
        method="boxes",
        budget={"population": NASTY, "limit": "10", "spent_before": "1", "this_release": "2", "left": "7"},
    )
    path = write_page(tmp_path / "report.html", histogram_report_html(inputs))
    report = open_page(browser, path, "map-released")
    assert report.charts() == ["map-exact", "map-released", "map-difference", "by-size", "compared"]
    # 300 columns: drawn in blocks of 2 x 2
    assert report.sum_of("map-released") == pytest.approx(made.euler.faces.sum() / 4, rel=1e-4)
    assert "boxes (as released)" in report.page.inner_text(".compared")
    report.check(f"Trips {NASTY}")
    assert (path.stat().st_mode & 0o777) == 0o600


def test_the_public_page_has_one_map_and_nothing_raw(browser, tmp_path):
    inputs = HistogramReportInputs(title="T", published=published())
    path = write_page(tmp_path / "page.html", histogram_report_html(inputs))
    report = open_page(browser, path, "map-released")
    report.check("T")
    assert report.charts() == ["map-released"]
    text = path.read_text("utf-8")
    assert "1,234" in text
    assert "raw" not in text.split("<script", 1)[0].split("</style>")[1].lower()
