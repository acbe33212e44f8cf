"""The owner's report: what is written, that nothing in it can run or leave, and its pictures' numbers."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
import shapely
from tests.loops import for_each
from tests.unit.release.conftest import payload_of, without_library

from shoal.errors import PlanError
from shoal.kinds.density import report as density
from shoal.kinds.density.report import DensityReportInputs
from shoal.metrics import density_utility
from shoal.release.page import page as shell
from shoal.release.page.page import drawn_zones, json_for_script
from shoal.space.clock import day_ticks, slot_word
from shoal.space.places import GRID_STEPS, Zones


def square_zones(names: list[str], crs: str | None = "EPSG:4326", side: float = 0.01) -> Zones:
    corner = (2.3, 48.8) if crs else (0.0, 0.0)
    shapes = [
        shapely.box(corner[0] + i * side, corner[1], corner[0] + (i + 1) * side, corner[1] + side)
        for i in range(len(names))
    ]
    ids = tuple(f"z{i}" for i in range(len(names)))
    return Zones(ids=ids, names=tuple(names), geometry=np.array(shapes, dtype=object), crs=crs)


def report_inputs(zones: Zones, slots: int = 48, **changes) -> DensityReportInputs:
    rng = np.random.default_rng(5)
    exact = rng.poisson(30, (zones.count, slots)).astype(float)
    released = np.maximum(exact + rng.normal(0, 4, exact.shape), 0)
    given = {
        "manifest": {
            "guarantee": {"epsilon": 1.0, "delta": 1e-6, "rho": 0.0183, "unit": "user"},
            "public": {"ell": 30, "window": {"slots": slots}},
            "spends": [
                {
                    "name": "counts",
                    "pays_for": "the count of every slot",
                    "mechanism": "DensityGaussian",
                    "rho": 0.0183,
                }
            ],
            "population": "town-7",
        },
        "zones": zones,
        "slot_starts": [f"2026-03-{2 + h // 24:02d}T{h % 24:02d}:00:00+01:00" for h in range(slots)],
        "exact": exact,
        "released": released,
        "low": released - 8,
        "high": released + 8,
        "budget": {"population": "town-7", "limit": 0.5, "spent_before": 0.1, "this_release": 0.0183},
        "title": "A small town",
    }
    given |= changes
    if "utility" not in given:
        arrays = (given[name] for name in ("exact", "released", "low", "high"))
        given["utility"] = density_utility(*arrays, zone_xy_m=given.pop("zone_xy_m", None))
    return DensityReportInputs(**given)


def test_values_in_the_page_are_the_arrays_that_came_in():
    inputs = report_inputs(square_zones(["a", "b", "c"]))
    payload = payload_of(density.density_report_html(inputs))
    for name in ("exact", "released", "low", "high"):
        stored = np.frombuffer(base64.b64decode(payload["values"][name]), "<f4").reshape(3, 48)
        np.testing.assert_allclose(stored, getattr(inputs, name), rtol=1e-6)
    assert payload["city"]["exact"] == pytest.approx(inputs.exact.sum(axis=0).tolist())
    assert payload["zones"]["names"] == ["a", "b", "c"]
    text = json_for_script({"a": np.array([1.5, np.nan]), "b": np.int64(3), "c": (float("inf"), "<&>")})
    assert json.loads(text) == {"a": [1.5, None], "b": 3, "c": [None, "<&>"]}
    assert not set("<>&") & set(text)
    inputs = report_inputs(square_zones(["a", "b"]))
    exact, released = inputs.exact, inputs.released
    payload = payload_of(density.density_report_html(inputs))
    assert payload["byZone"]["exactTotal"] == pytest.approx(exact.sum(axis=1).tolist())
    assert payload["byZone"]["releasedTotal"] == pytest.approx(released.sum(axis=1).tolist())
    assert payload["bySlot"]["bias"] == pytest.approx((released.sum(axis=0) / exact.sum(axis=0) - 1).tolist())


def test_guarantee_and_figures_come_from_the_objects():
    inputs = report_inputs(square_zones(["a"]))
    inputs.manifest["guarantee"] = {"epsilon": 0.4, "delta": 3e-7, "unit": "vehicle-day"}
    own = without_library(density.density_report_html(inputs))
    assert "one vehicle-day changes" in own
    assert "e^0.4 (epsilon = 0.4), plus delta = 0.0000003" in own
    assert "ε = 0.4" in own
    assert "one user" not in own
    inputs.manifest["promise"] = "The manifest's own words."
    assert "The manifest&#39;s own words." in density.density_report_html(inputs)
    inputs = report_inputs(square_zones(["a"]), manifest={"population": "p"}, budget={})
    own = without_library(density.density_report_html(inputs))
    for said in (
        "states no differential privacy",
        "lists no spends",
        "lists nothing public",
        "No budget was",
        "not differentially private",
    ):
        assert said in own
    page = density.density_report_html(report_inputs(square_zones(["a"])))
    assert "<th>pays for</th>" in page
    assert "<td>counts</td><td>the count of every slot</td>" in page
    assert '<td class="num">0.0183</td>' in page


@pytest.mark.parametrize(
    ("key", "said"),
    [("reproducible", "must not be published"), ("tuned_on_private_data", "looking at private data")],
)
def test_what_a_manifest_admits_is_shown(key, said):
    inputs = report_inputs(square_zones(["a"]))
    assert said not in density.density_report_html(inputs)
    inputs.manifest[key] = "none recorded" if key == "tuned_on_private_data" else False
    assert said not in density.density_report_html(inputs)
    inputs.manifest[key] = True
    assert said in density.density_report_html(inputs)


def test_nobody_and_parts_of_the_slots_are_said(monkeypatch):
    zones = square_zones(["a", "b"])
    nobody = report_inputs(zones, exact=np.zeros((2, 48)))
    assert "There are no visits in the window" in density.density_report_html(nobody)
    exact = np.ones((2, 48))
    exact[0] = 0
    assert "1 of 2 zones have no visits" in density.density_report_html(report_inputs(zones, exact=exact))
    monkeypatch.setattr("shoal.metrics.density.affordable_slots", lambda zones, slots: np.array([0, 5]))
    page = density.density_report_html(report_inputs(square_zones(["a", "b"]), zone_xy_m=CENTRES))
    assert "Computed on 2 of 48 slots" in page


def test_shapes_keep_their_proportions_and_shared_borders():
    drawn = drawn_zones(square_zones(["a", "b"]))
    # Two squares of degrees side by side at 48.8 north: cos(48.805 degrees) = 0.6586 as wide as high, twice.
    assert drawn["width"] / drawn["height"] == pytest.approx(2 * 0.6586, rel=1e-3)
    assert drawn["rings"] == [[4], [4]]
    xy = np.frombuffer(base64.b64decode(drawn["xy"]), "<u2").reshape(-1, 2)
    assert xy.max() == GRID_STEPS
    left, right = {tuple(p) for p in xy[:4].tolist()}, {tuple(p) for p in xy[4:].tolist()}
    assert len(left & right) == 2
    assert drawn["stepsPerKm"] * 0.02 * 111.32 * 0.6586 == pytest.approx(GRID_STEPS, rel=1e-3)


def test_planar_zones_parts_holes_overlaps_and_no_shape_are_drawn():
    ring = shapely.box(0, 0, 3000, 3000).difference(shapely.box(1000, 1000, 2000, 2000))
    two = shapely.MultiPolygon([shapely.box(3000, 0, 4000, 1000), shapely.box(3000, 2000, 4000, 3000)])
    zones = Zones(ids=("a", "b"), names=("a", "b"), geometry=np.array([ring, two], dtype=object), crs=None)
    drawn = drawn_zones(zones)
    assert [len(rings) for rings in drawn["rings"]] == [2, 2]
    assert drawn["stepsPerKm"] == pytest.approx(GRID_STEPS / 4)
    assert drawn["width"] / drawn["height"] == pytest.approx(4 / 3, rel=1e-4)
    zones = Zones(ids=("a",), names=("a",), geometry=np.array([shapely.Polygon()], dtype=object), crs=None)
    drawn = drawn_zones(zones)
    assert (drawn["rings"], drawn["xy"], drawn["width"], drawn["height"]) == ([[]], "", 1, 1)
    shapes = [shapely.box(0, 0, 2, 2), shapely.box(1, 1, 3, 3)]
    zones = Zones(ids=("a", "b"), names=("a", "b"), geometry=np.array(shapes, dtype=object), crs=None)
    assert drawn_zones(zones)["rings"] == [[4], [4]]


def test_long_windows_are_drawn_in_part_with_words_for_slots(monkeypatch):
    starts = density._checked_starts(report_inputs(square_zones(["a"]), slots=72))
    assert slot_word(starts) == "hour"
    assert slot_word(starts[:1]) == "slot"
    assert day_ticks(starts) == {"slots": [0, 24, 48], "texts": ["Mon 2 Mar", "Tue 3 Mar", "Wed 4 Mar"]}
    assert day_ticks(starts[:1]) == {"slots": [0], "texts": ["Mon 00:00"]}
    assert day_ticks(starts[:24])["texts"] == [f"{hour:02d}:00" for hour in range(0, 24, 3)]
    assert day_ticks(starts[:48])["texts"][4] == "Tue 00:00"
    monkeypatch.setattr(density, "MAX_DRAWN_VALUES", 20)
    page = density.density_report_html(report_inputs(square_zones(["a", "b"])))
    payload = payload_of(page)
    assert payload["slots"] == 10
    assert len(base64.b64decode(payload["values"]["exact"])) == 2 * 10 * 4
    assert len(payload["city"]["exact"]) == 48
    assert "first 10 of 48 slots" in page


@for_each(
    ("changes", "code"),
    [
        ({"slot_starts": ["2026-03-02"] * 47}, "report-shape"),
        ({"slot_starts": ["yesterday"] * 48}, "report-slots"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(changes, code):
    with pytest.raises(PlanError) as caught:
        density.density_report_html(report_inputs(square_zones(["a"]), **changes))
    assert caught.value.code == code


CENTRES = np.array([[0.0, 0.0], [700.0, 0.0]])


def test_distance_between_maps_is_in_the_page():
    inputs = report_inputs(square_zones(["a", "b"]), zone_xy_m=CENTRES)
    page = density.density_report_html(inputs)
    # Two zones: what one has too much of, the other lacks, over 700 m.
    share = [array[0] / array.sum(axis=0) for array in (inputs.exact, inputs.released)]
    want = 700 * np.abs(share[0] - share[1])
    payload = payload_of(page)
    assert payload["bySlot"]["emd"] == pytest.approx(want)
    assert shell.metres(want.mean()) in page
    without = density.density_report_html(report_inputs(square_zones(["a", "b"])))
    assert payload_of(without)["bySlot"]["emd"] is None
    assert "Not computed here" in without
    assert "Map error (EMD)" not in without
