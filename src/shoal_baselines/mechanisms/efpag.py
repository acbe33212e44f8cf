"""Hourly counts by clusters of cover cells, in the frequency domain, with discrete Gaussian noise (EFPAG).

Guarantee    rho-zCDP: totals + eps0^2 / 8 for all choices of k together + Delta^2 / (2 sigma^2) for all
             coefficients of all clusters together; composed adaptively, converted once.
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine); a visit's
             fragments sum to at most one over the cells (checked by the cover).
Sensitivity  totals: see scheme.py. Series of all clusters: L2 <= sqrt(min(ell, slots)), since each slot moves
             by at most 1 in L1. An orthonormal transform keeps it; scheme.py adds
             what rounding to whole steps can, for as many clusters as there are cells. Which cells form a
             cluster, and every k, are functions of earlier noisy answers.
Public       cover, slots, ell, cap M, tau, all scales.
Source       Acs and Castelluccia 2014, algorithms 1 to 4.
Deviations   fragments in one cell each instead of subtracted overlaps; the choice of k paid for across
             clusters in zCDP; scales from rho instead of their constant, which holds for epsilon <= 1 only;
             N noised; discrete noise on integers.

>>> from shoal.privacy.accounting import Budget
>>> from shoal_baselines.space.cover import example_cover
>>> budget = Budget.approximate(epsilon=1.0, delta=1e-6)
>>> mechanism = DensityEfpag.improved(budget, example_cover(4), slots=168, ell=30, cap=250)
>>> [name for name, _ in mechanism.spends()]
['totals', 'visits', 'select', 'coefficients']
>>> 0.999 * budget.left < mechanism.loss().gdp_nano <= budget.left
True
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import GAUSSIAN, Adder, Noise, ceil_sqrt
from shoal_baselines.mechanisms.scheme import (
    STEPS,
    Scheme,
    Totals,
    TotalsByOneVisit,
    TotalsOfSeries,
    TotalsScaledUp,
    shift_squared,
    tau_of,
    transform_rounding,
)
from shoal_baselines.postprocess.scheme import cluster_cells
from shoal_baselines.space.cover import Cover

SELECT = Fraction(1, 2)  # of what the totals leave; the rest is for the coefficients
# The repaired variant: tuned on the simulated city paris.
REPAIRED_SELECT = Fraction(1, 10)
REPAIRED_TAU = 3.3  # in taus of the paper


@dataclass(frozen=True, kw_only=True)
class DensityEfpag(Scheme):
    """The scheme with Gaussian noise of one scale, and a public tau."""

    select: float  # scale of the choice of k, in steps: P(k) ~ exp(-u_k / select)
    coefficients: Adder  # in steps
    tau: float  # least noisy total of a cluster, in visits

    name = "density-efpag"

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        shape = (self.touched, self.cells, self.slots, self.lattice)
        return (
            *self.totals.spends(),
            ("select", GAUSSIAN.choice_cost(self.select, GAUSSIAN.choice(shift_squared(*shape)))),
            ("coefficients", self.coefficients.cost(coefficient_shift(*shape))),
        )

    def clusters_of(self, noisy_totals: np.ndarray) -> np.ndarray:
        return cluster_cells(noisy_totals, self.cover.cell_xy_m, self.cover.neighbours, self.tau)

    def noise_error(self, clusters: int) -> np.ndarray:
        return np.sqrt(np.arange(1, self.slots + 1)) * self.coefficients.deviation

    def select_scale(self, clusters: int) -> float:
        return self.select

    def add_noise(self, exact: np.ndarray, k: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
        chosen = np.arange(self.slots) < k[:, None]
        noisy = np.zeros(exact.shape)
        noisy[chosen] = self.coefficients.add(noise, "coefficients", exact[chosen])
        return noisy, np.full(len(k), self.coefficients.deviation)

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "least_cluster_visits": self.tau}

    @classmethod
    def within(
        cls,
        totals: Totals,
        budget: Budget,
        *,
        cover: Cover,
        slots: int,
        ell: int,
        cap: int,
        select: Fraction = SELECT,
        tau_factor: float = 1.0,
    ) -> DensityEfpag:
        """The least noise on what the totals leave; tau from the noise."""
        chosen, budget = budget.take("select", select)
        rest, _ = budget.take("coefficients", 1)
        shape = (min(ell, slots), cover.cells, slots, cover.lattice)
        adder = Adder.within(GAUSSIAN, rest.rho_nano, coefficient_shift(*shape))
        return cls(
            totals=totals,
            select=GAUSSIAN.choice_scale(chosen, GAUSSIAN.choice(shift_squared(*shape))),
            coefficients=adder,
            tau=tau_factor * tau_of(adder.deviation / (STEPS * cover.lattice), slots),
            cover=cover,
            slots=slots,
            ell=ell,
            cap=cap,
        )

    @classmethod
    def improved(cls, budget: Budget, cover: Cover, *, slots: int, ell: int, cap: int) -> DensityEfpag:
        """Totals by improved scaling, the scheme of the paper with its improvements."""
        totals, budget = TotalsByOneVisit.within(budget, cap=cap, lattice=cover.lattice)
        return cls.within(totals, budget, cover=cover, slots=slots, ell=ell, cap=cap)

    @classmethod
    def basic(cls, budget: Budget, cover: Cover, *, slots: int, ell: int, cap: int) -> DensityEfpag:
        """Totals from the bounded series, the scheme of the paper before its improvements."""
        totals, budget = TotalsOfSeries.within(budget, ell=min(ell, slots), lattice=cover.lattice)
        return cls.within(totals, budget, cover=cover, slots=slots, ell=ell, cap=cap)

    @classmethod
    def repaired(cls, budget: Budget, cover: Cover, *, slots: int, ell: int, cap: int) -> DensityEfpag:
        """Totals from the bounded series, scaled up to all visits; larger clusters."""
        totals, budget = TotalsScaledUp.within(budget, ell=min(ell, slots), cap=cap, lattice=cover.lattice)
        larger = {"select": REPAIRED_SELECT, "tau_factor": REPAIRED_TAU}
        return cls.within(totals, budget, cover=cover, slots=slots, ell=ell, cap=cap, **larger)


def coefficient_shift(ell: int, clusters: int, slots: int, lattice: int) -> int:
    """Joint L2 of what a user moves all coefficients of all clusters by, in steps, rounded up."""
    series = STEPS * ceil_sqrt(ell * lattice**2) + transform_rounding(ell, slots, lattice)
    return series + ceil_sqrt(clusters * slots)
