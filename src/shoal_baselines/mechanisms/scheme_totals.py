"""Noisy total of visits per cover cell, one class for each way to get it.

TotalsOfSeries     sums over time of the bounded series. All ell visits of a user may fall in one cell, so
                   L1 = L2 = ell. (Acs and Castelluccia 2014 with Laplace noise: the same. Their later paper
                   uses sqrt(ell) in L2, which is too little by sqrt(ell).)
TotalsScaledUp     the same, with one more bin for what lies outside all cells, times K-hat / their noisy sum:
                   the bound on visits keeps its shares and loses no visits. L1 = L2 = ell, and M for K.
TotalsByOneVisit   "improved scaling", their section 5.4.1: one uniformly chosen visit per user gives a
                   histogram of L1 = L2 = 1, times K-hat / N-hat. K is computed from at most M visits per user
                   and noised by M. N-hat is the sum of the noisy bins and of one more for what lies outside
                   all cells: free. Deviation: they leave N exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Adder, Noise, adder_within
from shoal.stages.noisy import NoisyTotals
from shoal_baselines.counting import CoverCounts

BOUND_LOSS = 0.06  # share of visits that a bound of about 30 leaves out on simulated cities: a guess, public

# Shares of the budget, each of what the earlier ones left. The paper halves: scaling and series, then in
# scaling the number of visits and the histogram, in series the choice of k and the noise.
VISITS, TOTALS, SERIES_TOTALS = Fraction(1, 4), Fraction(1, 3), Fraction(1, 2)
SCALED_VISITS, SCALED_TOTALS = Fraction(1, 10), Fraction(1, 2)  # tuned on the simulated city paris


@dataclass(frozen=True, kw_only=True)
class TotalsOfSeries:
    """Visits per cell of the bounded series: below the truth by what the bound on visits left out."""

    totals: Adder
    ell: int  # visits of a user at most: of ell and slots the smaller
    lattice: int

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("totals", self.totals.cost(self.ell * self.lattice)),)

    def __call__(self, exact: CoverCounts, noise: Noise) -> NoisyTotals:
        noisy = self.totals.add(noise, "totals", exact.units.sum(axis=1))
        deviation = self.totals.deviation / self.lattice
        return NoisyTotals(
            visits=noisy / self.lattice, deviation=deviation, per_count=1.0, ratio_deviation=BOUND_LOSS
        )

    @classmethod
    def within(cls, budget: Budget, *, ell: int, lattice: int) -> tuple[TotalsOfSeries, Budget]:
        """Its share of the budget, and what is left."""
        totals, budget = budget.take("totals", SERIES_TOTALS)
        return cls(totals=adder_within(totals, ell * lattice), ell=ell, lattice=lattice), budget


@dataclass(frozen=True, kw_only=True)
class TotalsScaledUp:
    """Visits per cell of the bounded series, scaled to all visits by K-hat over their noisy sum."""

    totals: Adder
    visits: Adder
    ell: int  # visits of a user at most: of ell and slots the smaller
    cap: int  # M: visits of a user that enter K
    lattice: int

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        whole = self.totals.cost(self.ell * self.lattice)
        return (("totals", whole), ("visits", self.visits.cost(self.cap)))

    def __call__(self, exact: CoverCounts, noise: Noise) -> NoisyTotals:
        bins = np.append(exact.units.sum(axis=1), np.int64(exact.units_outside))
        noisy = self.totals.add(noise, "totals", bins) / self.lattice
        visits = float(self.visits.add(noise, "visits", np.array([exact.visits], np.int64))[0])
        # The bound drops visits and adds none; who is at M places within one slot keeps one of M: public.
        return _scaled(noisy, visits, self, largest=float(self.cap))

    @classmethod
    def within(cls, budget: Budget, *, ell: int, cap: int, lattice: int) -> tuple[TotalsScaledUp, Budget]:
        """Their shares of the budget, and what is left."""
        visits, budget = budget.take("visits", SCALED_VISITS)
        totals, budget = budget.take("totals", SCALED_TOTALS)
        adders = {"totals": adder_within(totals, ell * lattice), "visits": adder_within(visits, cap)}
        return cls(ell=ell, cap=cap, lattice=lattice, **adders), budget


@dataclass(frozen=True, kw_only=True)
class TotalsByOneVisit:
    """Histogram of one visit per user, scaled to all visits by K-hat / N-hat."""

    totals: Adder
    visits: Adder
    cap: int  # M: visits of a user that enter K
    lattice: int

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("totals", self.totals.cost(self.lattice)), ("visits", self.visits.cost(self.cap)))

    def __call__(self, exact: CoverCounts, noise: Noise) -> NoisyTotals:
        bins = np.append(exact.one_visit, np.int64(exact.outside))
        noisy = self.totals.add(noise, "totals", bins) / self.lattice
        visits = float(self.visits.add(noise, "visits", np.array([exact.visits], np.int64))[0])
        # Everyone who is counted has at least one visit and enters with at most `cap`: public.
        return _scaled(noisy, visits, self, largest=float(self.cap))

    @classmethod
    def within(cls, budget: Budget, *, cap: int, lattice: int) -> tuple[TotalsByOneVisit, Budget]:
        """Their shares of the budget, and what is left."""
        visits, budget = budget.take("visits", VISITS)
        totals, budget = budget.take("totals", TOTALS)
        adders = {"totals": adder_within(totals, lattice), "visits": adder_within(visits, cap)}
        return cls(cap=cap, lattice=lattice, **adders), budget


def _scaled(
    noisy: np.ndarray, visits: float, how: TotalsScaledUp | TotalsByOneVisit, largest: float
) -> NoisyTotals:
    """Noisy bins (the last one outside) times visits over their sum, a ratio between 1 and `largest`."""
    counted = max(float(noisy.sum()), 1.0)
    ratio = min(max(visits / counted, 1.0), largest)
    deviation = how.totals.deviation / how.lattice
    doubt = np.hypot(how.visits.deviation / max(visits, 1.0), deviation * np.sqrt(len(noisy)) / counted)
    return NoisyTotals(
        visits=noisy[:-1] * ratio,
        deviation=deviation * ratio,
        per_count=ratio,
        ratio_deviation=float(min(doubt, 1.0)),
    )


Totals = TotalsOfSeries | TotalsScaledUp | TotalsByOneVisit
