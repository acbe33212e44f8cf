"""The noise of a table of movement is what its mechanism says: accepted as claimed, rejected 20 % off.

Chi-square over bins of the continuous limit, which differs from the lattice's by far less than can be seen.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from tests.loops import for_each

from shoal.mechanisms.audit_size import path_setting
from shoal.mechanisms.synthetic.bridges import SHARES, SyntheticBridges
from shoal.mechanisms.trip_totals import PathTotals
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import OsNoise, SeededNoise
from shoal.stages.trips import LATTICE

ALARM = 1e-6
DRAWS = 12_000
MASS = 41  # in every place, of whole contributions
SOURCES = {"operating system": lambda: OsNoise(processes=1), "seeded": lambda: SeededNoise(4)}


def p_value(deviation, pure, noise, bins=24):
    """Chi-square of draws in bins that are equally likely under the claim."""
    law = stats.laplace(scale=deviation / np.sqrt(2)) if pure else stats.norm(scale=deviation)
    seen = np.bincount((law.cdf(noise) * bins).astype(int).clip(0, bins - 1), minlength=bins)
    return stats.chisquare(seen).pvalue


def check(deviation, pure, noise):
    assert p_value(deviation, pure, noise) > ALARM
    assert p_value(deviation * 1.2, pure, noise) < ALARM
    assert p_value(deviation * 0.8, pure, noise) < ALARM


def queries(size):
    """A table with the same mass everywhere."""
    return SimpleNamespace(table=lambda table, norm: np.full(size, MASS * LATTICE, np.int64))


@for_each("source", sorted(SOURCES))
@for_each(("epsilon", "delta"), [(1.0, None), (2.0, 1e-6)])
@for_each("name", ["moves", "starts_0"])
def test_tables_have_the_deviation_that_is_said(name, epsilon, delta, source):
    mechanism = SyntheticBridges.within(Budget.of(epsilon, delta), path_setting(each_trip=True))
    noise_of = mechanism.noises(1000.0)[name]
    noisy = noise_of(queries(DRAWS), None, SOURCES[source]())
    check(noisy.deviation, delta is None, noisy.values - MASS)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, None), (2.0, 1e-6)])
def test_the_deviation_follows_from_the_share_of_the_budget(epsilon, delta):
    """By hand: Laplace noise of a share s has deviation sqrt(2) / (s epsilon), Gaussian 1 / sqrt(2 s rho)."""
    budget = Budget.of(epsilon, delta)
    mechanism = SyntheticBridges.within(budget, path_setting(each_trip=True, trips=1000))
    total = sum(share for name, share in SHARES.items() if name != "corners")  # not measured for 1000 trips
    for name in ("moves", "flows", "days"):
        part = SHARES[name] / total * budget.left / 1e9
        known = np.sqrt(2) / part if delta is None else 1 / np.sqrt(2 * part)
        assert mechanism.noises(1000.0)[name].deviation == pytest.approx(known, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, None), (2.0, 1e-6)])
def test_the_number_of_trips_has_noise_for_its_cap(epsilon, delta):
    totals, _ = PathTotals.within(Budget.of(epsilon, delta), path_setting(cap=40))
    trips, noise = SimpleNamespace(all_trips=lambda: 10**6), SeededNoise(3)
    drawn = np.array([totals(trips, noise) for _ in range(4000)]) - 10**6
    check(totals.trips.deviation, delta is None, drawn)
    part = 0.02 * Budget.of(epsilon, delta).left / 1e9
    known = np.sqrt(2) * 40 / part if delta is None else 40 / np.sqrt(2 * part)
    assert totals.trips.deviation == pytest.approx(known, rel=1e-6)
