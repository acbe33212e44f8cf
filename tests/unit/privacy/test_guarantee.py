"""The promise in numbers and words, and the unit it is made for."""

import doctest

import pytest

from shoal.errors import PlanError
from shoal.privacy import guarantee, unit
from shoal.privacy.accounting import NANO, Loss, epsilon_for
from shoal.privacy.guarantee import Guarantee
from shoal.privacy.unit import Unit


def test_a_pure_loss_promises_delta_zero_whatever_was_asked():
    promise = Guarantee.of(Loss.pure(NANO), delta=1e-6, unit=Unit())
    assert (promise.epsilon, promise.delta) == (1.0, 0.0)


def test_an_approximate_loss_promises_the_converted_epsilon():
    promise = Guarantee.of(Loss(24_000_000), delta=1e-6, unit=Unit())
    assert promise.epsilon == epsilon_for(24_000_000, 1e-6)
    assert promise.delta == 1e-6
    assert "but for a chance of 1e-06" in promise.sentence


def test_an_approximate_loss_needs_a_delta():
    with pytest.raises(ValueError, match="needs a delta"):
        Guarantee.of(Loss(1000), delta=None, unit=Unit())


def test_the_manifest_says_the_same_as_the_object():
    promise = Guarantee.of(Loss(24_000_000), delta=1e-6, unit=Unit("vehicle-day"))
    assert promise.to_manifest() == {
        "kind": "differential privacy",
        "epsilon": promise.epsilon,
        "delta": 1e-6,
        "rho": 0.024,
        "unit": "vehicle-day",
        "neighbours": "add or remove one vehicle-day",
    }
    assert "one vehicle-day" in promise.sentence
    assert "user" not in promise.sentence


@pytest.mark.parametrize("name", ["", "   ", "\t", "user\n", "a\nb"])
def test_a_unit_has_a_name_on_one_line(name):
    with pytest.raises(PlanError, match="unit-name"):
        Unit(name)


def test_another_unit_is_never_called_a_user_or_a_person():
    assert "not a person" in Unit("trip", "journey").sentence
    assert "user" not in Unit("trip", "journey").sentence


@pytest.mark.parametrize("module", [guarantee, unit])
def test_doctests(module):
    results = doctest.testmod(module)
    assert (results.attempted > 0, results.failed) == (True, 0)
