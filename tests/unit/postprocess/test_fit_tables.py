"""Projections onto totals and margins, against general solvers."""

import numpy as np
import pytest
from scipy.optimize import brentq
from tests.loops import for_each

from shoal.postprocess.synthetic.numbers import (
    conditional,
    onto_own_total,
    onto_total,
    onto_totals,
    to_margins,
)


def projected(values, total):
    """The nearest non-negative table of the total: all lowered by one number, found by bisection."""
    wide = np.abs(values).max() + total + 1
    level = brentq(lambda cut: np.maximum(values - cut, 0).sum() - total, -wide, wide, xtol=1e-13)
    return np.maximum(values - level, 0)


@for_each("seed", range(20))
def test_onto_total_is_the_nearest_table(seed):
    chance = np.random.default_rng(seed)
    values = chance.normal(0, 3, int(chance.integers(1, 60)))
    total = float(chance.choice([1e-3, 1.0, 20.0, 500.0]))
    assert onto_total(values, total) == pytest.approx(projected(values, total), abs=1e-8)


def test_onto_totals_of_extremes_and_of_busy_places():
    assert onto_total(np.array([-5.0, -7.0]), 1.0).tolist() == [1.0, 0.0]
    assert onto_total(np.array([4.0, 4.0]), 0.0).tolist() == [0.0, 0.0]
    assert onto_total(np.array([4.0]), -3.0).tolist() == [0.0]
    assert onto_total(np.empty(0), 3.0).tolist() == []
    assert onto_total(np.array([[1.0, 2.0], [-9.0, 1.0]]), 4.0).tolist() == [[1.0, 2.0], [0.0, 1.0]]
    # Ten busy places among 2000 empty ones: the busy ones keep nearly all, as they have it.
    chance = np.random.default_rng(3)
    truth = np.where(np.arange(2000) < 10, 300.0, 0.0)
    found = np.mean([onto_own_total(truth + chance.normal(0, 1, 2000), 3000.0)[:10].sum() for _ in range(20)])
    assert found > 2900


@pytest.mark.parametrize("size", [1e17, 1e25, -1e25])
def test_noise_far_above_the_total_leaves_the_total(size):
    """Where one value and the total differ by more than floats have digits."""
    assert onto_total(np.array([size, size - abs(size) / 2]), 1.0).tolist() == [1.0, 0.0]
    group = np.array([0, 0, 1])
    assert onto_totals(np.array([size, size - abs(size) / 2, 1.0]), group, np.array([1.0, 2.0])).sum() == 3.0
    assert onto_own_total(np.array([size, -abs(size)]), 1.0).sum() == pytest.approx(1.0)


@for_each("seed", range(10))
def test_onto_totals_is_onto_total_of_every_group(seed):
    chance = np.random.default_rng(seed)
    group = chance.integers(0, 9, 80)  # in any order; some groups may be empty
    values, totals = chance.normal(0, 5, 80), chance.choice([0.0, 0.1, 7.0, 90.0], 12)
    found = onto_totals(values, group, totals)
    for one in range(12):
        own = group == one
        assert found[own] == pytest.approx(onto_total(values[own], totals[one]), abs=1e-9)


@for_each("seed", range(10))
def test_onto_own_total_keeps_shares_and_takes_noise_off_twice(seed):
    chance = np.random.default_rng(seed)
    values = chance.gamma(0.5, 9, 40)
    assert onto_own_total(values, 5.0) == pytest.approx(values * 5 / values.sum())
    noisy = values + chance.normal(0, 2, 40)
    kept = max(noisy.sum() - np.maximum(-noisy, 0).sum(), 0.3 * 200)
    assert onto_own_total(noisy, 200.0) == pytest.approx(projected(noisy, kept) * 200 / kept, rel=1e-6)
    assert onto_own_total(-values, 5.0).sum() == pytest.approx(5.0)


@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (5, 8, 8)])
def test_margins_are_met_and_ratios_of_the_seed_stay(shape):
    chance = np.random.default_rng(len(shape))
    seed = chance.uniform(0.2, 3, shape)
    rows, columns = chance.uniform(1, 9, shape[:-1]), chance.uniform(1, 9, (*shape[:-2], shape[-1]))
    fitted = to_margins(seed, rows, columns, 200)
    scaled = columns * rows.sum(-1, keepdims=True) / columns.sum(-1, keepdims=True)
    assert fitted.sum(-1) == pytest.approx(rows)
    assert fitted.sum(-2) == pytest.approx(scaled)
    # Only whole rows and columns are scaled: cross ratios of any four places are the seed's.
    for table in (seed, fitted):
        table /= table[..., :1, :]
        table /= table[..., :, :1]
    assert fitted == pytest.approx(seed)


def test_margins_of_tables_with_empty_places():
    fitted = to_margins(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([2.0, 4.0]), np.array([3.0, 3.0]), 500)
    assert fitted == pytest.approx(np.array([[2.0, 0.0], [1.0, 3.0]]), abs=0.01)
    assert np.isfinite(to_margins(np.zeros((2, 2)), np.zeros(2), np.zeros(2))).all()
    table = np.array([[1.0, 3.0], [0.0, 0.0]])
    assert conditional(table, np.array([[9.0, 1.0], [1.0, 4.0]])).tolist() == [[0.25, 0.75], [0.2, 0.8]]
    assert conditional(table, np.ones((2, 2))).sum(axis=1).tolist() == [1.0, 1.0]
