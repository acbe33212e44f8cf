"""Noisy values made likely: right on average, nearer to a known truth than what they are made of."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.postprocess.synthetic.numbers import (
    isotonic,
    prediction,
    residual_variance,
    select_by_mallows_cp,
    shrunk,
)
from shoal.stages.synthetic import NoisyTable

PLACES = 4000


def features_of(chance, places=PLACES):
    """A few busy places and many quiet ones."""
    return chance.gamma(0.5, 20, (places, 3))


def noisy_of(chance, truth, deviation):
    return NoisyTable(truth + chance.normal(0, deviation, truth.size), deviation)


def squared(one, other):
    return float(((one - other) ** 2).mean())


@pytest.mark.parametrize("deviation", [0.5, 5.0])
def test_a_linear_truth_is_predicted_right_on_average(deviation):
    chance = np.random.default_rng(1)
    features = features_of(chance)
    truth = features @ np.array([0.7, 0.0, 0.2])
    told = prediction(noisy_of(chance, truth, deviation), features)
    assert (told >= 0).all()
    assert told.mean() == pytest.approx(truth.mean(), abs=4 * deviation / PLACES**0.5)
    assert squared(told, truth) < 0.1 * deviation**2 + 1.0
    for part in np.array_split(np.argsort(truth), 4):  # busy or quiet
        assert told[part].mean() == pytest.approx(truth[part].mean(), abs=0.5 + 0.1 * deviation)


def test_nothing_is_predicted_where_nothing_is():
    """Features without truth: values of noise alone are predicted to be about 0."""
    chance = np.random.default_rng(2)
    told = prediction(noisy_of(chance, np.zeros(PLACES), 3.0), features_of(chance))
    assert told.max() < 3.0
    assert told.mean() < 0.2


@pytest.mark.parametrize(("b", "c"), [(3.0, 0.0), (0.0, 0.25)])
def test_a_known_scatter_is_found(b, c):
    chance = np.random.default_rng(3)
    expected = chance.gamma(1.0, 20, 20_000)
    truth = expected + chance.normal(0, 1, expected.size) * np.sqrt(b * expected + c * expected**2)
    found = residual_variance(noisy_of(chance, truth, 2.0), expected)
    wide = expected > 5
    known = b * expected + c * expected**2
    assert np.quantile(found[wide] / known[wide], [0.01, 0.99]) == pytest.approx(1, abs=0.15)


def test_no_scatter_is_found_where_there_is_none():
    chance = np.random.default_rng(4)
    expected = chance.gamma(1.0, 20, 20_000)
    noisy = noisy_of(chance, expected, 3.0)
    assert residual_variance(noisy, expected).mean() < 0.05 * 3.0**2 + 2e-4 * (expected**2).mean()
    assert (residual_variance(noisy, expected) > 0).all()


@pytest.mark.parametrize("spread", [0.2, 1.0, 4.0])
def test_likely_is_nearer_than_the_noisy_and_than_the_expected(spread):
    """Scatter from far below the noise to far above it."""
    chance = np.random.default_rng(5)
    expected = chance.gamma(2.0, 5, 20_000)
    truth = expected + chance.normal(0, 1, expected.size) * spread * np.sqrt(expected)
    noisy = noisy_of(chance, truth, 3.0)
    found = squared(shrunk(noisy, expected), truth)
    assert found < 0.98 * squared(noisy.values, truth)
    assert found < 0.98 * squared(expected, truth) + 0.02
    variance = spread**2 * expected  # the best there is, if scatter were known
    best = expected + variance / (variance + 9.0) * (noisy.values - expected)
    assert found < 1.05 * squared(best, truth) + 0.02


def test_a_scatter_that_is_said_is_followed():
    chance = np.random.default_rng(6)
    expected = np.full(10, 5.0)
    noisy = NoisyTable(expected + chance.normal(0, 1, 10), 1.0)
    assert shrunk(noisy, expected, 100.0) == pytest.approx(noisy.values, abs=1e-4)
    assert shrunk(noisy, expected, 1e-4) == pytest.approx(expected, abs=1e-4)
    # a fifth of 5 is as large as the noise: half way
    assert shrunk(noisy, expected, 0.2) == pytest.approx((noisy.values + expected) / 2)


def test_the_better_prediction_is_picked():
    chance = np.random.default_rng(7)
    truth = chance.gamma(1.0, 20, 2000)
    noisy = noisy_of(chance, truth, 5.0)
    poor = np.ones(2000)
    assert select_by_mallows_cp(noisy, poor, truth, 12) is truth
    simple = select_by_mallows_cp(noisy, truth / 7, truth + chance.normal(0, 3, 2000), 12)  # scaled to fit
    assert simple == pytest.approx(truth, rel=0.05)


def test_what_fits_only_noise_is_not_picked():
    """Rich predictions that learnt ten numbers from noise: they fit better and are not taken."""
    chance = np.random.default_rng(8)
    truth = chance.gamma(1.0, 20, 500)
    taken = 0
    for _ in range(50):
        noisy = noisy_of(chance, truth, 5.0)
        shapes = chance.normal(0, 1, (500, 10))
        fit = shapes @ np.linalg.lstsq(shapes, noisy.values - truth, rcond=None)[0]
        assert squared(noisy.values, truth + fit) < squared(noisy.values, truth)
        rich = truth + fit
        taken += select_by_mallows_cp(noisy, truth, rich, 10) is rich
    assert taken <= 10  # by chance, a few


@for_each("seed", range(5))
@for_each("places", [3, 41, 3000])
def test_the_curve_rises_and_is_never_below_zero(places, seed):
    chance = np.random.default_rng(seed)
    told = chance.normal(1, 2, places)
    values = chance.normal(0, 5, places) + 2 * np.maximum(told, 0)
    found = isotonic(told, values)
    assert (found >= 0).all()
    assert (np.diff(found[np.argsort(told, kind="stable")]) >= -1e-9).all()


def test_the_curve_goes_through_means():
    told = np.repeat([1.0, 2.0, 5.0], 1000)
    values = np.repeat([0.5, 4.0, 9.0], 1000) + np.tile([-1.0, 1.0], 1500)
    assert isotonic(told, values)[[0, 1500, 2999]] == pytest.approx([0.5, 4.0, 9.0], abs=0.3)
