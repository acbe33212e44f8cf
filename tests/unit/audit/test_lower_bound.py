"""Lower bounds are valid, tight where they should be, and made of runs that are what they say."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from shoal.audit import lower_bound
from shoal.audit.lower_bound import bounds, clopper_pearson, runs_for, sample, statistics, tile
from shoal.mechanisms.registry import REGISTRY, AuditSize
from shoal.privacy.noise import OsNoise, SeededNoise

GAUSSIAN, LAPLACE = REGISTRY["density-gaussian"], REGISTRY["density-laplace"]
DELTA = {"density-gaussian": 1e-6, "density-laplace": None}


@pytest.mark.parametrize(("hits", "runs"), [(0, 50), (1, 50), (25, 50), (49, 50), (50, 50), (700, 100_000)])
def test_clopper_pearson_limits_are_where_the_tails_have_alpha(hits, runs):
    low, high = clopper_pearson(hits, runs, 1e-6)
    if hits > 0:
        assert stats.binom.sf(hits - 1, runs, low) == pytest.approx(1e-6, rel=1e-6)
    if hits < runs:
        assert stats.binom.cdf(hits, runs, high) == pytest.approx(1e-6, rel=1e-6)
    assert (low == 0) == (hits == 0)
    assert (high == 1) == (hits == runs)


def test_laplace_bound_reaches_nine_tenths_of_the_claim_and_not_more():
    """The operating system's noise, 1e5 runs per side."""
    entry = replace(LAPLACE, replica=AuditSize(zones=1, slots=1, ell=1))
    found = bounds(*sample(entry, 1.0, None, OsNoise(), 100_000), 0.0)
    assert 0.9 <= found.epsilon <= 1.0
    assert found.runs == 100_000


def test_gaussian_bound_on_mu_reaches_nine_tenths_of_the_claim_and_not_more():
    claim = GAUSSIAN.build(4.0, 1e-6, GAUSSIAN.replica)
    found = bounds(*sample(GAUSSIAN, 4.0, 1e-6, OsNoise(), 100_000), 1e-6, mu=True)
    assert 0.9 * claim.mu <= found.mu <= claim.mu
    assert found.epsilon <= 4.0


@pytest.mark.parametrize("seed", range(1, 2))
def test_default_runs_are_enough_at_epsilon_one(seed):
    """The same distributions from a seed, as many as `shoal audit` draws."""
    mu = GAUSSIAN.build(1.0, 1e-6, GAUSSIAN.replica).mu
    runs = runs_for(GAUSSIAN, 1.0, 1e-6)
    assert 0.9 * mu <= bounds(*sample(GAUSSIAN, 1.0, 1e-6, SeededNoise(seed), runs), 1e-6, mu=True).mu <= mu
    runs = runs_for(LAPLACE, 1.0, None)
    assert 0.9 <= bounds(*sample(LAPLACE, 1.0, None, SeededNoise(seed), runs), 0.0).epsilon <= 1.0


def answers(generator, p, runs):
    """Randomised response: 1 with probability p."""
    return (generator.random(runs) < p).astype(float)


def test_a_bound_is_wrong_no_more_often_than_alpha():
    """Randomised response with epsilon = log 3, alpha = 0.2: at most one bound in five may be above."""
    generator = np.random.default_rng(1)
    above = 0
    for _ in range(400):
        found = bounds(answers(generator, 0.75, 1000), answers(generator, 0.25, 1000), 0.0, alpha=0.2)
        above += found.epsilon > np.log(3)
    # Each limit alone errs one time in ten; 0.2 of 400 is 80, and the test allows four deviations more.
    assert above <= 80 + 4 * 8
    assert above > 0  # else the bounds would be needlessly loose


def test_the_bound_is_tested_on_runs_that_did_not_choose_the_event():
    generator = np.random.default_rng(2)
    first, rest = generator.normal(5.0, 1.0, 500), generator.normal(0.0, 1.0, 500)
    with_user, without = np.concatenate([first, rest]), generator.normal(0.0, 1.0, 1000)
    assert bounds(with_user, without, 0.0).epsilon < 0.5


