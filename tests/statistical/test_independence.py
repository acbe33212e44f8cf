"""Noise of different cells is independent: no correlation of the values or of their sizes.

Each correlation of n pairs is about normal with deviation 1 / sqrt(n); 5.3 of them are exceeded with
probability of about one in ten million.
"""

import numpy as np
import pytest
from scipy.stats import rankdata

from shoal.mechanisms.density.counts import DensityCounts
from shoal.privacy.noise import GAUSSIAN, LAPLACE, PARALLEL_FROM, OsNoise, SeededNoise
from shoal.space.geography import LATTICE
from shoal.stages.exact import ExactCounts

DEVIATIONS = 5.3
ZONES, SLOTS = 40, 300


def correlations(noise):
    """Between neighbours in a row, in a column, across halves; of values, sizes and signs."""
    half = noise.shape[1] // 2
    pairs = {
        "next slot": (noise[:, :-1], noise[:, 1:]),
        "next zone": (noise[:-1], noise[1:]),
        "two slots on": (noise[:, :-2], noise[:, 2:]),
        "other half": (noise[:, :half], noise[:, half : 2 * half]),
    }
    for place, (one, other) in pairs.items():
        for measure in (np.asarray, np.abs, np.sign):
            # Ranks bound the influence of the tails, so that the deviation above holds; ties share one.
            a, b = rankdata(measure(one).ravel()), rankdata(measure(other).ravel())
            yield place, measure.__name__, np.corrcoef(a, b)[0, 1] * np.sqrt(a.size)


def released_noise(name, noise):
    """What a mechanism adds to nobody's counts, on a table large enough to see cells go together."""
    public = {"ell": 2, "slots": SLOTS, "lattice": LATTICE}
    if name == "density-laplace":
        mechanism = DensityCounts.within(LAPLACE, 10**9, column=LATTICE, **public)
    else:
        mechanism = DensityCounts.within(GAUSSIAN, 10**7, column=LATTICE**2, **public)
    exact = ExactCounts(
        units=np.zeros((ZONES, SLOTS), np.int64),
        lattice=LATTICE,
        ell=2,
        column_l1=LATTICE,
        column_l2_squared=LATTICE**2,
    )
    return mechanism(exact, noise).values * LATTICE


@pytest.mark.parametrize("name", ["density-gaussian", "density-laplace"])
def test_cells_of_a_mechanism_are_independent(name):
    found = released_noise(name, OsNoise(processes=1))
    assert [row for row in correlations(found) if abs(row[2]) > DEVIATIONS] == []


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_processes_are_independent(kind):
    count = PARALLEL_FROM
    noise = getattr(OsNoise(processes=2), kind)("counts", np.zeros((2, count // 2), np.int64), 1e6)
    assert [row for row in correlations(noise) if abs(row[2]) > DEVIATIONS] == []


@pytest.mark.parametrize("bug", ["a slot's noise used again", "one sign for two zones", "blocks repeated"])
def test_dependence_would_be_seen(bug):
    noise = released_noise("density-laplace", SeededNoise(6))
    if bug == "a slot's noise used again":
        noise[:, 1::2] = noise[:, ::2]
    elif bug == "one sign for two zones":
        noise[1::2] = np.abs(noise[1::2]) * np.sign(noise[::2])
    else:
        noise[:, SLOTS // 2 :] = noise[:, : SLOTS // 2]
    assert any(abs(deviation) > DEVIATIONS for _, _, deviation in correlations(noise))


@pytest.mark.parametrize(("kind", "deviation"), [("gaussian", 1.0), ("laplace", 2**0.5)])
def test_many_draws_at_the_scales_of_releases(kind, deviation):
    """As a release draws them: 2^20 units a visit, several chunks, several processes."""
    scale, count = 5e6, 50_000
    noise = getattr(OsNoise(processes=2), kind)("counts", np.zeros(count, np.int64), scale)
    assert abs(noise.std() / (scale * deviation) - 1) < 0.04  # five deviations of the estimate, or more
    parts = noise.reshape(-1, 5_000).astype(float)
    across = np.corrcoef(parts) - np.eye(len(parts))
    assert np.abs(across).max() < 6 / 5_000**0.5
