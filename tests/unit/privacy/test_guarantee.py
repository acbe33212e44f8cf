"""The promise in numbers and words, and the unit it is made for."""

import math
from decimal import Decimal

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.privacy import guarantee
from shoal.privacy.accounting import NANO, Loss, epsilon_for
from shoal.privacy.guarantee import Guarantee, Unit


def test_a_loss_promises_its_epsilon_and_the_delta_it_needs():
    promise = Guarantee.of(Loss.pure(NANO), delta=1e-6, unit=Unit())
    assert (promise.epsilon, promise.delta) == (1.0, 0.0)
    promise = Guarantee.of(Loss(24_000_000), delta=1e-6, unit=Unit())
    assert promise.epsilon == epsilon_for(24_000_000, 1e-6)
    assert promise.delta == 1e-6
    epsilon = repr(promise.epsilon)
    assert promise.sentence.startswith(
        "For any set of possible outputs, adding or removing one user changes its probability by at most a "
        f"factor of e^{epsilon} (epsilon = {epsilon}), plus delta = 0.000001. An adversary"
    )
    with pytest.raises(ValueError, match="needs a delta"):
        Guarantee.of(Loss(1000), delta=None, unit=Unit())


@for_each(("epsilon", "delta"), [(0.1, 0), (1.0, 1e-6), (1.0, 0.1), (3.5, 1e-3), (12.0, 0)])
def test_even_odds_are_those_of_the_trade_off_function(epsilon, delta):
    """Brute force over type I errors, and over the sets of outputs of the pair that attains the bound."""
    alpha = np.linspace(0, 1, 2_000_001)
    e = math.exp(epsilon)
    beta = np.maximum(0, np.maximum(1 - delta - e * alpha, (1 - delta - alpha) / e))
    best = 1 - ((alpha + beta) / 2).min()
    worst = [delta, (1 - delta) * e / (1 + e), (1 - delta) / (1 + e), 0.0]
    sets = [[i for i in range(4) if mask >> i & 1] for mask in range(16)]
    attained = max((1 + sum(worst[i] - worst[3 - i] for i in each)) / 2 for each in sets)
    claimed = float(guarantee.largest_accuracy(epsilon, delta))
    assert best == pytest.approx(attained, abs=1e-6)
    assert attained - 1e-12 <= claimed < attained + 1e-4


def test_extreme_promises_and_those_of_the_first_version_are_written_out():
    assert guarantee.largest_accuracy(1e9, 0.0) == 1
    assert guarantee.largest_accuracy(1e-9, 0.0) == Decimal("0.5001")
    assert guarantee.largest_accuracy(1e-9, 0.5) == Decimal("0.7501")
    assert "(epsilon = 1). An adversary" in guarantee.promise(1, 0, "trip")
    assert "e (epsilon = 1), plus delta = 1e-12." in guarantee.promise(1, 1e-12, "trip")
    assert "delta = 0.00000123." in guarantee.promise(1, 1.23e-6, "trip")
    assert "is right at most 75.8 % of" in guarantee.promise(1, 0.1, "trip")
    assert guarantee.promise(0.5, 1e-6, "user", 1) == (
        "Adding or removing one user changes the probability of any output by a factor of at most e^0.5, "
        "but for a chance of 1e-06."
    )


def test_the_manifest_says_the_same_and_another_unit_is_never_called_a_user():
    promise = Guarantee.of(Loss(24_000_000), delta=1e-6, unit=Unit("vehicle-day"))
    assert promise.to_manifest() == {
        "kind": "differential privacy",
        "epsilon": promise.epsilon,
        "delta": 1e-6,
        "rho": 0.024,
        "unit": "vehicle-day",
        "neighbours": "add or remove one vehicle-day",
        "promise_version": 2,
    }
    assert "one vehicle-day" in promise.sentence
    assert "user" not in promise.sentence
    assert "not a person" in Unit("trip", "journey").sentence
    assert "user" not in Unit("trip", "journey").sentence


@for_each("name", ["", "   ", "\t", "user\n", "a\nb"])
def test_a_unit_has_a_name_on_one_line(name):
    with pytest.raises(PlanError, match="unit-name"):
        Unit(name)
