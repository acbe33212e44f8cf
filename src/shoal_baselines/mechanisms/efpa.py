"""Hourly counts by clusters of cover cells, in the frequency domain, with discrete Laplace noise (EFPA).

Guarantee    epsilon-DP: totals + eps0 for all choices of k together + eps1 for all coefficients together.
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine); a visit's
             fragments sum to at most one over the cells (checked by the cover).
Sensitivity  totals and choices: see scheme.py. Retained coefficients: a user moves the series
             of cluster E by d_E with sum |d_E|_1 <= ell and sum |d_E|_2^2 <= ell, hence, one bound for all:
               visits    L1 <= min(sqrt(k), k sqrt(2/T)) |d_E|_1,  scale min(sqrt(k), k sqrt(2/T)) ell / eps1
               clusters  L1 <= sqrt(k) |d_E|_2,                    scale sqrt(k) sqrt(clusters ell) / eps1
             Never mixed: which one holds for all clusters is decided from the noisy k's (the smaller noise).
             Rounding to whole steps is added to ell (to sqrt(clusters ell)), see `reach`.
Public       cover, slots, ell, cap M, all scales.
Source       Acs and Castelluccia 2014, algorithms 1 to 4, their EFPA.
Deviations   their scale sqrt(k) sqrt(ell) / eps1 does not cover a user spread over clusters; DCT instead of
             DFT here too; tau follows the number of clusters, since the noise does.

>>> from shoal.privacy.accounting import Budget
>>> from shoal_baselines.space.cover import example_cover
>>> budget = Budget.pure_epsilon(1.0)
>>> mechanism = DensityEfpa.improved(budget, example_cover(4), slots=168, ell=30, cap=250)
>>> [(name, spend.pure_epsilon_nano) for name, spend in mechanism.spends()]
[('totals', 250000000), ('visits', 250000000), ('select', 250000000), ('coefficients', 250000000)]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.privacy.accounting import NANO, Budget, Loss
from shoal.privacy.noise import LAPLACE, Noise, ceil_sqrt
from shoal_baselines.mechanisms.efpag import SELECT
from shoal_baselines.mechanisms.scheme import SHIFT, STEPS, Scheme, TotalsByOneVisit, shift_summed, tau_of
from shoal_baselines.postprocess.scheme import cluster_cells
from shoal_baselines.space.cover import Cover


@dataclass(frozen=True, kw_only=True)
class DensityEfpa(Scheme):
    """The scheme with Laplace noise, whose scales follow from the noisy k's; pure epsilon."""

    select_nano: int  # epsilon of all choices of k together
    coefficients_nano: int  # epsilon of all coefficients together

    name = "density-efpa"

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (
            *self.totals.spends(),
            ("select", Loss.pure(self.select_nano)),
            ("coefficients", Loss.pure(self.coefficients_nano)),
        )

    def clusters_of(self, noisy_totals: np.ndarray) -> np.ndarray:
        """Clusters at tau, where tau is that of at most as many clusters as there are."""
        tau = self.tau(1)
        for _ in range(2):  # a larger tau gives fewer clusters, whose tau is smaller: twice is enough
            cluster_of = cluster_cells(noisy_totals, self.cover.cell_xy_m, self.cover.neighbours, tau)
            tau = max(tau, self.tau(int(cluster_of.max(initial=0)) + 1))
        return cluster_of

    def noise_error(self, clusters: int) -> np.ndarray:
        k = np.arange(1, self.slots + 1)
        return np.minimum(*(LAPLACE.deviation * np.sqrt(k) * b for b in self._scales(k, clusters)))

    def select_scale(self, clusters: int) -> float:
        """2 S / eps0: the ranges of all choices add up to at most eps0."""
        shift = shift_summed(self.touched, clusters, self.slots, self.lattice)
        return LAPLACE.scale(self.select_nano, LAPLACE.choice(shift))

    def add_noise(self, exact: np.ndarray, k: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
        scales = self.scales(k)
        noisy = np.zeros(exact.shape)
        for cluster, (count, scale) in enumerate(zip(k, scales, strict=True)):
            row = exact[cluster, :count]
            noisy[cluster, :count] = noise.laplace("coefficients", row, float(scale))
        return noisy, LAPLACE.deviation * scales

    def scales(self, k: np.ndarray) -> np.ndarray:
        """float64 [clusters]: Laplace scales in steps, by the one bound that gives less noise over all."""
        by_visits, by_clusters = self._scales(k, len(k))
        return by_visits if (k * by_visits**2).sum() <= (k * by_clusters**2).sum() else by_clusters

    def _scales(self, k: np.ndarray, clusters: int) -> tuple[np.ndarray, np.ndarray]:
        """Scales for k retained coefficients under the bound by visits and under the bound by clusters."""
        root = np.sqrt(k) * (1 + 1e-12)  # the rounding of floats is on the safe side
        peak = np.minimum(root, k * math.sqrt(2.0 / self.slots) * (1 + 1e-12))
        if self.slots == 1:
            peak = root  # the one component of one slot has height 1, not sqrt(2)
        epsilon = self.coefficients_nano / NANO
        by_visits, by_clusters = self.reach(clusters)
        return peak * (by_visits / epsilon), root * (by_clusters / epsilon)

    def reach(self, clusters: int) -> tuple[int, int]:
        """Bounds on sum |d_E|_1 and sum |d_E|_2 in steps, with an allowance for rounding.

        Rounding moves the k coefficients of a touched cluster by at most k (|d_E|_1 / 2^24 + 1) in L1, and
        k is at most sqrt(T) times sqrt(k), and sqrt(T) times min(sqrt(k), k sqrt(2/T)).
        """
        whole = self.touched * self.lattice
        rounding = ceil_sqrt(self.slots) * ((whole >> SHIFT) + 1 + clusters)
        spread = ceil_sqrt(clusters * self.touched * self.lattice**2)
        return STEPS * whole + rounding, STEPS * spread + rounding

    def tau(self, clusters: int) -> float:
        """Least noisy total of a cluster with all coefficients, in visits."""
        largest = min(float(b[0]) for b in self._scales(np.array([self.slots]), clusters))
        return tau_of(LAPLACE.deviation * largest / (STEPS * self.lattice), self.slots)

    @classmethod
    def improved(cls, budget: Budget, cover: Cover, *, slots: int, ell: int, cap: int) -> DensityEfpa:
        """Totals by improved scaling; pure shares as in EFPAG."""
        totals, budget = TotalsByOneVisit.within(budget, cap=cap, lattice=cover.lattice)
        select, budget = budget.take("select", SELECT)
        rest, _ = budget.take("coefficients", 1)
        nano = {"select_nano": select.epsilon_nano, "coefficients_nano": rest.epsilon_nano}
        return cls(totals=totals, cover=cover, slots=slots, ell=ell, cap=cap, **nano)
