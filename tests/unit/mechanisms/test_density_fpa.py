"""Both Fourier densities: the transform, the bounds on one user by brute force, the noise that results."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.fft import dct, idct
from tests.loops import for_each

from shoal.errors import GuaranteeError, PlanError
from shoal.postprocess.density.numbers import plain_density
from shoal.privacy.noise import GAUSSIAN, LAPLACE, SeededNoise
from shoal.stages.exact import ExactCounts
from shoal_baselines.mechanisms.fpa import UNIT, DensityFpa, FourierBasis

LATTICE = 2**20


def counts(units, ell=3, column_l1=LATTICE, column_l2_squared=LATTICE**2):
    return ExactCounts(
        units=units, lattice=LATTICE, ell=ell, column_l1=column_l1, column_l2_squared=column_l2_squared
    )


def gaussian(amount=10**9, **changes):
    given = {"ell": 3, "slots": 12, "column": LATTICE**2, "lattice": LATTICE, "k": 5}
    return DensityFpa.within(GAUSSIAN, amount, **{**given, **changes})


def laplace(amount=10**9, **changes):
    given = {"ell": 3, "slots": 12, "column": LATTICE, "lattice": LATTICE, "k": 5}
    return DensityFpa.within(LAPLACE, amount, **{**given, **changes})


class Silent:
    """Adds nothing and notes what it was asked."""

    publishable = True

    def __init__(self):
        self.calls = []

    def gaussian(self, name, exact, sigma):
        self.calls.append(("gaussian", name, exact, sigma))
        return exact

    def laplace(self, name, exact, scale):
        self.calls.append(("laplace", name, exact, scale))
        return exact


@for_each(("k", "slots"), [(1, 1), (3, 3), (5, 12), (40, 168)])
def test_the_components_are_those_of_the_orthonormal_dct(k, slots):
    wanted = dct(np.eye(slots), norm="ortho", axis=0)[:k]
    assert np.abs(FourierBasis.first(k, slots).matrix - UNIT * wanted).max() <= 0.5 + 1e-9


def test_without_noise_the_low_components_come_back():
    rng = np.random.default_rng(1)
    people = rng.integers(0, 500, (4, 168))
    kept = dct(people, norm="ortho", axis=1)
    kept[:, 40:] = 0
    for mechanism, silent in ((gaussian(slots=168, k=40), Silent()), (laplace(slots=168, k=40), Silent())):
        noisy = mechanism(counts(people * LATTICE), silent)
        assert np.abs(noisy.values - idct(kept, norm="ortho", axis=1)).max() < 0.2  # entries to 2^-14
        ((family, name, query, scale),) = silent.calls
        noise = mechanism.noise
        assert (family, name, query.shape) == (noise.family.name, "coefficients", (4, 40))
        assert scale == noise.scale
        assert [step for step, _ in mechanism.spends()] == [name]


def test_all_components_are_all_of_the_counts():
    people = np.arange(24).reshape(2, 12)
    noisy = gaussian(k=99)(counts(people * LATTICE), Silent())
    assert noisy.values == pytest.approx(people, abs=0.05)


@for_each("k", [1, 2, 3, 5])
@for_each("ell", [1, 2, 3, 5, 9])
def test_no_user_moves_the_coefficients_by_more_than_the_bound(k, ell):
    """Every user of 5 slots and 2 zones, whole visits and shared ones, in exact integers."""
    slots, basis = 5, FourierBasis.first(k, 5)
    worst_l1 = worst_l2 = 0
    for visited in combinations(range(slots), min(ell, slots)):
        for shares in product(((4, 0), (0, 4), (3, 1)), repeat=len(visited)):
            change = np.zeros((2, slots), np.int64)
            for slot, share in zip(visited, shares, strict=True):
                change[:, slot] = share
            moved = basis.coefficients(change)
            worst_l1 = max(worst_l1, int(np.abs(moved).sum()))
            worst_l2 = max(worst_l2, int((moved**2).sum()))
    assert worst_l1 <= 4 * basis.l1(ell)
    assert worst_l2 <= 16 * basis.l2_squared(ell)
    # not loose either: the spec's bounds are sqrt(ell) in L2 and min(sqrt(k), k sqrt(2/T)) ell in L1
    visits = min(ell, slots)
    assert basis.l2_squared(ell) <= 1.01 * visits * UNIT**2
    assert basis.l1(ell) <= 1.001 * visits * UNIT * min(k**0.5, k * (2 / slots) ** 0.5)


def test_the_bound_for_all_slots_is_reached():
    """A user at the same place all week moves the first component alone, by sqrt(slots)."""
    basis = FourierBasis.first(1, 168)
    assert (basis.coefficients(np.ones((1, 168), np.int64)) ** 2).sum() == basis.l2_squared(168)


def test_one_visit_is_bounded_by_its_own_column():
    """Fewer components than slots: one visit moves the coefficients by less than a whole one."""
    basis = FourierBasis.first(20, 168)
    assert basis.l2_squared(1) == (basis.matrix**2).sum(axis=0).max() < 0.25 * UNIT**2


def test_long_windows_take_the_bound_by_components():
    basis = FourierBasis.first(10, 4000)
    assert UNIT**2 < basis.l2_squared(1) < 1.01 * UNIT**2


@for_each("amount", [1, 24_355_970, 3 * 10**9])
@for_each(("ell", "slots", "k"), [(1, 1, 1), (30, 168, 40), (500, 168, 300)])
def test_the_budget_is_used_and_not_more(amount, ell, slots, k):
    one = gaussian(amount, ell=ell, slots=slots, k=k)
    basis = FourierBasis.first(k, slots)
    loss = Fraction(LATTICE**2 * basis.l2_squared(ell)) / (2 * Fraction(one.noise.scale) ** 2)
    assert loss <= Fraction(amount, 10**9)
    assert amount - 1 <= one.loss().rho_nano <= amount
    assert one.loss().pure_epsilon_nano is None
    two = laplace(amount, ell=ell, slots=slots, k=k)
    assert Fraction(LATTICE * basis.l1(ell)) / Fraction(two.noise.scale) <= Fraction(amount, 10**9)
    assert two.loss().pure_epsilon_nano in (amount, amount - 1)


@pytest.mark.parametrize("build", [gaussian, laplace])
def test_the_stated_deviation_is_that_of_the_released_counts(build):
    mechanism = build()
    noisy = mechanism(counts(np.zeros((20_000, 12), np.int64)), SeededNoise(5))
    measured, stated = noisy.values.std(axis=0), noisy.scale * noisy.gain
    assert measured == pytest.approx(stated, rel=0.03)
    assert stated.std() > 0.05 * stated.mean()  # it does differ by slot
    assert mechanism.noise_of_count.deviation == pytest.approx(np.sqrt((stated**2).mean()))


@for_each("build", [gaussian, laplace])
@for_each("k", [1, 5, 12])
def test_intervals_cover_slow_counts_at_every_slot(build, k):
    mechanism = build(k=k)
    people = np.full((20_000, 12), 1000)  # far from zero: no interval is cut
    estimate = plain_density(mechanism(counts(people * LATTICE), SeededNoise(6)))
    covered = ((estimate.low <= people) & (people <= estimate.high)).mean(axis=0)
    assert (covered > 0.93).all()
    assert (covered < 0.97).all()


WRONG = {
    "looser bound": counts(np.zeros((2, 12), np.int64), ell=4),
    "other slots": counts(np.zeros((2, 11), np.int64)),
    "heavier weights": counts(
        np.zeros((2, 12), np.int64), column_l1=LATTICE + 1, column_l2_squared=LATTICE**2 + 1
    ),
    "raw": np.zeros((2, 12), np.int64),
}


@for_each("build", [gaussian, laplace])
@for_each("case", WRONG)
def test_other_counts_are_refused(build, case):
    silent = Silent()
    with pytest.raises(GuaranteeError):
        build()(WRONG[case], silent)
    assert silent.calls == []


def test_what_does_not_fit_and_no_component_at_all_are_refused():
    basis = FourierBasis.first(2, 2)
    with pytest.raises(GuaranteeError, match="noise-lattice"):
        basis.coefficients(np.full((1, 2), 2**61, np.int64))
    with pytest.raises(PlanError, match="plan-waves"):
        FourierBasis.first(0, 5)
