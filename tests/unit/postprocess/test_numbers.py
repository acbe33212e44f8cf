"""Shrunk values, nearer to a known truth than noisy ones, and streams of numbers for drawn trips."""

import numpy as np
import pytest
from scipy import stats
from tests.loops import for_each

from shoal.postprocess.synthetic.numbers import (
    isotonic,
    mix,
    pick,
    prediction,
    residual_variance,
    select_by_mallows_cp,
    shrunk,
    stream,
    uniform,
    uniforms,
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


def test_nothing_is_predicted_and_no_variance_found_where_there_is_none():
    """Features without truth: values of noise alone are predicted to be about 0."""
    chance = np.random.default_rng(2)
    told = prediction(noisy_of(chance, np.zeros(PLACES), 3.0), features_of(chance))
    assert told.max() < 3.0
    assert told.mean() < 0.2
    chance = np.random.default_rng(4)
    expected = chance.gamma(1.0, 20, 20_000)
    noisy = noisy_of(chance, expected, 3.0)
    assert residual_variance(noisy, expected).mean() < 0.05 * 3.0**2 + 2e-4 * (expected**2).mean()
    assert (residual_variance(noisy, expected) > 0).all()


@pytest.mark.parametrize(("b", "c"), [(3.0, 0.0), (0.0, 0.25)])
def test_a_known_scatter_is_found(b, c):
    chance = np.random.default_rng(3)
    expected = chance.gamma(1.0, 20, 20_000)
    truth = expected + chance.normal(0, 1, expected.size) * np.sqrt(b * expected + c * expected**2)
    found = residual_variance(noisy_of(chance, truth, 2.0), expected)
    wide = expected > 5
    known = b * expected + c * expected**2
    assert np.quantile(found[wide] / known[wide], [0.01, 0.99]) == pytest.approx(1, abs=0.15)


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


def test_a_scatter_that_is_said_is_followed_and_the_curve_goes_through_means():
    chance = np.random.default_rng(6)
    expected = np.full(10, 5.0)
    noisy = NoisyTable(expected + chance.normal(0, 1, 10), 1.0)
    assert shrunk(noisy, expected, 100.0) == pytest.approx(noisy.values, abs=1e-4)
    assert shrunk(noisy, expected, 1e-4) == pytest.approx(expected, abs=1e-4)
    # a fifth of 5 is as large as the noise: half way
    assert shrunk(noisy, expected, 0.2) == pytest.approx((noisy.values + expected) / 2)
    told = np.repeat([1.0, 2.0, 5.0], 1000)
    values = np.repeat([0.5, 4.0, 9.0], 1000) + np.tile([-1.0, 1.0], 1500)
    assert isotonic(told, values)[[0, 1500, 2999]] == pytest.approx([0.5, 4.0, 9.0], abs=0.3)


def test_the_better_prediction_is_picked_and_not_one_that_fits_noise():
    chance = np.random.default_rng(7)
    truth = chance.gamma(1.0, 20, 2000)
    noisy = noisy_of(chance, truth, 5.0)
    poor = np.ones(2000)
    assert select_by_mallows_cp(noisy, poor, truth, 12) is truth
    simple = select_by_mallows_cp(noisy, truth / 7, truth + chance.normal(0, 3, 2000), 12)  # scaled to fit
    assert simple == pytest.approx(truth, rel=0.05)
    # Rich predictions that learnt ten numbers from noise: they fit better and are not taken.
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


ALARM = 1e-6
# The first outputs of SplitMix64 from the seed 1234567, as published with its reference code.
KNOWN = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
STEP, WORD = 0x9E3779B97F4A7C15, 2**64


def test_a_stream_is_splitmix_and_even():
    for draw, word in enumerate(KNOWN):
        assert int(mix(np.uint64((1234567 + (draw + 1) * STEP) % WORD))) == word
        assert float(uniform(np.uint64(1234567), draw)) == (word >> 11) / 2**53
    states = [np.uint64(stream(5, 2, thing)) for thing in range(200)]
    drawn = np.array([uniform(state, draw) for state in states for draw in range(50)])
    assert stats.kstest(drawn, "uniform").pvalue > ALARM
    assert np.unique(drawn).size == drawn.size
    assert np.array_equal(uniforms(9, 3, 10), uniforms(9, 3, 5000)[:10])
    assert uniforms(9, 3, 7)[6] == uniform(np.uint64(stream(9, 3, 6)), 0)
    assert uniforms(9, 3, 0).size == 0


@for_each("seed", [0, 1, 2**63 + 5])
@for_each("purpose", [1, 42])
def test_numbers_of_things_are_even(seed, purpose):
    drawn = uniforms(seed, purpose, 50_000)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.chisquare(np.bincount((drawn * 100).astype(int), minlength=100)).pvalue > ALARM
    assert stats.kstest(drawn, "uniform").pvalue > ALARM
    pairs = (drawn[:-1] * 10).astype(int) * 10 + (drawn[1:] * 10).astype(int)  # one thing and the next
    assert stats.chisquare(np.bincount(pairs[::2], minlength=100)).pvalue > ALARM


@for_each(
    ("one", "other"),
    [((1, 1), (1, 2)), ((1, 1), (2, 1)), ((0, 1), (1, 0)), ((1, 21), (1, 1021)), ((3, 4), (4, 3))],
)
def test_seeds_and_purposes_share_nothing(one, other):
    first, second = uniforms(*one, 20_000), uniforms(*other, 20_000)
    for shift in (0, 1):
        near = stats.spearmanr(first[shift:], second[: 20_000 - shift])
        assert near.pvalue > ALARM
    assert np.intersect1d(first, second).size == 0


def test_places_are_picked_in_proportion_to_their_weights():
    weights = np.array([0.0, 3.0, -2.0, 1.0, 0.0, 6.0, 0.0])
    seen = np.bincount(pick(weights, uniforms(1, 1, 60_000)), minlength=7)
    assert seen[[0, 2, 4, 6]].tolist() == [0, 0, 0, 0]
    assert stats.chisquare(seen[[1, 3, 5]], [18_000, 6_000, 36_000]).pvalue > ALARM
    ends = np.array([0.0, 0.25, 1 - 2**-53])
    assert pick(np.array([0.0, 1.0, 3.0, 0.0]), ends).tolist() == [1, 2, 2]
    assert pick(np.array([0.1] * 10 + [0.0]), ends[-1:]).tolist() == [9]
    assert pick(np.array([1e-300, 0.0]), ends).tolist() == [0, 0, 0]