@pytest.mark.parametrize("swap", [False, True])
def test_both_directions_of_the_pair_are_tried(swap):
    """The tell-tale event may be likelier with the user or without."""
    generator = np.random.default_rng(3)
    rare, common = answers(generator, 0.01, 4000), answers(generator, 0.5, 4000)
    pair = (common, rare) if swap else (rare, common)
    assert 2.5 < bounds(*pair, 0.0).epsilon < np.log(50)
    assert 2.5 < bounds(-pair[0], -pair[1], 0.0).epsilon < np.log(50)


def test_delta_pays_for_rare_events():
    """An event of probability 0.01 with the user and never without."""
    generator = np.random.default_rng(4)
    with_user, without = answers(generator, 0.01, 20_000), np.zeros(20_000)
    assert bounds(with_user, without, 0.0).epsilon > 1.0
    assert bounds(with_user, without, 0.011).epsilon == 0.0


def test_no_difference_no_bound():
    generator = np.random.default_rng(5)
    found = bounds(generator.normal(size=50_000), generator.normal(size=50_000), 0.0, mu=True)
    assert found.epsilon < 0.05
    assert found.mu < 0.05


def test_several_statistics_compete():
    generator = np.random.default_rng(6)
    useless, telling = generator.normal(size=(2, 5000)), answers(generator, 0.9, 5000)
    with_user = np.column_stack([useless[0], telling])
    without = np.column_stack([useless[1], answers(generator, 0.1, 5000)])
    assert bounds(with_user, without, 0.0).epsilon > 1.5


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_statistic_orders_runs_by_likelihood_ratio(name):
    """Against the ratio of the two densities, worked out cell by cell."""
    entry = REGISTRY[name]
    size = AuditSize(zones=2, slots=3, ell=2)
    before, after = (counts.units.ravel() for counts in entry.worst_pair(size))
    units = np.random.default_rng(7).integers(-3 * size.lattice, 4 * size.lattice, (200, 6))
    power, scale = (1, 2.0) if entry.norm == "l1" else (2, 3.0)
    spread = size.lattice * scale
    distance = [np.abs((units - q) / spread) ** power / power for q in (before, after)]
    ratio = (distance[0] - distance[1]).sum(axis=1)
    ranks = statistics(entry, units, size)[:, 0]
    assert np.corrcoef(ratio, ranks)[0, 1] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_mechanism_adds_its_noise_cell_by_cell(name):
    """Why runs may be drawn side by side: with the noise held still, a cell depends on its own count."""

    class Still:
        publishable = False
        drawn = np.arange(40, dtype=np.int64).reshape(1, 40) * 12345

        def laplace(self, name, exact, scale):
            return exact + self.drawn

        gaussian = laplace

    entry = REGISTRY[name]
    mechanism = entry.build(1.0, DELTA[name], entry.replica.side_by_side(40 // entry.replica.slots))
    counts = tile(entry.worst_pair(entry.replica)[0], 40 // entry.replica.slots)
    quiet = mechanism(counts, Still()).values
    for cell in range(40):
        units = counts.units.copy()
        units[0, cell] += 999
        changed = mechanism(replace(counts, units=units), Still()).values != quiet
        assert np.flatnonzero(changed).tolist() == [cell]


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_runs_come_in_chunks_of_any_size(name, monkeypatch):
    entry = REGISTRY[name]
    told = []
    monkeypatch.setattr(lower_bound, "CHUNK_DRAWS", 700)
    with_user, without = sample(entry, 1.0, DELTA[name], SeededNoise(8), 1001, advance=told.append)
    assert with_user.shape == without.shape == (1001, 4)
    assert sum(told) == 2002
    assert len(told) > 2
    assert np.unique(with_user[:, 1]).size == 1001  # no chunk is another one again
