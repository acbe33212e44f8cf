"""Counts per zone and slot from their k slowest waves, with discrete Gaussian noise on the coefficients.

Guarantee    rho-zCDP for the whole array, rho = Delta^2 / (2 sigma^2).
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  L2, over all zones and waves together: Delta^2 <= ell max_s |W_s|^2 times the squared norm of the
             transform, which is 1 for orthonormal waves and a little more for ours, whose entries are rounded
             to 2^-14: the exact figure of the integer matrix is used (fourier_basis.py, which proves it).
             Coefficients of integer counts are then integers, and nothing about the counts is rounded.
Public       zones, slots, W, ell, k, sigma.
Source       Rastogi and Nath 2010 (FPA); Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2.
Deviations   one guarantee for all zones jointly (theirs is per zone: a user in many zones has less); DCT-II
             instead of the DFT, whose ends need not match; Gaussian noise, which does not grow with k. k is a
             public constant: choosing it by the error on the data, as they do, is not private.

>>> mechanism = DensityFpa.within(1_000_000, ell=30, slots=168, column_l2_squared=2**40, lattice=2**20)
>>> mechanism.loss().rho_nano <= 1_000_000
True
>>> round(mechanism.sigma / 2**34, 2)                    # noise on a coefficient, in people
122.51
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shoal.errors import GuaranteeError
from shoal.mechanisms.exact_input import check_input
from shoal.mechanisms.fourier_basis import UNIT, FourierBasis
from shoal.privacy.accounting import NANO, Loss, ceil_nano
from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts

# The 20 complex DFT coefficients that Pyrgelis et al. keep of a week are waves up to 19 cycles a week, as are
# the first 39 of the DCT-II, whose wave j has j / 2 cycles.
WAVES = 40


@dataclass(frozen=True, kw_only=True)
class DensityFpa:
    """The first k DCT coefficients of each zone plus discrete Gaussian noise, transformed back."""

    sigma: float  # in lattice units times UNIT
    k: int
    ell: int
    slots: int
    column_l2_squared: int  # in squared lattice units
    lattice: int

    name = "density-fpa"
    takes = "counts"

    def loss(self) -> Loss:
        """Delta^2 / (2 sigma^2), exactly, rounded up."""
        return Loss(ceil_nano(self.sensitivity_squared / (2 * Fraction(self.sigma) ** 2)))

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("coefficients", self.loss()),)

    @cached_property
    def basis(self) -> FourierBasis:
        return FourierBasis.first(self.k, self.slots)

    @cached_property
    def sensitivity_squared(self) -> Fraction:
        return Fraction(self.column_l2_squared * self.basis.l2_squared(self.ell))

    @property
    def mu(self) -> float:
        """Delta / sigma: the trade-off curve of the continuous Gaussian with this noise."""
        return math.sqrt(self.sensitivity_squared) / self.sigma

    @property
    def noise_people(self) -> np.ndarray:
        """float64 [slots]: standard deviation of the noise in a released count before post-processing."""
        return self.sigma / self.lattice / UNIT * self.basis.noise_gain

    def describe(self) -> Mapping[str, object]:
        rms = float(np.sqrt((self.noise_people**2).mean()))
        return {"noise_scale_people": rms, "waves": self.basis.k, "lattice": self.lattice}

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        check_input(exact, ell=self.ell, slots=self.slots, lattice=self.lattice)
        if exact.column_l2_squared > self.column_l2_squared:
            raise GuaranteeError(
                "sensitivity", "the area weights are larger than the mechanism was built for."
            )
        noisy = noise.gaussian("coefficients", self.basis.coefficients(exact.units), self.sigma)
        return NoisyCounts(
            values=self.basis.series(noisy / self.lattice),
            family="gaussian waves",
            scale=self.sigma / self.lattice / UNIT,
            gain=self.basis.noise_gain,
        )

    @classmethod
    def within(
        cls, rho_nano: int, *, ell: int, slots: int, column_l2_squared: int, lattice: int, k: int = WAVES
    ) -> DensityFpa:
        """The least noise whose loss stays within rho."""
        squared = column_l2_squared * FourierBasis.first(k, slots).l2_squared(ell)
        sigma = math.sqrt(squared / (2 * rho_nano / NANO))
        while Fraction(sigma) ** 2 * 2 * rho_nano < squared * NANO:  # the float root may fall short
            sigma = math.nextafter(sigma, math.inf)
        return cls(
            sigma=sigma, k=k, ell=ell, slots=slots, column_l2_squared=column_l2_squared, lattice=lattice
        )
