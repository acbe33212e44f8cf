"""Lower bounds are valid, tight where they should be, and made of runs that are what they say."""

import numpy as np
import pytest
from scipy import stats
from tests.loops import for_each

from shoal.auditing import lower_bounds as spend_runs
from shoal.auditing.lower_bounds import Query, bounds, clopper_pearson, queries_of, run_spends, sample
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.run import mu_of, runs_for
from shoal.mechanisms.registry import REGISTRY
from shoal.privacy.noise import OsNoise, SeededNoise


def asked(name, epsilon):
    """(entry, loss, queries) where one user costs the claim."""
    entry = REGISTRY[name]
    pipeline = pipeline_of(name, epsilon, None if entry.pure else 1e-6, size=entry.tight)
    return entry, pipeline.mechanism.loss(), queries_of(pipeline, entry)


@for_each(("hits", "runs"), [(0, 50), (1, 50), (25, 50), (49, 50), (50, 50), (700, 100_000)])
def test_clopper_pearson_limits_are_where_the_tails_have_alpha(hits, runs):
    low, high = clopper_pearson(hits, runs, 1e-6)
    if hits > 0:
        assert stats.binom.sf(hits - 1, runs, low) == pytest.approx(1e-6, rel=1e-6)
    if hits < runs:
        assert stats.binom.cdf(hits, runs, high) == pytest.approx(1e-6, rel=1e-6)
    assert (low == 0) == (hits == 0)
    assert (high == 1) == (hits == runs)


@pytest.mark.exhaustive
def test_laplace_bound_reaches_nine_tenths_of_the_claim_and_not_more():
    """The operating system's noise, 2e5 runs per side: with half of them one bound in 400 is below 0.9."""
    _, _, queries = asked("density-laplace", 1.0)
    found = bounds(*sample(queries, OsNoise(), 200_000), 0.0)
    assert 0.9 <= found.epsilon <= 1.0
    assert found.runs == 200_000


@pytest.mark.exhaustive
def test_gaussian_bound_on_mu_reaches_nine_tenths_of_the_claim_and_not_more():
    _, claim, queries = asked("density-gaussian", 4.0)
    found = bounds(*sample(queries, OsNoise(), 100_000), 1e-6, mu=True)
    assert 0.9 * mu_of(claim) <= found.mu <= mu_of(claim)
    assert found.epsilon <= 4.0


def test_default_runs_are_enough_at_epsilon_one():
    """The same distributions from a seed, as many as `shoal audit` draws."""
    entry, claim, queries = asked("density-gaussian", 1.0)
    runs = runs_for(entry, claim, queries)
    mu = mu_of(claim)
    assert 0.9 * mu <= bounds(*sample(queries, SeededNoise(1), runs), 1e-6, mu=True).mu <= mu
    entry, claim, queries = asked("density-laplace", 1.0)
    runs = runs_for(entry, claim, queries)
    assert 0.9 <= bounds(*sample(queries, SeededNoise(1), runs), 0.0).epsilon <= 1.0


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


def test_an_event_is_not_chosen_on_the_runs_it_is_tested_on():
    generator = np.random.default_rng(2)
    first, rest = generator.normal(5.0, 1.0, 500), generator.normal(0.0, 1.0, 500)
    with_user, without = np.concatenate([first, rest]), generator.normal(0.0, 1.0, 1000)
    assert bounds(with_user, without, 0.0).epsilon < 0.5
    # An event of probability 0.01 with the user and never without.
    generator = np.random.default_rng(4)
    with_user, without = answers(generator, 0.01, 20_000), np.zeros(20_000)
    assert bounds(with_user, without, 0.0).epsilon > 1.0
    assert bounds(with_user, without, 0.011).epsilon == 0.0
    generator = np.random.default_rng(5)
    found = bounds(generator.normal(size=50_000), generator.normal(size=50_000), 0.0, mu=True)
    assert found.epsilon < 0.05
    assert found.mu < 0.05
    generator = np.random.default_rng(6)
    useless, telling = generator.normal(size=(2, 5000)), answers(generator, 0.9, 5000)
    with_user = np.column_stack([useless[0], telling])
    without = np.column_stack([useless[1], answers(generator, 0.1, 5000)])
    assert bounds(with_user, without, 0.0).epsilon > 1.5


@pytest.mark.parametrize("swap", [False, True])
def test_both_directions_of_the_pair_are_tried(swap):
    """The tell-tale event may be likelier with the user or without."""
    generator = np.random.default_rng(3)
    rare, common = answers(generator, 0.01, 4000), answers(generator, 0.5, 4000)
    pair = (common, rare) if swap else (rare, common)
    assert 2.5 < bounds(*pair, 0.0).epsilon < np.log(50)
    assert 2.5 < bounds(-pair[0], -pair[1], 0.0).epsilon < np.log(50)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_ratio_is_that_of_the_two_densities(kind):
    """Worked out cell by cell from scipy's continuous laws, which these are at large scales."""
    generator = np.random.default_rng(7)
    before, after = generator.integers(-900, 900, (2, 6))
    query = Query(kind, "any", 400.0, before, after)
    drawn = generator.integers(-2000, 2000, (200, 6))
    law = stats.laplace(scale=400.0) if kind == "laplace" else stats.norm(scale=400.0)
    expected = (law.logpdf(drawn - after) - law.logpdf(drawn - before)).sum(axis=1)
    np.testing.assert_allclose(query.log_ratio(drawn - before), expected, atol=1e-9)


def test_ratio_of_a_choice_and_answers_with_the_user_and_without():
    before, after, scale = np.array([0, 5, 9]), np.array([3, 5, 4]), 2.0
    query = Query("choose", "select", scale, before, after)
    p, q = (np.exp(s / scale) / np.exp(s / scale).sum() for s in (after, before))
    found = query.log_ratio(np.array([[0], [1], [2]]))
    np.testing.assert_allclose(found, np.log(p / q), atol=1e-12)
    query = Query("laplace", "any", 2.0, np.array([10, -3]), np.array([110, -3]))
    with_user, without = (query.draw(SeededNoise(3), side, 4000).mean(axis=0) for side in (True, False))
    np.testing.assert_allclose(with_user, [100, 0], atol=0.5)
    np.testing.assert_allclose(without, [0, 0], atol=0.5)


@pytest.mark.parametrize("name", ["density-laplace", "density-efpag", "density-best"])
def test_runs_come_in_chunks_of_any_size(name, monkeypatch):
    _, _, queries = asked(name, 1.0)
    told = []
    monkeypatch.setattr(spend_runs, "CHUNK_DRAWS", 700)
    drawn = run_spends(queries, SeededNoise(8), 1001, 50, told.append)
    assert drawn.whole[0].shape == drawn.whole[1].shape == (1001, 4)
    assert sum(told) == 2002
    assert len(told) >= 2
    assert set(drawn.spends) == {query.name for query in queries}
    assert np.unique(drawn.whole[0][:, 1]).size == 1001  # no chunk is another one again
