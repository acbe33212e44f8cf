"""The noise is what it claims to be: accepted at its scale, rejected at a scale 20 % off.

Chi-square tests over bins of the exact distribution; each rejects the truth with probability 1e-6.
"""

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.loops import for_each

from shoal.privacy.noise import PARALLEL_FROM, OsNoise, SeededNoise

ALARM = 1e-6
DRAWS = 12_000
SOURCES = {"operating system": lambda: OsNoise(), "seeded": lambda: SeededNoise(20)}
SMALL, LARGE = 2.5, 1234567.25  # a scale of a few steps, and one of the size in use
SCALES = (1.5, 3.0, 10.25)
LAST = 100  # steps, beyond which less than 1e-16 of the noise at the small scale falls


def cumulative(kind, scale, x):
    """P(noise <= x) for whole x: discrete Laplace, and the normal distribution rounded to whole steps.

    A Gaussian is drawn on a lattice so fine that its sums differ from integrals by less than 1e-9.
    """
    if kind == "laplace":
        q = np.exp(-1 / scale)
        x = np.asarray(x, dtype=float)
        return np.where(x < 0, q ** (-np.minimum(x, 0)) / (1 + q), 1 - q ** (np.maximum(x, 0) + 1) / (1 + q))
    return stats.norm.cdf((np.asarray(x) + 0.5) / scale)


def p_value(kind, scale, noise, bins=24):
    """Chi-square of draws in bins that are about equally likely under the claim."""
    spread = scale * (np.sqrt(2) if kind == "laplace" else 1)
    law = stats.laplace(scale=scale) if kind == "laplace" else stats.norm(scale=spread)
    edges = np.unique(np.rint(law.ppf(np.linspace(0, 1, bins + 1)[1:-1])))
    expected = np.diff(np.concatenate([[0.0], cumulative(kind, scale, edges), [1.0]])) * noise.size
    seen = np.bincount(np.searchsorted(edges, noise, side="left"), minlength=edges.size + 1)
    return stats.chisquare(seen, expected).pvalue


@for_each("scale", [SMALL, LARGE])
@for_each("kind", ["laplace", "gaussian"])
@for_each("source", sorted(SOURCES))
def test_claimed_distribution_is_accepted_and_others_rejected(source, kind, scale):
    exact = np.full((3, DRAWS // 3), 77, np.int64)
    noisy = getattr(SOURCES[source](), kind)("counts", exact, scale)
    assert noisy.dtype == np.int64
    noise = (noisy - exact).ravel()
    assert p_value(kind, scale, noise) > ALARM
    assert p_value(kind, scale * 1.2, noise) < ALARM
    assert p_value(kind, scale * 0.8, noise) < ALARM


def check_many(kind, scale, draws):
    """A small bias needs many draws: OpenDP up to 0.14.1 passes the Laplace test above at 2.5 every time.

    With 200,000 draws a scale 4 % off is accepted with a probability below 1e-19 (2 %: up to 0.09), and the
    true scale is rejected by one of the two sets of bins with a probability below 1e-6.
    """
    noise = getattr(OsNoise(processes=2), kind)("counts", np.zeros(draws, np.int64), scale)
    for bins in (12, 24):
        assert p_value(kind, scale, noise, bins) > ALARM / 4
    assert p_value(kind, scale * 1.04, noise) < ALARM
    assert p_value(kind, scale * 0.96, noise) < ALARM


def test_many_draws_of_laplace_noise():
    check_many("laplace", 3.0, 200_000)


@pytest.mark.exhaustive
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("kind", "draws"), [("laplace", 1_000_000), ("gaussian", 200_000)])
def test_many_draws_at_several_scales(kind, draws, scale):
    check_many(kind, scale, draws)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_distribution_used_here_is_right_by_mpmath(kind):
    def weight(z):
        if kind == "laplace":
            return mpmath.exp(-abs(z) / SMALL)
        return mpmath.quad(lambda y: mpmath.exp(-(y**2) / (2 * mpmath.mpf(SMALL) ** 2)), [z - 0.5, z + 0.5])

    total = mpmath.fsum(weight(z) for z in range(-LAST, LAST + 1))
    for x in (-7, -1, 0, 1, 3, 12):
        exact = mpmath.fsum(weight(z) for z in range(-LAST, x + 1)) / total
        assert float(cumulative(kind, SMALL, x)) == pytest.approx(float(exact), rel=1e-9)


@for_each(("kind", "processes"), [("laplace", 2), ("gaussian", 2), ("laplace", 3), ("gaussian", 8)])
def test_noise_from_several_processes_is_the_same_and_never_repeats(kind, processes):
    """Whatever the machine: a release has up to eight processes."""
    count = PARALLEL_FROM + 1  # shares that are not all equal
    exact = np.zeros(count, np.int64)
    noise = getattr(OsNoise(processes), kind)("counts", exact, LARGE)
    for share in np.array_split(noise, processes):
        assert p_value(kind, LARGE, share) > ALARM
        assert p_value(kind, LARGE * 1.2, share) < ALARM
        assert p_value(kind, LARGE * 0.8, share) < ALARM
    # Two values in a row, at this scale, recur in about one of a thousand tests; three never.
    runs = np.stack([noise[:-2], noise[1:-1], noise[2:]], axis=1)
    assert np.unique(runs, axis=0).shape[0] == count - 2


def test_two_calls_share_nothing():
    noise, exact = OsNoise(processes=1), np.zeros(200, np.int64)
    first, second = (noise.gaussian("counts", exact, LARGE) for _ in range(2))
    assert np.intersect1d(first, second).size < 5
    assert noise.run_key() != noise.run_key()
    assert len(noise.run_key()) == 16


def test_noise_does_not_depend_on_the_count():
    """The same law at 0 and at a large count, also negative ones."""
    for exact in (-(10**15), 10**15):
        noisy = OsNoise().gaussian("counts", np.full(DRAWS // 2, exact, np.int64), SMALL)
        assert p_value("gaussian", SMALL, noisy - exact) > ALARM


@for_each("kind", ["laplace", "gaussian"])
@for_each("scale", [SMALL, 63.0, 65.0, LARGE])
def test_seeded_noise_repeats_and_other_seeds_differ(kind, scale):
    def draw(seed):
        return getattr(SeededNoise(seed), kind)("counts", np.zeros(500, np.int64), scale)

    assert (draw(1) == draw(1)).all()
    assert (draw(1) != draw(2)).any()
    assert SeededNoise(1).run_key() == SeededNoise(1).run_key() != SeededNoise(2).run_key()
    assert not SeededNoise.publishable
    assert OsNoise.publishable
