"""Words of a histogram's page: what it promises of larger areas, how small shares are said."""

import re

import numpy as np
import pytest
from tests.loops import for_each

from shoal.kinds.histogram.report import HistogramReportInputs, histogram_report_html
from shoal.release.histogram_files import PublishedHistogram, files_of
from shoal.space.cells import CellGrid, Euler

GRID = CellGrid(box=(0.0, 0.0, 2.0, 2.0), columns=2, rows=2, planar=True)


@pytest.mark.parametrize("pool", [True, False])
def test_only_made_up_trips_promise_more_in_a_larger_rectangle(pool):
    euler = Euler(faces=np.ones((2, 2)), east=np.ones((2, 1)), north=np.ones((1, 2)))
    manifest = {"columns": files_of(pool=pool, zones=False)}
    published = PublishedHistogram(GRID, euler, {"trips": 1.0}, manifest)
    page = histogram_report_html(HistogramReportInputs(title="T", published=published))
    assert ("a rectangle never has fewer trips" in page) == pool
    assert ("It is not guaranteed that a larger area" in page) != pool


@for_each(
    ("share", "said"),
    [
        (0.25, "25.0 % of"),
        (0.0001, "0.01 % of"),
        (0.000001, "Less than 0.01 % of"),
        (0.0, None),
        (None, None),
    ],
)
def test_points_beyond_the_box(share, said):
    published = PublishedHistogram(GRID, Euler(faces=np.ones((2, 2))), {"trips": 1.0}, {})
    inputs = HistogramReportInputs(title="T", published=published, outside_share=share)
    notices = re.findall(r'<p class="notice">(.*?) the points of trips', histogram_report_html(inputs))
    assert notices == ([said] if said else [])
