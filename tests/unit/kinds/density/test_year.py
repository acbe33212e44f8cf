"""Shares of a year's budget add up to no more than the year, and read as the conversion says."""

from datetime import date

import pytest

from shoal.errors import PlanError
from shoal.kinds.density.year import YearPlan, to_toml, week_settings, windows
from shoal.privacy.accounting import GDP, NANO, ZCDP, delta_for, epsilon_for, rho_for


@pytest.mark.parametrize("law", [GDP, ZCDP])
@pytest.mark.parametrize(("epsilon", "delta", "releases"), [(1.0, 1e-6, 52), (4.0, 1e-9, 7), (0.1, 1e-6, 3)])
def test_all_shares_together_stay_within_the_year(epsilon, delta, releases, law):
    year = YearPlan(releases=releases, epsilon=epsilon, delta=delta, law=law)
    spent = year.share_nano * releases
    assert delta_for(spent / NANO, epsilon, law) <= delta
    assert spent > rho_for(epsilon, delta, law) - releases  # nothing but rounding is left over
    assert delta_for(year.share_nano / NANO, year.epsilon_each, law) <= delta


def test_a_year_is_counted_by_the_exact_curve_unless_told_otherwise():
    assert YearPlan(releases=52, epsilon=4.0, delta=1e-6).counted_by == GDP


def test_a_delta_too_small_for_the_drawn_noise_is_counted_under_zcdp():
    year = YearPlan(releases=52, epsilon=4.0, delta=1e-20)
    assert year.whole_nano == rho_for(4.0, 1e-20, ZCDP)
    assert YearPlan(releases=52, rho=0.09, delta=1e-20).epsilon_year == epsilon_for(90_000_000, 1e-20, ZCDP)


def test_adding_up_epsilons_allows_less_and_the_whole_each_time_is_too_much():
    shares, naive, whole = YearPlan(releases=52, epsilon=4.0, delta=1e-6).ways()
    assert shares.noise == 1.0
    assert naive.noise == pytest.approx((shares.rho_each_nano / rho_for(4 / 52, 1e-6 / 52, GDP)) ** 0.5)
    assert naive.noise > 5
    assert naive.within
    assert not whole.within
    assert whole.epsilon_year > 10 * 4.0 > shares.epsilon_year


def test_a_rho_is_shared_as_it_is():
    year = YearPlan(releases=3, rho=0.3, delta=1e-6)
    assert (year.whole_nano, year.share_nano) == (300_000_000, 100_000_000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"releases": 0, "epsilon": 1.0},
        {"epsilon": None},
        {"epsilon": 1.0, "rho": 1.0},
        {"epsilon": 1.0, "delta": 0.0},
        {"rho": 1e-9, "releases": 2},
    ],
)
def test_bad_years_are_refused(wrong):
    with pytest.raises(PlanError):
        YearPlan(**wrong)


def test_windows_touch_and_do_not_overlap():
    found = windows(date(2026, 3, 2), 3, 4)
    assert found == [("2026-03-02", "2026-03-30"), ("2026-03-30", "2026-04-27"), ("2026-04-27", "2026-05-25")]


def test_a_week_plan_has_its_share_and_no_epsilon():
    base = {"epsilon": 1.0, "delta": 1e-5, "method": "laplace", "window": {"time_zone": "UTC"}, "out": "x"}
    made = week_settings(base, rho_nano=5, delta=1e-6, window=("2026-03-02", "2026-03-09"))
    assert made["rho"] == 5e-9
    assert "epsilon" not in made
    assert "delta" not in made  # laplace is pure
    assert made["window"] == {"time_zone": "UTC", "start": "2026-03-02", "end": "2026-03-09"}
    assert made["out"] == "x-2026-03-02"
    assert (
        week_settings({**base, "method": "gaussian"}, rho_nano=5, delta=1e-6, window=("a", "b"))["delta"]
        == 1e-6
    )


def test_plans_written_as_toml_read_back_the_same():
    import tomllib

    told = {
        "rho": 5e-09,
        "licence": 'a "quoted" \\ thing\twith tab',
        "nights": False,
        "source": {"paths": ["a b.csv", "ü"], "columns": {"user": "the user", "time": "t"}},
        "space": {"box": [2.25, 48.81, 2.42, 48.91], "h3": None},
    }
    read = tomllib.loads(to_toml(told))
    del told["space"]["h3"]
    assert read == told
