"""Lengths and stays by class: rows that sum to 1, exact where there is no noise, and drawn as they say."""

import numpy as np
import pytest
from scipy import stats
from tests.loops import for_each

from shoal.postprocess.synthetic.bridge_tables import MOST_TAIL, by_class, drawn, fall_of, falling
from shoal.stages.synthetic import NoisyTable

ALARM = 1e-6
BINS, CLASSES = 20, 12
GUESS = falling(BINS, 0.7)


def rows_of(seed):
    """Any distribution in every class, alike in classes that are near."""
    chance = np.random.default_rng(seed)
    fall = np.linspace(0.5, 0.9, CLASSES)[:, None]
    rows = fall ** np.arange(BINS) * chance.uniform(0.8, 1.2, (CLASSES, BINS))
    return rows / rows.sum(axis=1, keepdims=True)


def noisy_of(rows, trips, deviation, seed=1):
    noise = np.random.default_rng(seed).normal(0, deviation, rows.shape)
    return NoisyTable((rows * trips + noise).ravel(), deviation)


@for_each("alike", [False, True])
@for_each("deviation", [1e-6, 1.0, 50.0, 1e7])
@for_each("trips", [0.0, 3.0, 1000.0])
def test_rows_are_distributions(trips, deviation, alike):
    found = by_class(noisy_of(rows_of(1), trips, deviation), GUESS, alike=alike)
    assert found.shape == (CLASSES, BINS)
    assert (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_rows_without_noise_are_exact(seed):
    rows = rows_of(seed)
    trips = np.random.default_rng(seed).integers(1000, 90_000, (CLASSES, 1))
    assert by_class(noisy_of(rows, trips, 1e-3), GUESS) == pytest.approx(rows, abs=1e-3)


def test_one_row_for_all_is_that_of_all_together():
    rows = rows_of(4)
    trips = np.linspace(1000, 50_000, CLASSES)[:, None]
    found = by_class(noisy_of(rows, trips, 1e-3), GUESS, alike=True)
    whole = (rows * trips).sum(axis=0)
    assert found == pytest.approx(np.tile(whole / whole.sum(), (CLASSES, 1)), abs=1e-3)


def test_with_noise_alone_rows_are_near_the_guess():
    far = [
        np.abs(by_class(noisy_of(rows_of(1), 5.0, 200.0, seed), GUESS, alike=True)[0] - GUESS).sum()
        for seed in range(20)
    ]
    close = np.abs(
        by_class(noisy_of(rows_of(1), 1e6, 200.0), GUESS, alike=True)[0] - rows_of(1).mean(0)
    ).sum()
    assert close < 0.01
    assert np.mean(far) < 1.5


def test_rows_with_noise_are_nearer_than_noisy_ones():
    rows, error, plain = rows_of(5), [], []
    for seed in range(10):
        noisy = noisy_of(rows, 300.0, 15.0, seed)
        cut = np.maximum(noisy.values.reshape(rows.shape), 0)
        error.append(np.abs(by_class(noisy, GUESS) - rows).sum())
        plain.append(np.abs(cut / cut.sum(axis=1, keepdims=True) - rows).sum())
    assert np.mean(error) < 0.7 * np.mean(plain)


def test_the_guess_falls_and_its_last_bin_has_all_that_follows():
    assert falling(5, 0.5) == pytest.approx([0.5, 0.25, 0.125, 0.0625, 0.0625])
    assert falling(20, 0.9)[-1] == pytest.approx(0.9**19)


@pytest.mark.parametrize("fall", [0.4, 0.7, 0.9])
def test_the_fall_is_found_and_guessed_where_noise_hides_it(fall):
    rows = np.tile(fall ** np.arange(BINS), (CLASSES, 1))
    assert fall_of(noisy_of(rows, 1e9, 1e-6), BINS) == pytest.approx(fall, rel=1e-3)
    assert fall_of(noisy_of(rows, 1.0, 100.0), BINS) == 0.8


def test_bins_are_drawn_as_their_row_says():
    rows = rows_of(6) * np.linspace(0.2, 3, CLASSES)[:, None]  # rows need not sum to 1
    rows[:, 3] = 0.0
    which = np.repeat([0, 5, 11], 40_000)
    found = drawn(rows, which, 0.5, seed=3, purpose=21)
    for one in (0, 5, 11):
        seen = np.bincount(np.minimum(found[which == one], BINS - 1), minlength=BINS)
        assert seen[3] == 0
        share = rows[one] / rows[one].sum() * 40_000
        kept = share > 5
        rest = [seen[~kept].sum()], [share[~kept].sum()]
        seen, share = np.append(seen[kept], rest[0]), np.append(share[kept], rest[1])
        assert stats.chisquare(seen[share > 0], share[share > 0]).pvalue > ALARM


def test_the_last_bin_goes_on_with_its_fall():
    rows = np.zeros((1, BINS))
    rows[0, [0, -1]] = 0.7, 0.3  # how far it goes on does not depend on how the bin was drawn
    found = drawn(rows, np.zeros(90_000, np.int64), 0.6, seed=1, purpose=31)
    more = found[found > 0] - (BINS - 1)
    assert more.min() == 0
    seen = np.bincount(np.minimum(more, 12))
    assert stats.chisquare(seen, more.size * np.append(0.4 * 0.6 ** np.arange(12), 0.6**12)).pvalue > ALARM
    long = drawn(rows, np.zeros(50_000, np.int64), 0.9999, seed=1, purpose=31)
    assert long.max() == BINS - 1 + MOST_TAIL


def test_draws_follow_from_the_seed():
    which = np.zeros(500, np.int64)
    one, again, other = (drawn(rows_of(1), which, 0.7, seed, 21) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
