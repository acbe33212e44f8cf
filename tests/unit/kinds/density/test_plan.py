"""Every method keeps the contract: it builds within its budget, says its spends and words, and finishes."""

import json
from pathlib import Path

import numpy as np
import pytest

from shoal.engine.engine import DuckEngine
from shoal.errors import GuaranteeError, PlanError
from shoal.kinds.density.build import stage_for
from shoal.kinds.density.compare import simulated_world
from shoal.kinds.density.plan import (
    COMPARATORS,
    METHODS,
    PAYS_FOR,
    DensityPlan,
    MethodOptions,
    any_method,
    method_named,
)
from shoal.kinds.describe import check_spends, spends_of
from shoal.privacy.accounting import Budget, Loss, compose
from shoal.privacy.noise import SeededNoise

OPTIONS = MethodOptions(users=300)


@pytest.fixture(scope="module")
def world():
    """A day of a tiny town on a coarse grid: 300 users."""
    settings = {
        "space": {"box": (2.25, 48.81, 2.42, 48.91), "cell_m": 3000.0},
        "window": {"start": "2026-03-02", "end": "2026-03-03", "time_zone": "Europe/Paris"},
    }
    return simulated_world(settings, users=300, seed=2, engine=DuckEngine(threads=1))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_spends_its_budget_and_no_more(world, name):
    method = METHODS[name]
    budget = Budget.of(0.7, None if method.pure else 1e-6)
    mechanism = method.build(budget, world.counting.setting, OPTIONS)
    check_spends(mechanism, budget)
    loss = mechanism.loss()
    assert compose(spend for _, spend in mechanism.spends()) == loss
    spent = loss.pure_epsilon_nano if method.pure else loss.gdp_nano
    assert 0.99 * budget.left < spent <= budget.left
    price = "epsilon" if method.pure else "rho"
    assert all({"name", "mechanism", price} <= set(each) for each in spends_of(mechanism, {}))
    with pytest.raises(GuaranteeError):
        check_spends(mechanism, Budget(budget.left * 9 // 10, budget.pure))


@pytest.mark.parametrize("name", METHODS)
def test_every_spend_says_what_it_pays_for(world, name):
    method = METHODS[name]
    budget = Budget.of(0.7, None if method.pure else 1e-6)
    page = (Path(__file__).parents[4] / "docs" / "methods.md").read_text("utf-8")
    for each in spends_of(method.build(budget, world.counting.setting, MethodOptions()), PAYS_FOR):
        assert each["pays_for"]
        assert f"| {each['name']} | {each['pays_for']} |" in page  # the page has the words of the code


@pytest.mark.parametrize("name", {**METHODS, **COMPARATORS})
def test_a_method_gives_people_in_intervals(world, name):
    method, setting = any_method(name), world.counting.setting
    budget = Budget.of(1.0, None if method.pure else 1e-6)
    mechanism = method.build(budget, setting, OPTIONS)
    noisy = mechanism(stage_for(mechanism, world.counting, setting, OPTIONS), SeededNoise(3))
    made = method.finish(noisy, setting, OPTIONS)
    for values in (made.people, made.low, made.high):
        assert values.shape == (setting.zones, setting.slots)
        assert np.isfinite(values).all()
    assert (made.low >= 0).all()
    assert ((made.low <= made.people) & (made.people <= made.high)).all()
    if method.sound:
        json.dumps(dict(mechanism.describe()))
        points = mechanism.reading()
        assert len(points) > 2
        assert all(30 < len(point) < 500 and point.endswith(".") for point in points)
    else:
        assert not hasattr(mechanism, "loss")
        assert mechanism.user_epsilon() > 0
        assert mechanism.true_guarantee().endswith(".")


def test_names_do_not_clash_and_comparators_cannot_be_planned():
    assert not set(METHODS) & set(COMPARATORS)
    assert all(method.sound for method in METHODS.values())
    assert not any(method.sound for method in COMPARATORS.values())
    for name in COMPARATORS:
        with pytest.raises(PlanError, match="comparison only"):
            method_named(name)
    with pytest.raises(PlanError, match="no method"):
        any_method("magic")


def test_a_mechanism_that_hides_a_spend_is_refused():
    class Sly:
        name, takes = "sly", "counts"

        def loss(self):
            return Loss.gaussian(100)

        def spends(self):
            return (("counts", Loss.gaussian(60)),)

        def __call__(self, exact, noise):
            raise AssertionError

    with pytest.raises(GuaranteeError, match="add up"):
        check_spends(Sly(), Budget(100, pure=False))


def plan(**changes):
    from shoal.events.schema import SourcePlan
    from shoal.kinds.plan import WindowPlan
    from shoal.space.plan import SpacePlan

    given = {
        "population": "p",
        "epsilon": 1.0,
        "source": SourcePlan(paths=("x",)),
        "space": SpacePlan(box=(0, 0, 1, 1), cell_m=1000.0),
        "window": WindowPlan(start="2026-03-02", end="2026-03-03", time_zone="UTC"),
    }
    return DensityPlan(**{**given, **changes})


@pytest.mark.parametrize("name", METHODS)
def test_pure_methods_take_no_delta_and_others_have_one(name):
    pure = METHODS[name].pure
    assert plan(method=name).delta == (None if pure else 1e-6)
    assert plan(method=name).budget().pure == pure
    if pure:
        with pytest.raises(PlanError, match="pure"):
            plan(method=name, delta=1e-6)


def test_a_price_is_an_epsilon_or_a_rho():
    assert plan(epsilon=None, rho=0.25).budget() == Budget(250_000_000, pure=False)
    pure = plan(epsilon=None, rho=0.25, method="laplace").budget()
    assert Loss.pure(pure.left).rho_nano <= 250_000_000 < Loss.pure(pure.left + 1).rho_nano
    for wrong in (
        {"rho": 0.1},
        {"epsilon": None},
        {"epsilon": None, "rho": 0.0},
        {"epsilon": None, "rho": 101.0},
    ):
        with pytest.raises(PlanError):
            plan(**wrong)


@pytest.mark.parametrize("wrong", [{"cap": 0}, {"users": 0}, {"users": 10**12}, {"ell": 0}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(PlanError, match="must be a whole number"):
        plan(**wrong)
