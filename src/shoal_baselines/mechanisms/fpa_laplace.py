"""Counts per zone and slot from their k slowest waves, with discrete Laplace noise on the coefficients.

Guarantee    epsilon-DP for the whole array, epsilon = Delta / b.
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  L1, over all zones and waves together: Delta <= max_s |W_s|_1 times the sum of the ell largest
             |c_t|_1, c_t the column of the transform at slot t. Each visit moves zone z by W_zs c_t, and the
             L1 norm of a sum is at most the sum. (So Delta <= ell min(sqrt(k), k sqrt(2 / T)), but for
             entries rounded to 2^-14: the exact figure of the integer matrix is used, see fourier_basis.py.)
             Nothing about the counts is rounded.
Public       zones, slots, W, ell, k, b.
Source       Rastogi and Nath 2010 (FPA); Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2.
Deviations   one guarantee for all zones jointly: their scale sqrt(k T) / epsilon holds for one zone, and a
             user in many zones has less. DCT-II instead of the DFT. k is a public constant, not chosen by the
             error on the data.

>>> mechanism = DensityFpaLaplace.within(10**9, ell=30, slots=168, column_l1=2**20, lattice=2**20)
>>> mechanism.loss().pure_epsilon_nano
1000000000
>>> round(mechanism.scale / 2**34, 1)                    # noise on a coefficient, in people
89.5
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shoal.errors import GuaranteeError
from shoal.mechanisms.adders import NoiseOfCount, check_input
from shoal.privacy.accounting import NANO, Budget, Loss, ceil_nano
from shoal.privacy.noise import Noise
from shoal.space.setting import Setting
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts
from shoal_baselines.mechanisms.fpa import UNIT, WAVES, FourierBasis, read_waves


@dataclass(frozen=True, kw_only=True)
class DensityFpaLaplace:
    """The first k DCT coefficients of each zone plus discrete Laplace noise, transformed back."""

    scale: float  # b, in lattice units times UNIT
    k: int
    ell: int
    slots: int
    column_l1: int  # in lattice units
    lattice: int

    name = "density-fpa-laplace"
    takes = "counts"
    leaves_out = "what the waves leave out"

    def loss(self) -> Loss:
        """Delta / b, exactly, rounded up."""
        return Loss.pure(ceil_nano(self.sensitivity / Fraction(self.scale)))

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("coefficients", self.loss()),)

    @cached_property
    def basis(self) -> FourierBasis:
        return FourierBasis.first(self.k, self.slots)

    @cached_property
    def sensitivity(self) -> Fraction:
        return Fraction(self.column_l1 * self.basis.l1(self.ell))

    @property
    def noise_people(self) -> np.ndarray:
        """float64 [slots]: standard deviation of the noise in a released count before post-processing."""
        return math.sqrt(2) * self.scale / self.lattice / UNIT * self.basis.noise_gain

    def describe(self) -> Mapping[str, object]:
        rms = float(np.sqrt((self.noise_people**2).mean()))
        return {"noise_scale_people": rms, "waves": self.basis.k, "lattice": self.lattice}

    @property
    def noise_of_count(self) -> NoiseOfCount:
        """In a released count before post-processing."""
        return NoiseOfCount("gaussian", math.sqrt(float((self.noise_people**2).mean())))

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
        return read_waves(self.describe())

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        check_input(exact, ell=self.ell, slots=self.slots, lattice=self.lattice)
        if exact.column_l1 > self.column_l1:
            raise GuaranteeError(
                "sensitivity", "the area weights are larger than the mechanism was built for."
            )
        noisy = noise.laplace("coefficients", self.basis.coefficients(exact.units), self.scale)
        return NoisyCounts(
            values=self.basis.series(noisy / self.lattice),
            family="laplace waves",
            scale=math.sqrt(2) * self.scale / self.lattice / UNIT,
            gain=self.basis.noise_gain,
        )

    @classmethod
    def within(
        cls, epsilon_nano: int, *, ell: int, slots: int, column_l1: int, lattice: int, k: int = WAVES
    ) -> DensityFpaLaplace:
        """The least noise whose loss stays within epsilon."""
        sensitivity = column_l1 * FourierBasis.first(k, slots).l1(ell)
        scale = sensitivity / (epsilon_nano / NANO)
        while Fraction(scale) * epsilon_nano < sensitivity * NANO:  # the float quotient may fall short
            scale = math.nextafter(scale, math.inf)
        return cls(scale=scale, k=k, ell=ell, slots=slots, column_l1=column_l1, lattice=lattice)

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int, k: int = WAVES) -> DensityFpaLaplace:
        """All of the budget, on the zones and slots of a setting."""
        weights = setting.weights
        return cls.within(
            budget.left,
            ell=ell,
            slots=setting.slots,
            column_l1=weights.column_l1,
            lattice=weights.lattice,
            k=k,
        )
