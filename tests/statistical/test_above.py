"""The sparse vector primitive against exact probabilities: its draws, its cost, and broken variants.

The oracle sums over the whole lattice: threshold and values have discrete Laplace noise.
"""

import numpy as np
import pytest
from scipy import stats

from shoal.privacy.noise import OsNoise, SeededNoise, first_above

ALARM = 1e-6
MARGINS = np.array([-30, 5, -10, 0, 25], np.int64)
SCALE = 10.0
RUNS = 4000


def law(scale, reach=1500):
    """P(z) of discrete Laplace noise, z from -reach to reach."""
    z = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(z) / scale)
    return weight / weight.sum()


def probabilities(margins, scale, values=2.0):
    """P(index), and of none as the last; `values`: scale of the values' noise over the threshold's."""
    threshold = law(scale)
    reach = threshold.size // 2
    t = np.arange(-reach, reach + 1)
    below_of = np.concatenate([[0.0], np.cumsum(law(values * scale, 2 * reach))])  # P(noise < z)
    left, found = threshold.copy(), []
    for margin in margins:
        below = below_of[np.clip(t - margin + 2 * reach, 0, below_of.size - 1)]
        above = below_of[np.clip(1 - (t - margin) + 2 * reach, 0, below_of.size - 1)]  # by symmetry: no 1 - x
        found.append((left * above).sum())
        left = left * below
    return np.array([*found, left.sum()])


def p_value(seen, expected):
    return stats.chisquare(np.bincount(seen, minlength=expected.size), expected * seen.size).pvalue


@pytest.mark.parametrize("noise", [OsNoise(), SeededNoise(3)], ids=["operating system", "seeded"])
def test_indices_follow_their_exact_probabilities(noise):
    seen = np.array([first_above(noise, "test", MARGINS, SCALE) for _ in range(RUNS)])
    assert p_value(seen, probabilities(MARGINS, SCALE)) > ALARM
    assert p_value(seen, probabilities(MARGINS, SCALE * 1.4)) < ALARM
    assert p_value(seen, probabilities(MARGINS, SCALE * 0.7)) < ALARM
    assert p_value(seen, probabilities(MARGINS, SCALE, values=1.0)) < ALARM  # the factor of two forgotten


@pytest.mark.parametrize("change", [1, 3])
def test_no_index_is_likelier_by_more_than_the_claim(change):
    """Every value moved by up to `change` either way, as one user could."""
    rng = np.random.default_rng(change)
    claim, worst = 2 * change / SCALE, 0.0
    for _ in range(200):
        margins = rng.integers(-60, 60, 6)
        moved = margins + rng.integers(-change, change + 1, 6)
        ratio = np.log(probabilities(moved, SCALE) / probabilities(margins, SCALE))
        assert np.abs(ratio).max() <= claim * (1 + 1e-9)
        worst = max(worst, float(np.abs(ratio).max()))
    assert worst > 0.5 * claim


def test_the_claim_is_nearly_reached_by_the_worst_change():
    """Many values that fall and one that rises."""
    margins = np.array([0] * 40 + [-200])
    moved = margins + np.array([-1] * 40 + [1])
    ratio = np.log(probabilities(moved, SCALE) / probabilities(margins, SCALE))
    assert ratio[40] == pytest.approx(2 / SCALE, rel=1e-3)


@pytest.mark.parametrize("values", [0.5, 1.0])
def test_too_little_noise_on_the_values_would_break_the_claim(values):
    margins = np.array([0] * 40 + [-200])
    moved = margins + np.array([-1] * 40 + [1])
    ratio = np.log(probabilities(moved, SCALE, values) / probabilities(margins, SCALE, values))
    assert np.abs(ratio).max() > 1.05 * 2 / SCALE


def test_none_is_the_number_of_values():
    assert first_above(SeededNoise(1), "test", np.full(7, -(10**6)), 2.0) == 7
    assert first_above(SeededNoise(1), "test", np.zeros(0, np.int64), 2.0) == 0
