"""Totals three ways: what they estimate without much noise, what they cost, and noisy K and N of any sign."""

from fractions import Fraction

import numpy as np
import pytest
from tests.loops import for_each

from shoal.mechanisms.adders import GaussianAdder, LaplaceAdder, ceil_sqrt, float_at_least
from shoal.privacy.noise import SeededNoise
from shoal_baselines.counting import CoverCounts
from shoal_baselines.mechanisms.scheme_totals import TotalsByOneVisit, TotalsOfSeries, TotalsScaledUp

LATTICE = 2**20
QUIET = GaussianAdder(1.0)
ADDERS = {"totals": QUIET, "visits": QUIET, "lattice": LATTICE, "cap": 9}
WAYS = {
    "series": TotalsOfSeries(totals=QUIET, ell=3, lattice=LATTICE),
    "scaled": TotalsScaledUp(ell=3, **ADDERS),
    "one visit": TotalsByOneVisit(**ADDERS),
}


def exact(visits=6000, outside=0, units_outside=0):
    units = np.array([[100, 300], [400, 1200]]) * LATTICE
    one_visit = np.array([200, 800]) * LATTICE
    return CoverCounts(
        units=units,
        one_visit=one_visit,
        outside=outside,
        units_outside=units_outside,
        visits=visits,
        lattice=LATTICE,
        ell=3,
        cap=9,
    )


EXPECTED = {"series": [400, 1600], "scaled": [1200, 4800], "one visit": [1200, 4800]}


@pytest.mark.parametrize("way", WAYS)
def test_what_each_estimates(way):
    totals = WAYS[way](exact(), SeededNoise(1))
    np.testing.assert_allclose(totals.visits, EXPECTED[way], rtol=1e-3)


def test_visits_outside_all_cells_are_not_handed_to_cells():
    """Half of all one visits lie outside: the cells get half of K."""
    half = exact(outside=1000 * LATTICE, units_outside=2000 * LATTICE)
    for way in ("scaled", "one visit"):
        assert WAYS[way](half, SeededNoise(1)).visits.sum() == pytest.approx(3000, rel=1e-2)


class Fixed:
    publishable = False

    def __init__(self, **answers):
        self.answers = answers

    def gaussian(self, name, query, sigma):
        return np.full(query.shape, self.answers[name], np.int64)


@for_each("totals", [-(2**40), 0, 5, 2**40])
@for_each("visits", [-(2**40), 0, 1, 2**40])
@for_each("way", ["scaled", "one visit"])
def test_any_noisy_numbers_give_finite_totals_and_a_ratio_that_can_be(way, totals, visits):
    noisy = WAYS[way](exact(), Fixed(totals=totals, visits=visits))
    assert np.isfinite(noisy.visits).all()
    assert 1 <= noisy.per_count <= 9
    assert 0 <= noisy.ratio_deviation <= 1


@for_each("adder", [GaussianAdder, LaplaceAdder])
@for_each("nano", [1, 12_345, 10**9, 7 * 10**9])
@for_each("sensitivity", [1, 250, 30 * 2**20])
def test_adders_use_what_they_may_and_not_more(adder, nano, sensitivity):
    made = adder.within(nano, sensitivity)
    cost = made.cost(sensitivity)
    spent = cost.rho_nano if adder is GaussianAdder else cost.pure_epsilon_nano
    assert nano - 1 <= spent <= nano
    assert (cost.pure_epsilon_nano is None) == (adder is GaussianAdder)


def test_costs_follow_from_the_worst_user():
    gaussian, laplace = GaussianAdder(40.0 * LATTICE), LaplaceAdder(40.0 * LATTICE)
    visits = GaussianAdder(100.0)
    series = TotalsOfSeries(totals=gaussian, ell=30, lattice=LATTICE).spends()
    assert [(n, s.rho) for n, s in series] == [("totals", 30**2 / (2 * 40**2))]
    one = TotalsByOneVisit(totals=gaussian, visits=visits, cap=50, lattice=LATTICE).spends()
    assert [(n, s.rho) for n, s in one] == [("totals", 1 / (2 * 40**2)), ("visits", 0.125)]
    pure = TotalsOfSeries(totals=laplace, ell=30, lattice=LATTICE).spends()
    assert pure[0][1].pure_epsilon_nano == 750_000_000


def test_roots_and_floats_round_up():
    assert [ceil_sqrt(n) for n in (0, 1, 2, 4, 5, 10**30, 10**30 + 1)] == [0, 1, 2, 2, 3, 10**15, 10**15 + 1]
    for bound in (Fraction(1, 3), Fraction(10**25 + 1, 7), Fraction(2**60 + 1)):
        assert Fraction(float_at_least(bound)) >= bound
        assert float_at_least(bound) == pytest.approx(float(bound), rel=1e-15)
