"""The page that compares methods: rows brought together, words and warnings kept, nothing runs or leaves."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.loops import for_each
from tests.unit.release.conftest import payload_of, without_library

from shoal.errors import PlanError
from shoal.kinds.density import compare_report as compare
from shoal.kinds.density.compare_report import (
    ComparedMethod,
    ComparedSlots,
    CompareReportInputs,
    compared_points,
)
from shoal.metrics import box_figures

ROWS = [
    {"method": "laplace", "epsilon": 1, "mre": 0.5, "pc": 0.8, "emd_m": 300.0, "bias": 0.02, "seconds": 3},
    {"method": "laplace", "epsilon": 1, "mre": 0.7, "pc": 0.9, "emd_m": 500.0, "bias": -0.01},
    {"method": "laplace", "epsilon": 0.1, "mre": 5.0, "pc": None, "emd_m": float("nan"), "bias": 0.3},
    {
        "method": "best",
        "epsilon": 1.0,
        "mre": 0.1,
        "pc": 0.99,
        "emd_m": 80.0,
        "bias": 0.0,
        "mae": 2.25,
        "coverage": 0.961,
    },
]


def inputs(**changes) -> CompareReportInputs:
    given = {"title": "Compared", "subtitle": "A town", "rows": ROWS, "on_private_data": False}
    return CompareReportInputs(**{**given, **changes})


def test_repetitions_are_averaged_and_gaps_left_out():
    first, second, third = compared_points(ROWS)
    assert (first.method, first.epsilon, first.repetitions) == ("laplace", 1.0, 2)
    known = {name: first.mean[name] for name in ("mre", "pc", "emd_m", "bias")}
    assert known == pytest.approx({"mre": 0.6, "pc": 0.85, "emd_m": 400.0, "bias": 0.005})
    assert (first.least["mre"], first.most["mre"]) == (0.5, 0.7)
    assert (second.mean["pc"], second.mean["emd_m"], second.most["emd_m"]) == (None, None, None)
    assert (third.method, third.repetitions) == ("best", 1)


def test_one_line_per_method_by_growing_epsilon():
    methods = (
        ComparedMethod(name="best", words="w", guarantee="g"),
        ComparedMethod(name="never run", words="w", guarantee="g"),
        ComparedMethod(name="laplace", words="w", guarantee="g", sound=False),
    )
    lines = payload_of(compare.compare_report_html(inputs(methods=methods)))["lines"]
    assert [line["method"] for line in lines] == ["best", "laplace"]
    assert [line["sound"] for line in lines] == [True, False]
    assert lines[1]["epsilon"] == [0.1, 1.0]
    assert lines[1]["mre"]["mean"] == pytest.approx([5.0, 0.6])
    assert lines[1]["pc"]["mean"][0] is None


def test_the_table_says_every_figure_and_whose_epsilon_is_none():
    methods = (ComparedMethod(name="laplace", words="w", guarantee="no promise", sound=False),)
    page = without_library(compare.compare_report_html(inputs(methods=methods)))
    body = re.search(r"<tbody>(.*?)</tbody>", page, re.S)
    assert body
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.group(1).split("</tr>")[:-1]]
    assert rows == [
        ["0.1", "laplace (comparison only)", "500 %", "-", "-", "+30.0 %", "-", "-", "1"],
        ["1", "laplace (comparison only)", "60.0 %", "0.850", "400 m", "+0.50 %", "-", "-", "2"],
        ["1", "best", "10.0 %", "0.990", "80.0 m", "0 %", "2.2", "96.1 %", "1"],
    ]
    assert "no promise" in page
    assert "Mean of 1 to 2 repetitions" in page


def test_the_page_says_where_its_figures_come_from_and_what_is_assumed():
    assert compare.CHANCE in without_library(compare.compare_report_html(inputs()))
    twice = without_library(compare.compare_report_html(inputs(rows=ROWS[:2])))
    assert "chance" not in twice
    pages = {
        private: compare.compare_report_html(inputs(on_private_data=private)) for private in (True, False)
    }
    assert [("simulated city" in page, "Owner's eyes only" in page) for page in pages.values()] == [
        (False, True),
        (True, False),
    ]
    page = without_library(
        compare.compare_report_html(inputs(warnings=("Not private.",), assumptions=("A flat city.",)))
    )
    assert '<p class="notice">Not private.</p>' in page
    assert '<p class="assumption">A flat city.</p>' in page


def test_series_and_boxes_follow_the_order_of_the_lines():
    slots = ComparedSlots(
        epsilon=0.3,
        slot_starts=["2026-03-02T00:00:00+01:00", "2026-03-02T01:00:00+01:00"],
        mre={"best": np.array([0.1, np.nan]), "laplace": np.array([1.0, 2.0])},
    )
    boxes = [
        (name, e, box_figures(np.ones(2)), box_figures(np.ones(2)))
        for name in ("best", "laplace")
        for e in (1.0, 0.1)
    ]
    drawn = payload_of(compare.compare_report_html(inputs(slots=slots, boxes=boxes)))
    assert drawn["slots"]["mre"] == [["laplace", [1.0, 2.0]], ["best", [0.1, None]]]
    assert drawn["slots"]["zonePeople"] == []
    order = [(box["method"], box["epsilon"]) for box in drawn["boxes"]]
    assert order == [("laplace", 0.1), ("laplace", 1.0), ("best", 0.1), ("best", 1.0)]


@for_each(
    ("changes", "code"),
    [
        ({"rows": []}, "compare-rows"),
        ({"rows": [{"method": "best"}]}, "compare-row"),
        ({"rows": [{"method": "best", "epsilon": 0}]}, "compare-row"),
        ({"rows": [{"method": "best", "epsilon": None}]}, "compare-row"),
        (
            {"slots": ComparedSlots(epsilon=1.0, slot_starts=["2026-03-02"], mre={"best": np.ones(2)})},
            "compare-slots",
        ),
        ({"slots": ComparedSlots(epsilon=1.0, slot_starts=["noon"])}, "report-slots"),
    ],
)
def test_rows_that_make_no_sense_are_refused(changes, code):
    with pytest.raises(PlanError) as caught:
        compare.compare_report_html(inputs(**changes))
    assert caught.value.code == code
