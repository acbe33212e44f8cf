"""Plans of a histogram: names, sizes of grids, rules that flags and files share."""

import json

import pytest

from shoal.errors import GuaranteeError, PlanError
from shoal.kinds.describe import check_spends, spends_of
from shoal.kinds.histogram.plan import METHODS, PAYS_FOR, HistogramPlan, MapPlan
from shoal.mechanisms.audit_size import trip_setting
from shoal.privacy.accounting import Budget

SETTINGS = {
    "population": "town",
    "epsilon": 1,
    "source": {"paths": ["trips.parquet"]},
    "space": {"box": [0, 0, 8, 4], "cells": "8x4"},
    "window": {"start": "2026-03-02", "end": "2026-03-03", "time_zone": "Europe/Paris"},
}


def plan(**changes):
    return HistogramPlan.from_settings({**SETTINGS, **changes})


def test_defaults():
    made = plan()
    assert (made.method, made.unit, made.per_unit, made.delta, made.given) == (
        "boxes",
        "user",
        10,
        None,
        16000,
    )
    assert plan(unit="trip").per_unit == 1
    assert plan(trips_per_user=3).per_unit == 3
    assert made.budget().pure
    assert not plan(delta=1e-6).budget().pure
    assert plan(delta=0).budget().pure
    assert plan().trip_rule is None
    assert plan(trip_rule={"gap_minutes": 5}).trip_rule.gap_minutes == 5


@pytest.mark.parametrize(("cells", "sides"), [(256, (256, 256)), ("64", (64, 64)), ("300x200", (300, 200))])
def test_sizes_of_a_grid(cells, sides):
    grid = MapPlan(box=(0, 0, 1, 1), cells=cells).grid(planar=True)
    assert (grid.columns, grid.rows) == sides


@pytest.mark.parametrize("cells", ["x", "3x", "3x4x5", "-3", "3.5", 0])
def test_sizes_that_are_none(cells):
    with pytest.raises(PlanError) as caught:
        MapPlan(box=(0, 0, 1, 1), cells=cells).grid(planar=True)
    assert caught.value.code == "grid-size"


def test_planar_must_agree_and_a_name_is_nearly_right():
    MapPlan(box=(0, 0, 1, 1), planar=True).grid(planar=True)
    with pytest.raises(PlanError, match="longitude and latitude"):
        MapPlan(box=(0, 0, 1, 1), planar=True).grid(planar=False)
    with pytest.raises(PlanError, match="Did you mean prish"):
        METHODS.named("prich")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"trip_rule": {}}, "trip-rule"),
        ({"trips_per_user": 20, "trips_cap": 10}, "plan-range"),
        ({"owner": "release/owner"}, "plan-folders"),
        ({"licence": "a\nb"}, "plan-licence"),
        ({"population": " "}, "plan-population"),
    ],
)
def test_settings_that_make_no_sense(change, code):
    with pytest.raises(PlanError) as caught:
        plan(**change).space.grid(planar=True)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("trips", "Did you mean trip"),
        ("Trip", "Did you mean trip"),
        ("User", "Did you mean user"),
        ("person", "unit=user"),
        ("People", "unit=user"),
    ],
)
def test_a_unit_that_means_another_is_told_so(unit, said):
    source = {"paths": ["trips.parquet"], "columns": {"user": "rider"}}
    with pytest.raises(PlanError, match=said) as caught:
        plan(unit=unit, source=source)
    assert caught.value.code == "plan-unit"
    assert plan(unit="cab", source=source).per_unit == 10


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("bound", [{"per_unit": 1}, {"per_unit": 3, "cap": 9}, {"per_unit": 2, "trips": 500}])
def test_each_method_stays_within_its_budget_and_says_what_it_buys(name, delta, bound):
    budget = Budget.of(0.5, delta)
    if METHODS[name].pure and delta is not None:
        with pytest.raises(GuaranteeError, match="no gaussian noise"):
            METHODS[name].build(budget, trip_setting(**bound))
        return
    mechanism = METHODS[name].build(budget, trip_setting(**bound))
    check_spends(mechanism, budget)
    spends = spends_of(mechanism, PAYS_FOR)
    assert all(spend["pays_for"] for spend in spends), [spend["name"] for spend in spends]
    assert ("trips" in [spend["name"] for spend in spends]) == ("trips" not in bound)
    json.dumps(mechanism.describe(), allow_nan=False)
