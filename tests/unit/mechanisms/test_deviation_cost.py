"""Deviation costs against fractions, and what one unit can change them by."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.privacy.accounting import Budget
from shoal_baselines.mechanisms.histogram_dawa import Groups, NoisyCosts, deviation_costs


def in_fractions(cells, group, groups):
    costs = []
    for number in range(groups):
        own = [int(c) for c, g in zip(cells, group, strict=True) if g == number]
        mean = Fraction(sum(own), max(len(own), 1))
        costs.append(math.floor(sum((abs(c - mean) for c in own), Fraction(0))))
    return costs


@for_each("seed", range(20))
def test_costs_are_exact(seed):
    generator = np.random.default_rng(seed)
    groups = int(generator.integers(1, 6))
    cells = generator.integers(0, 10 ** int(generator.integers(1, 13)), 40)
    group = generator.integers(0, groups, 40)
    assert deviation_costs(cells, group, groups).tolist() == in_fractions(cells, group, groups)


def test_large_sums_do_not_overflow():
    cells = np.zeros(2**16, np.int64)
    cells[0] = 2**52
    cost = deviation_costs(cells, np.zeros(2**16, np.int64), 1)
    assert cost.tolist() == [2 * 2**52 - 2 * 2**52 // 2**16]


@pytest.mark.parametrize("lattice", [1, 12, 2**20])
def test_no_unit_moves_the_costs_of_a_partition_by_more_than_the_bound(lattice):
    """Trips of one to four cells on small maps, the first of them empty and in one group: the worst case."""
    generator = np.random.default_rng(lattice)
    reached = 0.0
    for turn in range(60):
        cells = generator.integers(0, 3 * lattice + 2, 16) * (generator.random(16) < 0.7) * (turn > 0)
        groups = int(generator.integers(1, 5)) if turn else 1
        group = generator.integers(0, groups, 16)
        bound = Groups(groups, int(np.bincount(group).max())).sensitivity(lattice)
        before = deviation_costs(cells, group, groups)
        for size in range(1, 5):
            after = cells.copy()
            after[generator.choice(16, size, replace=False)] += lattice // size
            change = np.abs(deviation_costs(after, group, groups) - before).sum()
            assert change <= bound
            reached = max(reached, change / bound)
    assert reached > (0.3 if lattice == 1 else 0.9)  # on a lattice of 1 most of it is rounding


def test_every_partition_is_charged_and_nothing_left_is_said():
    share, _ = Budget.of(1.0, None).take("costs", 1)
    costs = NoisyCosts.within(share, 2**20, [Groups(1, 64), Groups(4, 16), Groups(16, 4)])
    assert [name for name, _ in costs.spends()] == ["costs"]
    assert 0.999999 < costs.spends()[0][1].pure_epsilon_nano / 1e9 <= 1.0
    single = NoisyCosts.within(share, 2**20, [Groups(1, 64)])
    assert costs.adders[0].scale == pytest.approx(3 * single.adders[0].scale)
    share, _ = Budget.of(1e-9, None).take("costs", 1)
    with pytest.raises(PlanError, match="nothing is left"):
        NoisyCosts.within(share, 1, [Groups(1, 4), Groups(4, 1)])
