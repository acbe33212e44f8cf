"""Totals three ways, and integer components: their costs, exact arithmetic, refusal of what does not fit."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.fft
from tests.loops import for_each

from shoal.errors import GuaranteeError
from shoal.privacy.noise import GAUSSIAN, LAPLACE, Adder, SeededNoise, ceil_sqrt
from shoal_baselines.counting import CoverCounts
from shoal_baselines.mechanisms.scheme import (
    SHIFT,
    STEPS,
    TRANSFORM_BITS,
    TotalsByOneVisit,
    TotalsOfSeries,
    TotalsScaledUp,
    coefficients,
    components,
    series_of,
    tails,
)

LATTICE = 2**20
QUIET = Adder(GAUSSIAN, 1.0)
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


def test_each_way_estimates_the_visits_inside():
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


@for_each("family", [GAUSSIAN, LAPLACE], ids=lambda family: family.name)
@for_each("nano", [1, 12_345, 10**9, 7 * 10**9])
@for_each("sensitivity", [1, 250, 30 * 2**20])
def test_adders_use_what_they_may_and_not_more(family, nano, sensitivity):
    made = Adder.within(family, nano, sensitivity)
    cost = made.cost(sensitivity)
    spent = cost.rho_nano if family is GAUSSIAN else cost.pure_epsilon_nano
    assert nano - 1 <= spent <= nano
    assert (cost.pure_epsilon_nano is None) == (family is GAUSSIAN)


def test_costs_follow_from_the_worst_user_and_roots_round_up():
    gaussian, laplace = Adder(GAUSSIAN, 40.0 * LATTICE), Adder(LAPLACE, 40.0 * LATTICE)
    visits = Adder(GAUSSIAN, 100.0)
    series = TotalsOfSeries(totals=gaussian, ell=30, lattice=LATTICE).spends()
    assert [(n, s.rho) for n, s in series] == [("totals", 30**2 / (2 * 40**2))]
    one = TotalsByOneVisit(totals=gaussian, visits=visits, cap=50, lattice=LATTICE).spends()
    assert [(n, s.rho) for n, s in one] == [("totals", 1 / (2 * 40**2)), ("visits", 0.125)]
    pure = TotalsOfSeries(totals=laplace, ell=30, lattice=LATTICE).spends()
    assert pure[0][1].pure_epsilon_nano == 750_000_000
    assert [ceil_sqrt(n) for n in (0, 1, 2, 4, 5, 10**30, 10**30 + 1)] == [0, 1, 2, 2, 3, 10**15, 10**15 + 1]


@for_each("amount", [1, 3, 7, 10**9 + 1, 10**12])
@for_each("power", [1, 2**40, 10**25 + 1])
@for_each("family", [GAUSSIAN, LAPLACE], ids=lambda family: family.name)
def test_the_scale_is_the_least_that_the_exact_bound_allows(family, amount, power):
    """Against the root in 60 digits: never below, at most two units in the last place above."""
    with mpmath.workdps(60):
        bound = mpmath.root(mpmath.mpf(power) * 10**9 / (family.norm * amount), family.norm)
        scale = family.scale(amount, power)
        assert bound <= scale <= bound + 2 * math.ulp(float(bound))
    assert family.amount(scale, power) <= amount


@for_each("shift", [1, 250, 30 * 2**20])
def test_a_choice_costs_its_bounded_range(shift):
    """r = 2 shift / s: r for pure epsilon, r^2 / 8 for rho."""
    r = Fraction(2 * shift) / Fraction(3.7)
    assert LAPLACE.amount(3.7, LAPLACE.choice(shift)) == math.ceil(r * 10**9)
    assert GAUSSIAN.amount(3.7, GAUSSIAN.choice(shift)) == math.ceil(r**2 / 8 * 10**9)


@for_each("slots", [1, 2, 7, 168, 700])
def test_same_as_scipy_to_a_step_or_so(slots):
    units = np.random.default_rng(slots).integers(0, 2**30, (3, slots))
    expected = scipy.fft.dct(units.astype(float), type=2, norm="ortho", axis=1) * STEPS
    waves_rounded = units.sum(axis=1, keepdims=True) / 2**SHIFT
    assert (np.abs(coefficients(units) - expected) <= waves_rounded + 2).all()


def test_floors_there_and_back_without_overflow():
    rng = np.random.default_rng(0)
    units = rng.integers(0, 2**45, (2, 9))
    block = components(0, 9, 9)
    for row in range(2):
        for k in range(9):
            whole = sum(int(w) * int(u) for w, u in zip(block[k], units[row], strict=True))
            assert coefficients(units)[row, k] == whole // 2**SHIFT
    units = np.random.default_rng(1).integers(0, 2**35, (4, 24))
    np.testing.assert_allclose(series_of(coefficients(units) / STEPS), units, atol=2**14)
    for slots in (1, 168, 2**11):
        units = np.zeros((1, slots), np.int64)
        units[0, :] = (2**53 - 1) // slots
        top = int(units[0, 0]) * slots * STEPS / np.sqrt(slots)
        assert coefficients(units)[0, 0] == pytest.approx(top, rel=1e-5)
    with pytest.raises(GuaranteeError, match="noise-lattice"):
        coefficients(np.full((1, 2), 2**52))
    with pytest.raises(GuaranteeError, match="noise-lattice"):
        coefficients(np.ones((1, 2)))


@pytest.mark.parametrize("slots", [1, 5, 168])
def test_components_are_within_one_of_the_true_ones(slots):
    exact = scipy.fft.dct(np.eye(slots), type=2, norm="ortho", axis=0) * 2**TRANSFORM_BITS
    assert np.abs(components(0, slots, slots) - exact).max() < 0.51


def test_tails_are_floors_of_exact_norms():
    row = np.random.default_rng(3).integers(-(2**57), 2**57, 20)
    result = tails(row)
    for k in range(1, 21):
        left = sum(Fraction(int(c)) ** 2 for c in row[k:])
        assert int(result[k - 1]) ** 2 <= left < (int(result[k - 1]) + 1) ** 2
    assert result[-1] == 0
