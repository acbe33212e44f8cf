"""What holds for each of the seven pages: one shell, no foreign request, no name that becomes markup."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.release import test_compare_report, test_report, test_synthetic_report, test_trajectory_report
from tests.unit.release.conftest import NASTY, without_library, without_scripts

from shoal.errors import OutputError
from shoal.kinds.density.compare_report import ComparedMethod, ComparedSlots, compare_report_html
from shoal.kinds.density.report import density_report_html
from shoal.kinds.histogram.report import HistogramReportInputs, histogram_report_html
from shoal.kinds.synthetic.report import SyntheticReportInputs, synthetic_report_html
from shoal.kinds.trajectories.report import record_picture, trajectory_report_html
from shoal.kinds.trips import grid_subtitle
from shoal.metrics import box_figures
from shoal.release.evidence import Evidence, evidence_html
from shoal.release.histogram_files import PublishedHistogram
from shoal.release.manifest import Manifest
from shoal.release.page.page import LABELS, flat, render, write_page
from shoal.space.cells import CellGrid, Euler

GOLDEN = Path(__file__).parents[2] / "golden" / "v2" / "density-gaussian" / "manifest.json"
MANIFEST = {
    "unit": NASTY,
    "promise": NASTY,
    "population": NASTY,
    "created": NASTY,
    "public": {NASTY: NASTY, "method": NASTY, "window": {"start": NASTY, "end": NASTY}},
    "spends": [{NASTY: NASTY, "name": NASTY}],
}
BUDGET = {"population": NASTY, "limit": NASTY, NASTY: NASTY}


def density() -> str:
    zones = test_report.square_zones([NASTY, "b"])
    return density_report_html(
        test_report.report_inputs(zones, title=NASTY, manifest=MANIFEST, budget=BUDGET)
    )


def comparison() -> str:
    slots = ComparedSlots(
        epsilon=1.0,
        slot_starts=["2026-03-02T00:00:00+01:00"],
        zone=NASTY,
        zone_exact=np.ones(1),
        zone_people={NASTY: np.ones(1)},
    )
    box = box_figures(np.ones(3))
    given = {
        "title": NASTY,
        "subtitle": NASTY,
        "rows": [{"method": NASTY, "epsilon": 1, "mre": 1}],
        "methods": (ComparedMethod(name=NASTY, words=NASTY, guarantee=NASTY),),
        "warnings": (NASTY,),
        "assumptions": (NASTY,),
        "slots": slots,
        "boxes": ((NASTY, 1.0, box, box),),
        "on_private_data": True,
    }
    return compare_report_html(test_compare_report.inputs(**given))


def trajectories() -> str:
    made, measured = test_trajectory_report.facts(), test_trajectory_report.MEASURED
    picture = record_picture(*test_trajectory_report.town(), 0, name=NASTY, record=1, first_step=0, steps=60)
    measured = {
        **measured,
        "more_knowledge": [{**measured["more_knowledge"][0], "knows": NASTY}],
        "same_record": {**measured["same_record"], "worst": [{"user": NASTY, "record": NASTY}]},
    }
    rows = [{"tau_min": 30, "data": NASTY, "suppressed": 0.01}]
    changes = {"title": NASTY, "picture": picture, "runs": rows, "measured": measured}
    return trajectory_report_html(replace(made, **changes, notices=[NASTY], public={NASTY: NASTY}))


def histogram() -> str:
    grid = CellGrid(box=(0.0, 0.0, 2.0, 2.0), columns=2, rows=2, planar=True)
    published = PublishedHistogram(grid, Euler(faces=np.ones((2, 2))), {"trips": 1.0}, MANIFEST)
    return histogram_report_html(HistogramReportInputs(title=NASTY, published=published, budget=BUDGET))


def synthetic() -> str:
    trips = test_synthetic_report.paths(test_synthetic_report.EAST)
    counts = {NASTY: 1}
    inputs = SyntheticReportInputs(
        title=NASTY, manifest=MANIFEST, counts=counts, synthetic=trips, figures={NASTY: 0.5}, budget=BUDGET
    )
    return synthetic_report_html(inputs)


def attack() -> str:
    given = {"summary": [NASTY], "knows": NASTY, "does": NASTY, "header": [NASTY], "rows": [[NASTY]]}
    return render("attack.html", "format.js", title=NASTY, payload={NASTY: NASTY}, right=[0], **given)


def evidence() -> str:
    manifest = replace(
        Manifest.from_json(GOLDEN.read_text()), population="<img>", licence="<img>", public={"<img>": "<img>"}
    )
    row = {"at": NASTY, "what": NASTY, "cost": NASTY, "status": NASTY, "this": True}
    pot = dict.fromkeys(("title", "limit", "spent", "left"), NASTY)
    names = ("population", "lifetime", "mixture")
    return evidence_html(
        Evidence(
            name=NASTY,
            manifest=manifest,
            manifest_sha256=NASTY,
            budget=dict.fromkeys(names, NASTY) | {"pots": [pot]},
            rows=[row],
            ledger_rows=1,
            ledger_head=NASTY,
            ledger_findings=[NASTY],
            attacks=[dict.fromkeys(("goal", "knows", "sentence"), NASTY) | {"summary": [NASTY]}],
        )
    )


PAGES = (density, comparison, trajectories, histogram, synthetic, attack, evidence)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_no_name_becomes_markup_and_no_address_is_asked(page):
    html = page()
    own, text = without_library(html), without_scripts(html)
    assert "<img" not in own
    assert "<script>alert" not in own
    assert "&lt;img" in text
    # Payload, library, program: nothing opened a script of its own, nothing closed one early.
    assert own.count("<script") == own.count("</script>") == (0 if page is evidence else 3)
    assert "default-src 'none'" in text
    assert ("script-src" in text) == (page is not evidence)
    assert not re.search(r"<[^>]*\s(src|href)\s*=|https?://|url\(|@import", text)
    assert len(html) < 5_500_000  # 4.8 MB of it the chart library


def test_a_page_is_the_owners_alone_and_replaces_no_other_file(tmp_path):
    path = write_page(tmp_path / "owner" / "report.html", "<p>7 people</p>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder.html").mkdir()
    for place in (tmp_path / "file" / "report.html", tmp_path / "folder.html"):
        with pytest.raises(OutputError, match="report-unwritable"):
            write_page(place, "")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder.html", "owner"]


def test_labels_of_public_parameters_and_windows_as_dates():
    """Over the manifests of all kinds; names inside the mechanism are those of its measured parts."""
    manifests = sorted((GOLDEN.parents[2]).rglob("manifest.json"))
    parameters = [json.loads(path.read_text("utf-8"))["public"] for path in manifests]
    unlabelled = {key for public in parameters for key in public if key not in LABELS["parameters"]}
    assert len(manifests) > 10
    assert not unlabelled
    shown = [row for public in parameters for row in flat(public)]
    assert not [name for name, _ in shown if "_" in name or name[:1].islower()]
    assert not [value for _, value in shown if re.match(r"\d{4}-\d\d-\d\dT", value)]
    window = {"start": "2026-03-02T00:00:00", "end": "2026-03-04T00:00:00"}
    assert grid_subtitle(None, {"public": {"window": window}}) == [
        "Mon 2 Mar 2026, 00:00 to Wed 4 Mar 2026, 00:00"
    ]
