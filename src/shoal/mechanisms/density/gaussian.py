"""Counts per zone and slot with discrete Gaussian noise.

Guarantee    rho-zCDP for the whole array, rho = Delta^2 / (2 sigma^2).
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  L2: Delta^2 <= ell * max_s |W_s|^2. A user touches at most ell slots; in each, the counts move
             by one column W_s of the area weights. All in integer lattice units, so nothing is rounded.
Public       zones, slots, W, ell, sigma.
Source       Acs and Castelluccia 2014, section 4 (Gaussian noise, here on plain counts).
Deviations   discrete instead of continuous noise (Canonne, Kamath, Steinke 2020: the same rho); scale from
             zCDP instead of their constant, which holds for epsilon <= 1 only.

>>> mechanism = DensityGaussian.within(1_000_000, ell=30, slots=168, column_l2_squared=2**40, lattice=2**20)
>>> mechanism.loss().rho_nano <= 1_000_000
True
>>> round(mechanism.sigma / 2**20, 3)                    # noise per zone and slot, in people
122.474
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from shoal.errors import GuaranteeError
from shoal.mechanisms.adders import Z95, NoiseOfCount, check_input, plain_noise
from shoal.privacy.accounting import NANO, Budget, Loss, ceil_nano
from shoal.privacy.noise import Noise
from shoal.space.setting import Setting
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


@dataclass(frozen=True, kw_only=True)
class DensityGaussian:
    """Zone x slot counts plus independent discrete Gaussian noise of `sigma` lattice units."""

    sigma: float  # in lattice units
    ell: int
    slots: int
    column_l2_squared: int  # in squared lattice units
    lattice: int

    name = "density-gaussian"
    takes = "counts"

    def loss(self) -> Loss:
        """ell visits at most, at most one per slot: Delta^2 / (2 sigma^2), exactly, rounded up."""
        return Loss(ceil_nano(self.sensitivity_squared / (2 * Fraction(self.sigma) ** 2)))

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("counts", self.loss()),)

    @property
    def sensitivity_squared(self) -> Fraction:
        return Fraction(min(self.ell, self.slots) * self.column_l2_squared)

    @property
    def mu(self) -> float:
        """Delta / sigma: the trade-off curve of the continuous Gaussian with this noise."""
        return math.sqrt(self.sensitivity_squared) / self.sigma

    def describe(self) -> Mapping[str, object]:
        """Public numbers for the manifest; the noise is that before counts are scaled up."""
        return {"noise_scale_people": self.sigma / self.lattice, "lattice": self.lattice}

    @property
    def noise_of_count(self) -> NoiseOfCount:
        """In a released count before post-processing."""
        return NoiseOfCount("gaussian", self.sigma / self.lattice)

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
        sigma = self.sigma / self.lattice
        return plain_noise("Gaussian", sigma * math.sqrt(2 / math.pi), Z95 * sigma, "standard deviation")

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        check_input(exact, ell=self.ell, slots=self.slots, lattice=self.lattice)
        if exact.column_l2_squared > self.column_l2_squared:
            raise GuaranteeError(
                "sensitivity", "the area weights are larger than the mechanism was built for."
            )
        noisy = noise.gaussian("counts", exact.units, self.sigma)
        return NoisyCounts(
            values=noisy / self.lattice, family="discrete gaussian", scale=self.sigma / self.lattice
        )

    @classmethod
    def within(
        cls, rho_nano: int, *, ell: int, slots: int, column_l2_squared: int, lattice: int
    ) -> DensityGaussian:
        """The least noise whose loss stays within rho."""
        squared = min(ell, slots) * column_l2_squared
        sigma = math.sqrt(squared / (2 * rho_nano / NANO))
        while Fraction(sigma) ** 2 * 2 * rho_nano < squared * NANO:  # the float root may fall short
            sigma = math.nextafter(sigma, math.inf)
        return cls(sigma=sigma, ell=ell, slots=slots, column_l2_squared=column_l2_squared, lattice=lattice)

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int) -> DensityGaussian:
        """All of the budget, on the zones and slots of a setting."""
        weights = setting.weights
        return cls.within(
            budget.left,
            ell=ell,
            slots=setting.slots,
            column_l2_squared=weights.column_l2_squared,
            lattice=weights.lattice,
        )
