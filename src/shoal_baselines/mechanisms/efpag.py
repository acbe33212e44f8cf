"""Hourly counts by clusters of cover cells, in the frequency domain, with discrete Gaussian noise (EFPAG).

Guarantee    rho-zCDP: totals + eps0^2 / 8 for all choices of k together + Delta^2 / (2 sigma^2) for all
             coefficients of all clusters together; composed adaptively, converted once.
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine); a visit's
             fragments sum to at most one over the cells (checked by the cover).
Sensitivity  totals: see totals.py. Series of all clusters: L2 <= sqrt(min(ell, slots)), since each slot moves
             by at most 1 in L1. An orthonormal transform keeps it; integer_dct.py and choose_k.py add what
             rounding to whole steps can, for as many clusters as there are cells. Which cells form a
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
>>> 0.999 * budget.left < mechanism.loss().rho_nano <= budget.left
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from shoal.mechanisms.adders import GaussianAdder, ceil_sqrt
from shoal.privacy.accounting import NANO, Budget, Loss, ceil_nano, compose
from shoal.privacy.noise import Noise
from shoal.space.setting import Setting
from shoal.stages.noisy import NoisyScheme
from shoal_baselines.counting import CoverCounts
from shoal_baselines.mechanisms.scheme_steps import (
    STEPS,
    check_cover_input,
    choose_k,
    coefficients,
    series_of,
    shift_squared,
    sum_by_cluster,
    wave_rounding,
)
from shoal_baselines.mechanisms.scheme_totals import Totals, TotalsByOneVisit, TotalsOfSeries, TotalsScaledUp
from shoal_baselines.postprocess.scheme import cluster_cells
from shoal_baselines.space.cover import Cover, minimum_cover

RSSE_SHARE = 0.01  # tau: the expected error of a cluster with all coefficients kept, as a share of its total
REPAIRED_TAU = 3.3  # tau of the repaired variant, in taus of the paper
# Shares of the budget, each of what the earlier ones left. The paper halves: scaling and series, then in
# scaling the number of visits and the histogram, in series the choice of k and the noise.
VISITS, TOTALS, SERIES_TOTALS, SELECT = Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(1, 2)
# The repaired variant: tuned on the simulated city paris.
REPAIRED_VISITS, REPAIRED_TOTALS, REPAIRED_SELECT = Fraction(1, 10), Fraction(1, 2), Fraction(1, 10)


@dataclass(frozen=True, kw_only=True)
class DensityEfpag:
    """Noisy totals of cells; noisy series of clusters from their first k DCT coefficients."""

    totals: Totals
    select: float  # scale of the choice of k, in steps: P(k) ~ exp(-u_k / select)
    coefficients: GaussianAdder  # in steps
    tau: float  # least noisy total of a cluster, in visits
    cover: Cover = field(repr=False)
    slots: int
    ell: int
    cap: int

    name = "density-efpag"
    takes = "cover"

    def __call__(self, exact: CoverCounts, noise: Noise) -> NoisyScheme:
        check_cover_input(exact, self)
        totals = self.totals(exact, noise)
        cluster_of = cluster_cells(totals.visits, self.cover.cell_xy_m, self.cover.neighbours, self.tau)
        exact_waves = coefficients(sum_by_cluster(exact.units, cluster_of))
        noise_error = np.sqrt(np.arange(1, self.slots + 1)) * self.coefficients.deviation
        kept = choose_k(exact_waves, noise_error, self.select, noise)
        chosen = np.arange(self.slots) < kept[:, None]
        noisy_waves = np.zeros(exact_waves.shape)
        noisy_waves[chosen] = self.coefficients.add(noise, "coefficients", exact_waves[chosen])
        steps = STEPS * self.lattice
        return NoisyScheme(
            totals=totals,
            cluster_of=cluster_of,
            series=series_of(noisy_waves / steps),
            kept=kept,
            deviation=np.full(len(kept), self.coefficients.deviation / steps),
        )

    def loss(self) -> Loss:
        return compose(spend for _, spend in self.spends())

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        shape = (self.touched, self.cover.cells, self.slots, self.lattice)
        ranges = Fraction(2 * shift_squared(*shape)) / Fraction(self.select)
        return (
            *self.totals.spends(),
            ("select", Loss(ceil_nano(ranges**2 / 8))),
            ("coefficients", self.coefficients.cost(coefficient_shift(*shape))),
        )

    @property
    def lattice(self) -> int:
        return self.cover.lattice

    @property
    def cells(self) -> int:
        return self.cover.cells

    @property
    def touched(self) -> int:
        """Slots a user can touch."""
        return min(self.ell, self.slots)

    def describe(self) -> dict[str, object]:
        """Public numbers for the manifest."""
        return {"cells": self.cells, "lattice": self.lattice, "least_cluster_visits": self.tau}

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
        return read_scheme(self.cells)

    @classmethod
    def within(
        cls,
        totals: Totals,
        select_nano: int,
        coefficients_nano: int,
        *,
        cover: Cover,
        slots: int,
        ell: int,
        cap: int,
        tau_factor: float = 1.0,
    ) -> DensityEfpag:
        """The least noise whose losses stay within the two amounts of rho; tau from the noise."""
        shape = (min(ell, slots), cover.cells, slots, cover.lattice)
        adder = GaussianAdder.within(coefficients_nano, coefficient_shift(*shape))
        tau = tau_factor * tau_of(adder.deviation / (STEPS * cover.lattice), slots)
        return cls(
            totals=totals,
            select=select_scale(select_nano, shift_squared(*shape)),
            coefficients=adder,
            tau=tau,
            cover=cover,
            slots=slots,
            ell=ell,
            cap=cap,
        )

    @classmethod
    def improved(cls, budget: Budget, cover: Cover, *, slots: int, ell: int, cap: int) -> DensityEfpag:
        """Totals by improved scaling, the scheme of the paper with its improvements."""
        visits, budget = budget.take("visits", VISITS)
        totals, budget = budget.take("totals", TOTALS)
        histogram = TotalsByOneVisit(
            totals=GaussianAdder.within(totals.rho_nano, cover.lattice),
            visits=GaussianAdder.within(visits.rho_nano, cap),
            cap=cap,
            lattice=cover.lattice,
        )
        return cls._rest(budget, histogram, cover=cover, slots=slots, ell=ell, cap=cap)

    @classmethod
    def basic(cls, budget: Budget, cover: Cover, *, slots: int, ell: int, cap: int) -> DensityEfpag:
        """Totals from the bounded series, the scheme of the paper before its improvements."""
        totals, budget = budget.take("totals", SERIES_TOTALS)
        touched = min(ell, slots)
        sums = TotalsOfSeries(
            totals=GaussianAdder.within(totals.rho_nano, touched * cover.lattice),
            ell=touched,
            lattice=cover.lattice,
        )
        return cls._rest(budget, sums, cover=cover, slots=slots, ell=ell, cap=cap)

    @classmethod
    def repaired(cls, budget: Budget, cover: Cover, *, slots: int, ell: int, cap: int) -> DensityEfpag:
        """Totals from the bounded series, scaled up to all visits; larger clusters."""
        visits, budget = budget.take("visits", REPAIRED_VISITS)
        totals, budget = budget.take("totals", REPAIRED_TOTALS)
        touched = min(ell, slots)
        sums = TotalsScaledUp(
            totals=GaussianAdder.within(totals.rho_nano, touched * cover.lattice),
            visits=GaussianAdder.within(visits.rho_nano, cap),
            ell=touched,
            cap=cap,
            lattice=cover.lattice,
        )
        rest = {"cover": cover, "slots": slots, "ell": ell, "cap": cap, "tau_factor": REPAIRED_TAU}
        return cls._rest(budget, sums, select=REPAIRED_SELECT, **rest)

    @classmethod
    def of(
        cls, budget: Budget, setting: Setting, *, ell: int, cap: int, variant: str = "improved"
    ) -> DensityEfpag:
        """All of the budget, on the smallest cover of a setting, in one of its variants."""
        public = {"slots": setting.slots, "ell": ell, "cap": cap}
        return getattr(cls, variant)(budget, minimum_cover(setting), **public)

    @classmethod
    def _rest(cls, budget: Budget, totals: Totals, *, select: Fraction = SELECT, **public) -> DensityEfpag:
        chosen, budget = budget.take("select", select)
        rest, _ = budget.take("coefficients", 1)
        return cls.within(totals, chosen.rho_nano, rest.rho_nano, **public)


def coefficient_shift(ell: int, clusters: int, slots: int, lattice: int) -> int:
    """Joint L2 of what a user moves all coefficients of all clusters by, in steps, rounded up."""
    series = STEPS * ceil_sqrt(ell * lattice**2) + wave_rounding(ell, slots, lattice)
    return series + ceil_sqrt(clusters * slots)


def select_scale(rho_nano: int, shift: int) -> float:
    """2 S / eps0 with eps0^2 / 8 = rho: the least scale whose cost stays within rho."""
    squared = Fraction(shift**2 * NANO, 2 * rho_nano)
    scale = math.sqrt(squared)
    while Fraction(scale) ** 2 < squared:  # the float root may fall short
        scale = math.nextafter(scale, math.inf)
    return scale


def tau_of(deviation: float, slots: int) -> float:
    """sqrt(T) sigma / 0.01, in visits (section 6)."""
    return math.sqrt(slots) * deviation / RSSE_SHARE


def read_scheme(cells: int) -> tuple[str, ...]:
    """For the recipient: how numbers of the scheme are to be read, in all its variants."""
    return (
        f"The city was cut into {cells} cells; cells with few visits were joined with their "
        "neighbours into clusters by noisy totals. A cluster has one course over the slots, from its slowest "
        "waves with noise; each of its cells follows that course, scaled to the cell's own noisy total.",
        "So zones of one cluster rise and fall together, and what happens in one of them alone, or faster "
        "than the waves that were kept, is not in the numbers, whatever the budget.",
        "Noise is shared by the slots of a zone: sums over slots do not average it out.",
        "`people_low` and `people_high` are the ends of a 95 % interval for the number before noise, made "
        "from the noise and from what the model is known to leave out on simulated cities; where zones "
        "differ more from their neighbours it is too narrow.",
    )
