from __future__ import annotations

import numpy as np
from scipy.stats import chisquare, kstest

from shoal.events.simulate.people import normal, open_stream, pick, uniform, user_id


def draws(make, n=20_000, seed=5):
    state = np.empty(1, np.uint64)
    open_stream(state, seed, 17, 2, 3)
    return np.array([make(state) for _ in range(n)])


def test_uniform_and_normal_draws_have_their_distributions():
    assert kstest(draws(uniform), "uniform").pvalue > 1e-4
    assert kstest(draws(normal), "norm").pvalue > 1e-4


def test_neighbouring_streams_are_unrelated():
    state = np.empty(1, np.uint64)
    firsts = []
    for user in range(20_000):
        open_stream(state, 5, user, 0, 1)
        firsts.append(uniform(state))
    assert kstest(firsts, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(firsts[:-1], firsts[1:])[0, 1]) < 5 / np.sqrt(20_000)


def test_a_stream_starts_again_at_the_same_point():
    assert np.array_equal(draws(uniform, 50), draws(uniform, 50))
    assert not np.array_equal(draws(uniform, 50), draws(uniform, 50, seed=6))


def test_pick_follows_the_given_chances():
    chance = np.array([0.5, 0.0, 0.2, 0.3])
    found = np.bincount(draws(lambda state: pick(state, np.cumsum(chance))), minlength=4)
    assert found[1] == 0
    assert chisquare(found[[0, 2, 3]], 20_000 * chance[[0, 2, 3]]).pvalue > 1e-4


def test_user_ids_differ_and_look_arbitrary():
    ids = np.array([user_id(i, 9) for i in range(50_000)])
    assert len(np.unique(ids)) == len(ids)
    assert ids.min() >= 0
    assert ids.max() < 2**40
    assert abs(np.corrcoef(np.arange(len(ids)), ids)[0, 1]) < 0.05
