"""The fit reaches the optimum that a general solver finds, and the weights it should."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from shoal.postprocess.histogram.box_fit import fit_weights, targets_of

CHANCE = np.random.default_rng(4)


def world(boxes=40, bins=6):
    index = [CHANCE.integers(0, bins, boxes) for _ in range(2)]
    values = [CHANCE.normal(100 / bins, 20, bins) for _ in range(2)]
    hits = CHANCE.random((5, boxes)) < 0.4
    answers = CHANCE.normal(40, 10, 5)
    return index, values, hits, answers


def objective(weight, index, values, sigmas, hits, answers, sigma, pull, trips):
    share = weight / trips
    total = pull * float(share @ np.log(share * len(share)))
    for bins, noisy, deviation in zip(index, values, sigmas, strict=True):
        total += (((np.bincount(bins, weight, len(noisy)) - noisy) / deviation) ** 2).sum() / 2
    return total + (((hits @ weight - answers) / sigma) ** 2).sum() / 2


@pytest.mark.parametrize("pull", [0.5, 10.0])
def test_the_optimum_is_that_of_a_general_solver(pull):
    index, values, hits, answers = world()
    sigmas, sigma, trips = (5.0, 9.0), 4.0, 100.0
    args = (index, values, sigmas, hits, answers, sigma, pull, trips)
    targets = targets_of(list(zip(values, sigmas, index, strict=True)), hits, answers, sigma)
    fitted = fit_weights(targets, trips, pull, steps=2000)

    def loss(theta):
        return objective(trips * np.exp(theta - logsumexp(theta)), *args)

    best = minimize(loss, np.zeros(40), method="L-BFGS-B", options={"maxfun": 10**6, "maxiter": 5000})
    assert fitted.sum() == pytest.approx(trips)
    assert objective(fitted, *args) == pytest.approx(best.fun, rel=1e-3)


def test_counts_are_met_where_precise_and_the_pool_is_even_where_the_pull_is_strong():
    index, values, _, _ = world()
    targets = targets_of(list(zip(values, (5.0, 5.0), index, strict=True)))
    fitted = fit_weights(targets, 100.0, 1e9)
    assert np.allclose(fitted, 2.5, rtol=1e-3)
    index = [np.array([0, 0, 1, 2, 2, 2])]
    noisy = np.array([10.0, 30.0, 60.0, 77.0])  # nobody can be in the last bin
    fitted = fit_weights(targets_of([(noisy, 0.01, index[0])]), 100.0, 1e-3)
    assert np.bincount(index[0], fitted).round(3).tolist() == [10, 30, 60]
    index, values, hits, answers = world()
    targets = targets_of(list(zip(values, (5.0, 5.0), index, strict=True)), hits, answers, 4.0)
    done = fit_weights(targets, 100.0, 1.0, steps=2000)
    again = fit_weights(targets, 100.0, 1.0, start=done, steps=1)
    assert np.allclose(done, again, rtol=0.05, atol=0.05)
