"""Errors said before a run hold on cities that the constants were not fitted on."""

from dataclasses import asdict

import pytest

from shoal.kinds.density.compare import compare, simulated_world
from shoal.kinds.density.plan import METHODS, ComparePlan, DensityPlan, MethodOptions
from shoal.kinds.density.verdict import FITS, expected_methods, mean_count, methods_table
from shoal.privacy.accounting import GDP, rho_for

USERS = 6000
MEASURED = ("efpag", "gaussian", "laplace")


def plan(**changes):
    settings = {
        "population": "p",
        "source": {"paths": ["x"]},
        "space": {"box": (0, 0, 1, 1), "cell_m": 1000.0},
        "window": {"start": "2026-03-02", "end": "2026-03-09", "time_zone": "Europe/Paris"},
        "users": USERS,
        **changes,
    }
    return DensityPlan.from_settings(settings)


@pytest.fixture(scope="module")
def world():
    return simulated_world({}, city="town", users=USERS, seed=99)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_expected_errors_are_near_the_simulated_ones(world, epsilon):
    setting = world.counting.setting
    told = {each.method: each for each in expected_methods(plan(epsilon=epsilon), setting)}
    assert set(told) == set(METHODS)
    asked = ComparePlan(
        methods=MEASURED,
        epsilons=(epsilon,),
        repetitions=1,
        seed=4,
        options=MethodOptions(users=USERS),
        emd_slots=0,
    )
    for run in compare(world.counting, asked).runs:
        ratio = told[run.method].error_people / run.mae
        assert 1 / 1.6 < ratio < 1.6, (run.method, ratio)


def test_without_declared_users_only_the_noise_is_said(world):
    told = expected_methods(plan(epsilon=1.0, users=None), world.counting.setting)
    assert all(each.error_people is None for each in told)
    assert {each.method for each in told if each.noise_people is not None} >= {"gaussian", "laplace", "fpa"}


def test_the_declared_mean_count_is_near_the_simulated_one(world):
    people = world.counting.people()
    assert mean_count(USERS, world.counting.setting) == pytest.approx(people.mean(), rel=0.15)


def test_declared_visits_set_the_expected_error(world):
    """A fleet is seen far more often than simulated people, so the same noise is a smaller share."""
    setting = world.counting.setting
    usual, fleet = (
        {each.method: each for each in expected_methods(plan(epsilon=1.0, **more), setting)}
        for more in ({}, {"visits_per_user": 886})
    )
    assert plan(epsilon=1.0, visits_per_user=886).visits_per_user == 890
    assert mean_count(USERS, setting, 890.0) == pytest.approx(890 / 13.59 * mean_count(USERS, setting))
    assert all(fleet[name].error_share < usual[name].error_share for name in FITS if name in usual)
    assert "890 visits per user and week, as declared" in below(
        plan(epsilon=1.0, visits_per_user=886), setting
    )
    assert "13.59 visits per user and week" in below(plan(epsilon=1.0), setting)


def below(given, setting):
    return methods_table(given, setting, [asdict(each) for each in expected_methods(given, setting)]).below


def test_more_budget_and_more_people_never_look_worse(world):
    setting = world.counting.setting
    for name, fit in FITS.items():
        assert fit.power > 0, name
    shares = [
        {each.method: each.error_share for each in expected_methods(plan(**given), setting)}
        for given in ({"epsilon": 0.1}, {"epsilon": 1.0}, {"epsilon": 1.0, "users": 10 * USERS})
    ]
    for name in FITS:
        assert shares[0][name] >= shares[1][name] >= shares[2][name]


def test_other_methods_are_shown_at_the_same_price():
    by_rho = plan(rho=0.02)
    assert by_rho.budget(METHODS["gaussian"]).left == 20_000_000
    assert by_rho.budget(METHODS["laplace"]).left == int(0.2 * 10**9)
    pure = plan(epsilon=0.5, method="laplace")
    assert pure.budget(METHODS["gaussian"]).left == rho_for(0.5, 1e-6, GDP)
    assert pure.budget(METHODS["laplace"]).left == 500_000_000
