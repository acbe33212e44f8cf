"""Losses add up, conversions are tight and never cheaper than they should be; a budget is split by name."""

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
from shoal.privacy.accounting import (
    GDP,
    NANO,
    ZCDP,
    Allowance,
    Budget,
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
    assert compose([]) == Loss(0, 0, 0)


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


def test_an_epsilon_too_small_for_any_rho_is_refused():
    with pytest.raises(PlanError, match="allows less"):
        rho_for(1e-9, 1e-12)


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=8), st.booleans())
def test_shares_are_of_what_is_left_and_never_more_than_the_whole(shares, pure):
    budget = whole = Budget(10**9, pure)
    taken = 0
    for i, share in enumerate(shares):
        if int(budget.left * Fraction(share)) == 0:
            break
        left = budget.left
        allowance, budget = budget.take(f"step {i}", share)
        assert allowance.amount == int(left * Fraction(share))
        taken += allowance.amount
        assert budget.left == whole.left - taken >= 0


def test_taking_leaves_the_first_budget_as_it_was():
    budget = Budget.pure_epsilon(1.0)
    budget.take("a", 1)
    assert budget.left == NANO
    assert budget.taken == ()


def test_approximate_budget_is_what_epsilon_and_delta_buy():
    assert Budget.of(1.0, 1e-6).left == rho_for(1.0, 1e-6, GDP)
    assert Budget.of(1.0, 1e-6, ZCDP).left == rho_for(1.0, 1e-6)
    assert not Budget.of(1.0, 1e-6).pure
    assert Budget.of(0.5, None) == Budget(NANO // 2, True)


@for_each("share", [0, -0.1, 1.0000001, 2])
def test_shares_out_of_range_are_refused(share):
    with pytest.raises(PlanError, match="share-range"):
        Budget(10**9, False).take("a", share)


def test_a_name_is_taken_once():
    _, budget = Budget(10**9, False).take("totals", 0.5)
    with pytest.raises(PlanError, match="share-name"):
        budget.take("totals", 0.5)


def test_nothing_left_is_refused():
    _, budget = Budget(10**9, False).take("all", 1)
    with pytest.raises(PlanError, match="share-empty"):
        budget.take("more", 1)
    with pytest.raises(PlanError, match="share-empty"):
        Budget(10, False).take("tiny", 0.05)


@for_each("epsilon", [0, -1, float("nan"), float("inf"), True, "1", None])
def test_bad_epsilon_is_refused(epsilon):
    for delta in (None, 1e-6):
        with pytest.raises(PlanError, match="epsilon-range"):
            Budget.of(epsilon, delta)


@for_each("delta", [0, 1, 1.5, -1e-6, float("nan"), True, "1e-6"])
def test_bad_delta_is_refused(delta):
    with pytest.raises(PlanError, match="delta-range"):
        Budget.of(1.0, delta)


@for_each(
    ("allowance", "loss", "covered"),
    [
        (Allowance("a", 100, False, ZCDP), Loss(100), True),
        (Allowance("a", 100, False, ZCDP), Loss(101), False),
        (Allowance("a", 100, False), Loss(100), False),  # a part of it has no mu
        (Allowance("a", 100, False), Loss.gaussian(100), True),
        (Allowance("a", 100, False), Loss.gaussian(101), False),
        (Allowance("a", NANO, True), Loss.pure(NANO), True),
        (Allowance("a", NANO, True), Loss.pure(NANO + 1), False),
        (Allowance("a", NANO, True), Loss(1), False),  # not pure, however small
        (Allowance("a", NANO // 2, False, ZCDP), Loss.pure(NANO), True),  # pure is zCDP, too
        (Allowance("a", NANO // 2, False), Loss.pure(NANO), False),  # its mu is larger
        (Allowance("a", 758_955_596, False), Loss.pure(NANO), True),
    ],
)
def test_an_allowance_covers_a_loss_in_its_own_currency(allowance, loss, covered):
    assert allowance.covers(loss) is covered


def test_a_pure_mechanism_cannot_take_rho():
    with pytest.raises(PlanError, match="not-pure"):
        _ = Allowance("a", 100, False).epsilon_nano
    assert Allowance("a", NANO, True).rho_nano == NANO // 2
