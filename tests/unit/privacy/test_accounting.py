"""Losses add up, conversions are tight and never cheaper than they should be, bad numbers are refused."""

import doctest
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opendp.combinators import make_zCDP_to_approxDP
from opendp.domains import atom_domain
from opendp.measurements import make_gaussian
from opendp.metrics import absolute_distance
from opendp.mod import enable_features
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.privacy import accounting
from shoal.privacy.accounting import (
    NANO,
    Loss,
    ceil_nano,
    check_delta,
    check_epsilon,
    compose,
    delta_for,
    epsilon_for,
    nano,
    rho_for,
)

RHOS = [10**3, 10**6, 24_355_970, 10**8, 10**9, 10**10]
DELTAS = [1e-12, 1e-9, 1e-6, 1e-3]


def best_delta(rho, epsilon):
    """The infimum over Renyi orders, in 40 digits, by setting the derivative of log delta to zero."""
    with mpmath.workdps(40):
        rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)

        def log_delta(a):
            return (a - 1) * (a * rho - epsilon) - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a)

        def slope(a):
            return (2 * a - 1) * rho - epsilon + mpmath.log(1 - 1 / a)

        low, high = mpmath.mpf(1) + mpmath.mpf(10) ** -9, mpmath.mpf(10) ** 9
        for _ in range(200):
            middle = mpmath.sqrt((low - 1) * (high - 1)) + 1
            low, high = (low, middle) if slope(middle) > 0 else (middle, high)
        return mpmath.exp(log_delta(high))


@for_each("rho_nano", RHOS)
@for_each("factor", [2.0, 5.0])
def test_delta_is_the_best_over_all_orders_and_never_below(rho_nano, factor):
    rho = rho_nano / NANO
    epsilon = rho + factor * math.sqrt(2 * rho)
    exact = best_delta(rho, epsilon)
    assert exact <= delta_for(rho, epsilon) <= exact * (1 + 1e-6)


@for_each("rho_nano", RHOS)
@for_each("delta", DELTAS)
def test_epsilon_agrees_with_opendp(rho_nano, delta):
    enable_features("contrib")
    sigma = math.sqrt(NANO / (2 * rho_nano))
    gaussian = make_gaussian(atom_domain(T="i64"), absolute_distance(T="i64"), scale=sigma)
    theirs = make_zCDP_to_approxDP(gaussian).map(1).epsilon(delta)
    ours = epsilon_for(rho_nano, delta)
    assert theirs * (1 - 1e-9) <= ours <= theirs * (1 + 1e-9) + 2e-9


@for_each("rho_nano", RHOS)
@for_each("delta", DELTAS)
def test_epsilon_is_never_cheaper_than_the_exact_conversion(rho_nano, delta):
    assert best_delta(mpmath.mpf(rho_nano) / NANO, epsilon_for(rho_nano, delta)) <= delta


@for_each("epsilon", [0.01, 0.1, 0.5, 1.0, 4.0, 20.0])
@for_each("delta", DELTAS)
def test_rho_is_the_largest_that_fits(epsilon, delta):
    rho_nano = rho_for(epsilon, delta)
    assert best_delta(mpmath.mpf(rho_nano) / NANO, epsilon) <= delta
    assert best_delta(mpmath.mpf(rho_nano + max(2, rho_nano // 10**6)) / NANO, epsilon) > delta


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**11), st.integers(1, 10**9), st.sampled_from(DELTAS))
def test_more_rho_is_never_less_epsilon(rho_nano, more, delta):
    assert epsilon_for(rho_nano, delta) <= epsilon_for(rho_nano + more, delta)


@settings(max_examples=30, deadline=None)
@given(st.integers(1000, 10**11), st.floats(1e-12, 0.1))
def test_smaller_delta_is_never_less_epsilon(rho_nano, delta):
    assert epsilon_for(rho_nano, delta) <= epsilon_for(rho_nano, delta / 2)


def test_nothing_costs_nothing():
    assert epsilon_for(0, 1e-6) == 0.0
    assert delta_for(0, 1.0) == 0.0
    assert compose([]) == Loss(0, 0)


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_ceil_nano_rounds_up_by_less_than_one(numerator, denominator):
    amount = Fraction(numerator, denominator)
    assert 0 <= Fraction(ceil_nano(amount), NANO) - amount < Fraction(1, NANO)


@given(st.integers(1, 10**12))
def test_pure_loss_costs_half_its_square_rounded_up(epsilon_nano):
    loss = Loss.pure(epsilon_nano)
    exact = Fraction(epsilon_nano, NANO) ** 2 / 2
    assert 0 <= Fraction(loss.rho_nano, NANO) - exact < Fraction(1, NANO)
    assert loss.epsilon(1e-6) == epsilon_nano / NANO


def test_a_year_of_weeks_costs_sqrt_52_not_52():
    week = Loss(rho_for(0.1, 1e-6))
    year = compose([week] * 52)
    assert year.rho_nano == 52 * week.rho_nano
    assert 0.1 * math.sqrt(52) < year.epsilon(1e-6) < 0.1 * math.sqrt(52) * 1.2


def test_pure_parts_stay_pure_until_one_is_not():
    pure = Loss.pure(nano("0.5")) + Loss.pure(nano("0.25"))
    assert pure.pure_epsilon_nano == 750_000_000
    assert pure.epsilon(1e-6) == 0.75
    mixed = pure + Loss(1000)
    assert mixed.pure_epsilon_nano is None
    assert mixed.rho_nano == pure.rho_nano + 1000
    assert mixed.epsilon(1e-6) == epsilon_for(mixed.rho_nano, 1e-6)


@for_each(
    ("given", "expected"),
    [("1", NANO), (0.1, 10**8), ("0.1234567899", 123_456_789), (Decimal("1e-9"), 1), (2, 2 * NANO)],
)
def test_nano_rounds_down(given, expected):
    assert nano(given) == expected


BAD = [float("nan"), float("inf"), -float("inf"), 0, -1, 0.0, -1e-300]


@for_each("bad", [*BAD, "nan", "Infinity", "", "one", "1e-10", 1e10, None, True, False])
def test_nano_refuses(bad):
    with pytest.raises(PlanError, match="amount-range"):
        nano(bad)


@for_each("bad", [*BAD, "1", "x", None, True, False, [1]])
def test_epsilon_refuses(bad):
    with pytest.raises(PlanError, match="epsilon-range"):
        check_epsilon(bad)


@for_each("bad", [*BAD, 1, 1.0, 2, "1e-6", None, True, False])
def test_delta_refuses(bad):
    with pytest.raises(PlanError, match="delta-range"):
        check_delta(bad)


def test_conversions_refuse_what_the_checks_refuse():
    for bad in (float("nan"), 0, 1, True):
        with pytest.raises(PlanError, match="delta-range"):
            epsilon_for(10**6, bad)
        with pytest.raises(PlanError, match="delta-range"):
            rho_for(1.0, bad)
    with pytest.raises(PlanError, match="epsilon-range"):
        rho_for(float("nan"), 1e-6)
    with pytest.raises(PlanError, match="amount-range"):
        epsilon_for(-1, 1e-6)


def test_an_epsilon_that_buys_nothing_is_refused():
    with pytest.raises(PlanError, match="buys less"):
        rho_for(1e-9, 1e-12)


def test_doctest():
    results = doctest.testmod(accounting)
    assert (results.attempted > 0, results.failed) == (True, 0)
