"""A budget is split by name and never exceeded."""

import doctest
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.privacy import accounting as module
from shoal.privacy.accounting import NANO, Allowance, Budget, Loss, rho_for


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
    assert Budget.of(1.0, 1e-6).left == rho_for(1.0, 1e-6)
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
        (Allowance("a", 100, False), Loss(100), True),
        (Allowance("a", 100, False), Loss(101), False),
        (Allowance("a", NANO, True), Loss.pure(NANO), True),
        (Allowance("a", NANO, True), Loss.pure(NANO + 1), False),
        (Allowance("a", NANO, True), Loss(1), False),  # not pure, however small
        (Allowance("a", NANO // 2, False), Loss.pure(NANO), True),  # pure is zCDP, too
    ],
)
def test_an_allowance_covers_a_loss_in_its_own_currency(allowance, loss, covered):
    assert allowance.covers(loss) is covered


def test_a_pure_mechanism_cannot_take_rho():
    with pytest.raises(PlanError, match="not-pure"):
        _ = Allowance("a", 100, False).epsilon_nano
    assert Allowance("a", NANO, True).rho_nano == NANO // 2


def test_doctest():
    results = doctest.testmod(module)
    assert (results.attempted > 0, results.failed) == (True, 0)
