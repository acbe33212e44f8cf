"""Non-negative counts with their totals, and intervals that cover what they promise to."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.loops import for_each

import shoal.postprocess.density.numbers
from shoal.postprocess.density.numbers import estimate_density, half_width, keep_totals
from shoal.privacy.noise import SeededNoise
from shoal.stages.noisy import NoisyCounts

COLUMN = st.lists(st.floats(-100, 100), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(COLUMN)
def test_totals_are_kept_and_nothing_is_negative(column):
    noisy = np.array(column)[:, None]
    kept = keep_totals(noisy)
    assert (kept >= 0).all()
    assert kept.sum() == pytest.approx(max(noisy.sum(), 0.0), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=5))
def test_it_is_the_nearest_such_vector(column):
    """Against a general optimiser."""
    noisy = np.array(column)
    total = max(noisy.sum(), 0.0)
    kept = keep_totals(noisy[:, None]).ravel()
    if noisy.sum() <= 0:
        assert not kept.any()
        return
    start = np.full(len(noisy), total / len(noisy))
    best = minimize(
        lambda x: ((x - noisy) ** 2).sum(),
        start,
        bounds=[(0, None)] * len(noisy),
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
    )
    assert ((kept - noisy) ** 2).sum() <= best.fun + 1e-4


def test_slots_do_not_mix():
    noisy = np.array([[5.0, -1.0, 4.0], [-2.0, -3.0, 4.0]])
    assert keep_totals(noisy).tolist() == [[3.0, 0.0, 4.0], [0.0, 0.0, 4.0]]


@for_each("family", ["gaussian", "laplace"])
@for_each("level", [0, 3, 100])
def test_intervals_cover_the_bounded_counts(family, level):
    """95 % or more of 40,000 cells; below 94.5 % would be eight standard errors off."""
    lattice, scale = 2**20, 12.0
    exact = np.full((200, 200), level * lattice, np.int64)
    drawn = getattr(SeededNoise(11), family)("counts", exact, scale * lattice)
    noisy = NoisyCounts(values=drawn / lattice, family=f"discrete {family}", scale=scale)
    estimate = estimate_density(noisy)
    covered = ((estimate.low <= level) & (level <= estimate.high)).mean()
    assert covered >= 0.945
    if level == 100:
        assert covered <= 0.96
    assert (estimate.low <= estimate.people).all()
    assert (estimate.people <= estimate.high).all()
    assert (estimate.low >= 0).all()


def test_city_total_is_not_biased_by_removing_negatives():
    lattice = 2**20
    exact = np.full((300, 200), 2 * lattice, np.int64)
    drawn = SeededNoise(3).gaussian("counts", exact, 20.0 * lattice) / lattice
    estimate = estimate_density(NoisyCounts(values=drawn, family="discrete gaussian", scale=20.0))
    bias = estimate.people.sum() / (2 * 300 * 200) - 1
    clipped = np.maximum(drawn, 0).sum() / (2 * 300 * 200) - 1
    assert abs(bias) < 0.25
    assert clipped > 3  # what plain clipping would have done


def test_half_width_is_the_95_percent_point():
    assert half_width(NoisyCounts(values=np.zeros((1, 1)), family="discrete gaussian", scale=1.0)) == (
        pytest.approx(1.959964)
    )
    # P(|Laplace| > b ln 20) = 1/20
    assert half_width(NoisyCounts(values=np.zeros((1, 1)), family="discrete laplace", scale=2.0)) == (
        pytest.approx(2 * np.log(20))
    )


def test_decimals_are_as_declared():
    noisy = NoisyCounts(values=np.array([[1.23456]]), family="discrete gaussian", scale=0.1)
    assert estimate_density(noisy, 2).people.tolist() == [[1.23]]
    assert estimate_density(noisy, 0).people.tolist() == [[1.0]]


def test_it_takes_nothing_but_noisy_counts():
    assert list(inspect.signature(shoal.postprocess.density.numbers.estimate_density).parameters) == [
        "noisy",
        "decimals",
    ]
