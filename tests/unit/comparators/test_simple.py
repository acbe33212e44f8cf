"""Comparators without pieces of the scheme: their noise, and what they say they promise."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from tests.loops import for_each
from tests.worlds import exact_counts

from shoal.postprocess.density.numbers import plain_density
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import OsNoise, SeededNoise
from shoal.space.geography import AreaWeights
from shoal.stages.bounded import ExactDensity
from shoal_baselines.comparators.counts import ScmEvent, ScmZone, SpotMe, Threshold

LATTICE = 2**20


def counts(people):
    return exact_counts(np.asarray(people) * LATTICE, ell=30)


def visits(people, users):
    return ExactDensity(counts=np.asarray(people, np.int64), users=users)


@pytest.mark.parametrize(
    ("comparator", "scale"),
    [
        (ScmEvent(epsilon=0.5, visits=168), 2.0),
        (ScmZone(epsilon=0.5, slots=168, places=3, zone_visits=1), 336.0),
    ],
    ids=["event", "zone"],
)
def test_laplace_noise_of_the_printed_scale(comparator, scale):
    noisy = comparator(counts(np.full((300, 300), 7)), SeededNoise(3))
    assert noisy.scale == scale
    assert np.abs(noisy.values - 7).mean() == pytest.approx(scale, rel=0.02)


def test_what_a_user_really_has():
    assert ScmEvent(epsilon=0.5, visits=30).user_epsilon() == 15
    assert ScmZone(epsilon=0.5, slots=168, places=1, zone_visits=1).user_epsilon() == pytest.approx(0.5)
    assert ScmZone(epsilon=0.5, slots=42, places=101, zone_visits=1).user_epsilon() == pytest.approx(
        101 * 0.5
    )
    assert Threshold(k=10).user_epsilon() == math.inf
    assert SpotMe(p=0.3, weights=AreaWeights.identity(1)).user_epsilon() == math.inf
    # The pair: nobody, and one user counted at each of ten sites in one zone, in every slot.
    matrix = scipy.sparse.csr_array(np.array([[LATTICE] * 10 + [0], [0] * 10 + [LATTICE]]))
    weights = AreaWeights(matrix=matrix, lattice=LATTICE, lost=np.zeros(11))
    zone = ScmZone.of(Budget.pure_epsilon(1.0), setting_of_weights(weights, slots=24))
    user = weights.spread(np.ones((11, 24), np.int64))
    noisy = zone(counts(np.zeros((2, 24))), SeededNoise(1))
    losses = user.sum(axis=1) / LATTICE / noisy.scale
    assert zone.zone_epsilon() == pytest.approx(losses.max()) == pytest.approx(10)
    assert zone.user_epsilon() == pytest.approx(losses.sum()) == pytest.approx(11)
    assert "up to 10 there" in zone.true_guarantee()


def setting_of_weights(weights, slots):
    return SimpleNamespace(slots=slots, places=weights.shape[1], weights=weights)


ALL = [
    ScmEvent(epsilon=0.5, visits=168),
    ScmZone(epsilon=0.5, slots=168, places=5, zone_visits=2),
    Threshold(k=10),
    SpotMe(p=0.3, weights=AreaWeights.identity(1)),
]


@for_each("comparator", ALL, ids=lambda c: c.name)
def test_none_can_be_budgeted_and_each_says_what_it_promises(comparator):
    assert not hasattr(comparator, "loss")
    assert not hasattr(comparator, "spends")
    said = comparator.true_guarantee()
    epsilon = comparator.user_epsilon()
    assert (f"{epsilon:g}" in said) if math.isfinite(epsilon) else said.startswith("No ")


def test_threshold_shows_large_counts_exactly_and_nothing_else():
    noisy = Threshold(k=10)(counts([[9, 10, 11, 0]]), SeededNoise(1))
    assert noisy.values.tolist() == [[0, 10, 11, 0]]
    estimate = plain_density(noisy)
    assert (
        estimate.people.tolist() == estimate.low.tolist() == estimate.high.tolist() == noisy.values.tolist()
    )


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_spotme_has_the_mean_and_the_variance_of_the_answers_themselves(p):
    """Against every user answering for themselves."""
    users, there, runs = 40, 10, 20_000
    rng = np.random.default_rng(2)
    truth = np.arange(users) < there
    yes = ((rng.random((runs, users)) < p) | truth).sum(axis=1)
    oracle = (yes - users * p) / (1 - p)
    spot = SpotMe(p=p, weights=AreaWeights.identity(100))
    noisy = spot(visits(np.full((100, 200), there), users), SeededNoise(4)).values.ravel()
    assert noisy.mean() == pytest.approx(there, abs=5 * oracle.std() / math.sqrt(runs))
    assert noisy.std() == pytest.approx(oracle.std(), rel=0.03)
    assert set(np.unique(np.round(noisy, 6))) <= set(
        np.round((np.arange(users + 1) - users * p) / (1 - p), 6)
    )


def test_spotme_spreads_with_the_noise_it_says_and_repeats_with_a_seed():
    shares = np.array([[LATTICE, LATTICE // 2], [0, LATTICE // 2]])
    weights = AreaWeights(matrix=scipy.sparse.csr_array(shares), lattice=LATTICE, lost=np.zeros(2))
    noisy = SpotMe(p=0.5, weights=weights)(visits(np.zeros((2, 20_000)), 1000), SeededNoise(1))
    assert noisy.values.shape == (2, 20_000)
    assert noisy.values.std(axis=1) == pytest.approx((noisy.scale * noisy.gain).ravel(), rel=0.03)
    assert noisy.scale == pytest.approx(math.sqrt(1000))
    spot = SpotMe(p=0.5, weights=AreaWeights.identity(2))
    stage = visits(np.zeros((2, 50)), 1000)
    seeded = [spot(stage, SeededNoise(7)).values for _ in range(2)]
    assert (seeded[0] == seeded[1]).all()
    assert (spot(stage, OsNoise()).values != spot(stage, OsNoise()).values).any()
