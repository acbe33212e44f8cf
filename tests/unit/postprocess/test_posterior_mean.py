"""The likely value against a fine sum."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.mechanisms.trip_totals import posterior_mean_between


@for_each("deviation", [2.0, 20.0, 300.0, 1e4])
@for_each("noisy", [98.0, 100.0, 450.0, 901.0, 300.0])
def test_it_is_the_mean_of_what_can_be(noisy, deviation):
    low, high = 100.0, 900.0
    at = np.linspace(low, high, 400_001)
    chance = (high - at) * np.exp(-(((at - noisy) / deviation) ** 2) / 2)
    assert posterior_mean_between(noisy, deviation, low, high) == pytest.approx(
        float((at * chance).sum() / chance.sum()), abs=0.5
    )


def test_far_beyond_a_bound_it_is_the_bound():
    assert posterior_mean_between(50.0, 2.0, 100.0, 900.0) == 100.0
    assert posterior_mean_between(2000.0, 2.0, 100.0, 900.0) == 900.0


def test_extremes_stay_within_the_bounds():
    for noisy in (-(2.0**60), 2.0**60, 0.0):
        for deviation in (1e-9, 1.0, 1e30):
            assert 5.0 <= posterior_mean_between(noisy, deviation, 5.0, 7.0) <= 7.0
    assert posterior_mean_between(1.0, 1.0, 5.0, 5.0) == 5.0
