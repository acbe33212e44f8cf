"""The exponential mechanism against its exact probabilities; false alarms once in a million."""

import numpy as np
import pytest
from scipy import stats
from tests.loops import for_each

from shoal.errors import GuaranteeError
from shoal.privacy.noise import OsNoise, SeededNoise

ALARM = 1e-6
SCORES = np.array([0, 40, 70, 70, -30, 55], np.int64)
SCALE = 30.0
PICKS = 5000


def p_value(picks, scale):
    weight = np.exp((SCORES - SCORES.max()) / scale)
    return stats.chisquare(np.bincount(picks, minlength=6), weight / weight.sum() * picks.size).pvalue


@pytest.mark.parametrize("noise", [OsNoise(), SeededNoise(3)], ids=["operating system", "seeded"])
def test_picks_follow_the_scores(noise):
    picks = np.array([noise.choose("zone", SCORES, SCALE) for _ in range(PICKS)])
    assert p_value(picks, SCALE) > ALARM
    assert p_value(picks, SCALE * 1.4) < ALARM
    assert p_value(picks, SCALE * 0.7) < ALARM
    assert p_value(picks, SCALE / 2) < ALARM  # a mistaken factor of two in the exponent


@for_each("noise", [OsNoise(), SeededNoise(3)], ids=["operating system", "seeded"])
@for_each("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_scales_are_refused(noise, scale):
    for draw in (noise.choose, noise.laplace, noise.gaussian):
        with pytest.raises(GuaranteeError, match="noise-scale"):
            draw("zone", SCORES, scale)


@for_each("noise", [OsNoise(), SeededNoise(3)], ids=["operating system", "seeded"])
@for_each("query", [SCORES.astype(float), SCORES.astype(np.int32), SCORES.tolist()])
def test_only_whole_numbers_of_the_lattice_are_taken(noise, query):
    for draw in (noise.choose, noise.laplace, noise.gaussian):
        with pytest.raises(GuaranteeError, match="noise-lattice"):
            draw("zone", query, 2.0)
