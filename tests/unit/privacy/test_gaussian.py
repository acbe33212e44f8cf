"""The exact Gaussian curve, prices of steps under it, and how far the noise drawn is from it; by mpmath."""

import math

import mpmath
import pytest
from mpmath import mpf
from tests.loops import for_each

from shoal.privacy.accounting import (
    GDP,
    NANO,
    SLACK,
    TAU,
    TAU_UNIT,
    ZCDP,
    Budget,
    Loss,
    epsilon_for,
    law_at,
    rho_for,
    slack_fits,
)
from shoal.privacy.gaussian import C, delta_of, mu_of_pure, mu_within, tau

TABLE = {0.1: 36.30469042848, 0.3: 12.99238289556, 1.0: 4.22467888953, 2.0: 2.23047627128, 4.0: 1.19351858720}


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(60):
        yield


def phi(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def exact_delta(mu, epsilon):
    mu, epsilon = mpf(mu), mpf(epsilon)
    return phi(-epsilon / mu + mu / 2) - mpmath.e**epsilon * phi(-epsilon / mu - mu / 2)


@for_each("epsilon", list(TABLE))
def test_the_table_of_sigma_to_a_millionth(epsilon):
    """sigma for sensitivity 1 at delta = 1e-6: of the curve, and of a release, whose rho is whole in 1e-9."""
    sigma = 1 / mpmath.findroot(
        lambda mu: mpmath.log(exact_delta(mu, epsilon) / mpf("1e-6")), 1 / TABLE[epsilon]
    )
    assert float(sigma) == pytest.approx(TABLE[epsilon], rel=1e-9)
    assert 1 / mu_within(epsilon, 1e-6) == pytest.approx(float(sigma), rel=1e-6)
    rho_nano = rho_for(epsilon, 1e-6, GDP)
    assert rho_nano == Budget.of(epsilon, 1e-6).left
    # a millionth of delta is set aside for the slack, and rho is rounded down
    assert float(sigma) <= (2 * rho_nano / NANO) ** -0.5 <= float(sigma) * (1 + 2e-6)
    assert epsilon_for(rho_nano, 1e-6, GDP) <= epsilon


@for_each("mu", [4.5e-5, 1e-3, 0.03, 0.3, 1.0, 3.0, 20.0, 400.0])
def test_the_curve_is_rounded_up_and_by_a_billionth(mu):
    for epsilon in (1e-4, 0.01, 0.3, 1.0, 4.0, 30.0, 300.0, 1e5):
        exact = exact_delta(mu, epsilon)
        if exact > mpf(10) ** -100:
            assert 0 <= mpf(delta_of(mu, epsilon)) / exact - 1 < 1.3e-9


def test_the_curve_is_never_rounded_down():
    """Where epsilon is small and delta tiny, two logarithms nearly cancel."""
    for mu in (4.5e-5, 1e-4, 3e-4, 1e-3, 0.01, 0.1):
        for a in (0.1, 3.3, 7.7, 12.1, 16.9, 19.99, 20.0, 20.6):
            epsilon = mu * (a + mu / 2)
            ratio = mpf(delta_of(mu, epsilon)) / exact_delta(mu, epsilon)
            assert 1 <= ratio < 1 + 4e-7


@for_each("epsilon", [8e-9, 1e-6, 2.87e-4, 9.99e-4, 1.001e-3, 0.01, 0.3, 1.0, 3.0, 12.0, 29.0, 31.0, 200.0])
def test_a_pure_step_has_the_least_mu_that_covers_its_curve(epsilon):
    """Its trade-off curve has its corner at (p, p); that of mu-GDP passes (Phi(-mu / 2), Phi(-mu / 2))."""
    corner = 1 / (1 + mpmath.e ** mpf(epsilon))
    mu = mpf(mu_of_pure(epsilon))
    assert phi(-mu / 2) <= corner
    if epsilon < 30:
        assert phi(-mu * (1 - mpf("3e-8")) / 2) > corner
    assert Loss.pure(round(epsilon * NANO)).gdp_nano <= math.pi / 2 * epsilon**2 / 2 * NANO + 2


def test_a_choice_of_bounded_range_costs_at_most_what_is_charged():
    """Over all pairs of outcomes whose log odds differ by r, the difference of normal quantiles."""
    for r in (0.01, 0.5, 2.0, 6.0):
        largest = mpf(0)
        for i in range(81):
            low = -mpf(r) * i / 40
            p, q = (1 / (1 + mpmath.e**-x) for x in (low + r, low))
            quantiles = [mpmath.sqrt(2) * mpmath.erfinv(2 * each - 1) for each in (p, q)]
            largest = max(largest, quantiles[0] - quantiles[1])
        charged = Loss.choice(math.ceil(r * r / 8 * NANO)).gdp_nano
        assert largest**2 / 2 * NANO <= charged


def test_the_slope_of_the_quantile_falls():
    """The numerical step of the proof: l^2 + m^2 >= 1 + x^2, below 1 / sqrt(3) and above."""
    for i in range(400):
        x = mpf(i) / 100
        density = mpmath.npdf(x)
        squares = [(density / phi(sign * x)) ** 2 for sign in (-1, 1)]
        assert sum(squares) >= 1 + x * x
        if x <= 1 / mpmath.sqrt(3):
            assert 3 * x / (mpmath.sqrt(x * x + 8) + x) + squares[1] >= mpf("0.5")


def chi_squared(sigma):
    """Of the rounded normal against the discrete Gaussian, over the whole lattice."""
    s = mpf(sigma)
    weight = {n: mpmath.e ** (-(mpf(n) ** 2) / (2 * s * s)) for n in range(int(15 * sigma) + 15)}
    total = weight[0] + 2 * mpmath.fsum(weight[n] for n in weight if n)
    chi = mpf(0)
    for n, each in weight.items():
        p, r = each / total, phi((n + mpf("0.5")) / s) - phi((n - mpf("0.5")) / s)
        chi += (1 if n == 0 else 2) * (r - p) ** 2 / p
    return chi


@for_each("sigma", [16, 19.5, 40])
def test_the_bound_on_c_holds_and_is_near(sigma):
    scaled = chi_squared(sigma) * mpf(sigma) ** 4
    assert mpf(1) / 288 < scaled < mpf(C) < mpf(1) / 280
    assert tau(sigma, 1) >= mpmath.sqrt(chi_squared(sigma)) / 2


def test_the_last_line_of_the_proof():
    def side(k):
        return (
            (3 + mpmath.e ** (k / 2) * (k * k + 6 * k + 3)) / 2
            - 2 * mpmath.e ** (-k / 8) * (1 - 3 * k / 80)
            + 1
        )

    values = [side(mpf(i) / 256 / 200) for i in range(201)]
    assert values == sorted(values)
    assert values[-1] < mpf("2.0161")
    assert mpf("2.0161") / 576 < mpf(C)


def test_tau_adds_over_cells_like_a_root_and_never_passes_one():
    assert tau(2.0**52, 2**40) * TAU_UNIT <= TAU < 2000
    assert tau(100.0, 10_000) == pytest.approx(100 * tau(100.0, 1), rel=1e-3)
    assert tau(15.9, 1) == tau(16.0, 10**30) == 1.0
    assert (1 + math.e) * tau(4.5 * 2**20, 10**6) == pytest.approx(5e-12, rel=0.02)


def test_the_slack_is_part_of_what_is_promised():
    """The curve and the slack together stay within delta; where they could not, the law is zCDP."""
    for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-6), (4.0, 1e-9), (10.0, 1e-12)):
        budget = Budget.of(epsilon, delta)
        loss = Loss.gaussian(budget.left)
        slack = (1 + mpmath.e ** mpf(epsilon)) * loss.tau / mpf(10) ** 30
        assert 0 < slack < SLACK * delta
        mu = mpmath.sqrt(mpf(2 * budget.left) / NANO)
        assert exact_delta(mu, epsilon) + slack <= mpf(delta)
    for epsilon, delta in ((1.0, 1e-20), (30.0, 1e-6), (1e4, 1e-6)):
        assert law_at(epsilon, delta) == Budget.of(epsilon, delta).law == ZCDP
        assert Budget.of(epsilon, delta).left == rho_for(epsilon, delta)
    assert not slack_fits(10**20, 1.0, 1e-6)
    forgotten = Loss.gaussian(10**6) + Loss(0, None, 0, 10**25)
    assert forgotten.law_for(1e-6) == ZCDP
    assert forgotten.epsilon(1e-6) == epsilon_for(10**6, 1e-6)
