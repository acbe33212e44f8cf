"""The papers' arguments, planted: replay must see that each claims less than a worst user costs."""

from dataclasses import replace

import numpy as np
from tests.loops import for_each

from shoal.auditing.replay import replay
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import GAUSSIAN, Adder, ceil_sqrt
from shoal_baselines.counting import CoverCounts
from shoal_baselines.mechanisms import efpa as density_efpa
from shoal_baselines.mechanisms.efpa import DensityEfpa
from shoal_baselines.mechanisms.efpag import DensityEfpag
from shoal_baselines.mechanisms.scheme_steps import STEPS
from shoal_baselines.mechanisms.scheme_totals import TotalsByOneVisit, TotalsOfSeries
from shoal_baselines.space.cover import example_cover

LATTICE, CELLS, SLOTS, ELL, CAP = 2**20, 9, 12, 9, 20
PUBLIC = {"slots": SLOTS, "ell": ELL, "cap": CAP}


class Large:
    """Large totals, so that every cell is a cluster; all coefficients kept, or the first one only."""

    publishable = False

    def __init__(self, kept):
        self.kept = kept

    def gaussian(self, name, exact, sigma):
        return np.full(exact.shape, 2**45 if name == "totals" else 7, np.int64)

    laplace = gaussian

    def choose(self, name, scores, scale):
        return min(self.kept, scores.size) - 1


def city(users, visits):
    """`users` with all visits in the first cell, or spread one to a cell."""
    units = np.zeros((CELLS, SLOTS), np.int64)
    for slot in range(ELL if users else 0):
        units[slot if visits == "spread" else 0, slot] += LATTICE
    one = np.zeros(CELLS, np.int64)
    one[0] = users * LATTICE
    shape = {"lattice": LATTICE, "ell": ELL, "cap": CAP}
    return CoverCounts(units=units, one_visit=one, visits=users * CAP, **shape)


def problems(mechanism, visits, kept, claim=None):
    def run(users):
        return lambda noise: mechanism(city(users, visits), noise).series.tobytes()

    return replay(run(0), run(1), claim or mechanism.loss(), Large(kept), bytes(16)).problems


def gaussian(**changes):
    budget = Budget.approximate(epsilon=60.0, delta=1e-6)
    return replace(DensityEfpag.basic(budget, example_cover(CELLS), **PUBLIC), **changes)


def pure(**changes):
    return replace(DensityEfpa.improved(Budget.pure_epsilon(60.0), example_cover(CELLS), **PUBLIC), **changes)


@for_each("visits", ["one cell", "spread"])
@for_each("kept", [1, 99])
@for_each("mechanism", [gaussian(), pure()], ids=lambda m: m.name)
def test_the_true_ones_pass(mechanism, visits, kept):
    assert problems(mechanism, visits, kept) == ()


class RootTotals(TotalsOfSeries):
    """Totals charged with sqrt(ell) in L2."""

    def spends(self):
        return (("totals", self.totals.cost(ceil_sqrt(self.ell * self.lattice**2))),)


def test_totals_charged_with_the_root_of_ell_are_caught():
    adder = Adder.within(GAUSSIAN, 10**9, 3 * LATTICE)
    mechanism = gaussian(totals=RootTotals(totals=adder, ell=ELL, lattice=LATTICE))
    assert problems(mechanism, "one cell", 99) != ()


def test_choices_charged_once_for_all_clusters_are_caught(monkeypatch):
    """One run with S = sqrt(ell), in pure mode; nine clusters move."""
    monkeypatch.setattr(density_efpa, "shift_summed", lambda ell, *_: STEPS * ceil_sqrt(ell * LATTICE**2))
    mechanism = pure(select_nano=300 * 10**9)  # so large that no other share's slack can hide it
    assert problems(mechanism, "spread", 1) != ()
    monkeypatch.undo()
    assert problems(mechanism, "spread", 1) == ()


class RootScales(DensityEfpa):
    """Laplace scale sqrt(k) sqrt(ell) / eps for every cluster."""

    def reach(self, clusters):
        scale = STEPS * ceil_sqrt(self.touched * self.lattice**2)
        return scale, scale


def test_scales_that_ignore_the_spread_over_clusters_are_caught():
    true = pure()
    planted = RootScales(**{name: getattr(true, name) for name in true.__dataclass_fields__})
    assert problems(planted, "spread", 99) != ()


class ExactUsers(TotalsByOneVisit):
    """N left exact, as in the paper: it reaches the totals without noise."""

    def __call__(self, exact, noise):
        noisy = super().__call__(exact, noise)
        users = exact.one_visit.sum() / self.lattice
        return replace(noisy, visits=noisy.visits * (1 + users))


def test_an_exact_number_of_users_is_caught():
    adders = {"totals": Adder(GAUSSIAN, 9.0 * LATTICE), "visits": Adder(GAUSSIAN, 9.0 * CAP)}
    totals = ExactUsers(cap=CAP, lattice=LATTICE, **adders)

    def run(users):
        mechanism = gaussian(totals=totals)
        return lambda noise: mechanism(city(users, "spread"), noise).totals.visits.tobytes()

    verdict = replay(run(0), run(1), Loss(10**12), Large(99), bytes(16))
    assert verdict.problems == ("released bytes differ",)
