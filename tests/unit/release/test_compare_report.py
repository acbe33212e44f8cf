"""The page that compares methods: rows brought together, words and warnings kept, nothing runs or leaves."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.kinds.density import compare_report as compare
from shoal.kinds.density.compare_report import (
    ComparedMethod,
    ComparedSlots,
    CompareReportInputs,
    compared_points,
    write_compare_report,
)
from shoal.metrics import box_figures
from shoal.release.page.page import plotly_js

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
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


def own(page: str) -> str:
    return page.replace(plotly_js(), "")


def payload_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


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
    page = own(compare.compare_report_html(inputs(methods=methods)))
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


def test_one_run_alone_is_said_to_be_chance():
    assert compare.CHANCE in own(compare.compare_report_html(inputs()))
    twice = own(compare.compare_report_html(inputs(rows=ROWS[:2])))
    assert "chance" not in twice


def test_the_file_says_where_its_figures_come_from(tmp_path: Path):
    path = write_compare_report(tmp_path / "owner" / "compare.html", inputs(on_private_data=True))
    page = own(path.read_text("utf-8"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "Owner's eyes only" in page
    assert "simulated city" not in page
    assert "simulated city" in own(compare.compare_report_html(inputs()))
    assert "{{" not in page
    assert not re.search(r"""(src|href)\s*=\s*["']|https?://|@import|url\(""", page)


def test_nothing_given_becomes_markup():
    slots = ComparedSlots(
        epsilon=1.0,
        slot_starts=["2026-03-02T00:00:00+01:00"],
        zone=NASTY,
        zone_exact=np.ones(1),
        zone_people={NASTY: np.ones(1)},
    )
    page = own(
        compare.compare_report_html(
            inputs(
                title=NASTY,
                subtitle=NASTY,
                rows=[{"method": NASTY, "epsilon": 1, "mre": 1}],
                methods=(ComparedMethod(name=NASTY, words=NASTY, guarantee=NASTY),),
                warnings=(NASTY,),
                assumptions=(NASTY,),
                slots=slots,
                boxes=((NASTY, 1.0, box_figures(np.ones(3)), box_figures(np.ones(3))),),
            )
        )
    )
    assert "<img" not in page
    assert page.count("<script") == page.count("</script>") == 3


def test_warnings_and_assumptions_are_on_the_page():
    page = own(compare.compare_report_html(inputs(warnings=("Not private.",), assumptions=("A flat city.",))))
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
