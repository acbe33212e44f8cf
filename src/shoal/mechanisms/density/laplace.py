"""Counts per zone and slot with discrete Laplace noise.

Guarantee    epsilon-DP for the whole array, epsilon = Delta / b.
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  L1: Delta <= ell * max_s |W_s|_1. A user touches at most ell slots; in each, the counts move by
             one column W_s of the area weights. All in integer lattice units, so nothing is rounded.
Public       zones, slots, W, ell, b.
Source       Acs and Castelluccia 2014, section 4 (LPA, their baseline).
Deviations   discrete instead of continuous noise (Ghosh, Roughgarden, Sundararajan 2009: the same epsilon).

>>> mechanism = DensityLaplace.within(10**9, ell=30, slots=168, column_l1=2**20, lattice=2**20)
>>> mechanism.loss().pure_epsilon_nano
1000000000
>>> mechanism.scale / 2**20                              # noise per zone and slot, in people
30.0
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from shoal.errors import GuaranteeError
from shoal.mechanisms.adders import NoiseOfCount, check_input, plain_noise
from shoal.privacy.accounting import NANO, Budget, Loss, ceil_nano
from shoal.privacy.noise import Noise
from shoal.space.setting import Setting
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


@dataclass(frozen=True, kw_only=True)
class DensityLaplace:
    """Zone x slot counts plus independent discrete Laplace noise of scale b, in lattice units."""

    scale: float  # b, in lattice units
    ell: int
    slots: int
    column_l1: int  # in lattice units
    lattice: int

    name = "density-laplace"
    takes = "counts"

    def loss(self) -> Loss:
        """ell visits at most, at most one per slot: Delta / b, exactly, rounded up."""
        return Loss.pure(ceil_nano(self.sensitivity / Fraction(self.scale)))

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("counts", self.loss()),)

    @property
    def sensitivity(self) -> Fraction:
        return Fraction(min(self.ell, self.slots) * self.column_l1)

    def describe(self) -> Mapping[str, object]:
        """Public numbers for the manifest; the noise is that before counts are scaled up."""
        return {"noise_scale_people": self.scale / self.lattice, "lattice": self.lattice}

    @property
    def noise_of_count(self) -> NoiseOfCount:
        """In a released count before post-processing."""
        return NoiseOfCount("laplace", math.sqrt(2) * self.scale / self.lattice)

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
        scale = self.scale / self.lattice
        return plain_noise("Laplace", scale, scale * math.log(20), "mean size (the scale b)")

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        check_input(exact, ell=self.ell, slots=self.slots, lattice=self.lattice)
        if exact.column_l1 > self.column_l1:
            raise GuaranteeError(
                "sensitivity", "the area weights are larger than the mechanism was built for."
            )
        noisy = noise.laplace("counts", exact.units, self.scale)
        return NoisyCounts(
            values=noisy / self.lattice, family="discrete laplace", scale=self.scale / self.lattice
        )

    @classmethod
    def within(
        cls, epsilon_nano: int, *, ell: int, slots: int, column_l1: int, lattice: int
    ) -> DensityLaplace:
        """The least noise whose loss stays within epsilon."""
        sensitivity = min(ell, slots) * column_l1
        scale = sensitivity / (epsilon_nano / NANO)
        while Fraction(scale) * epsilon_nano < sensitivity * NANO:  # the float quotient may fall short
            scale = math.nextafter(scale, math.inf)
        return cls(scale=scale, ell=ell, slots=slots, column_l1=column_l1, lattice=lattice)

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int) -> DensityLaplace:
        """All of the budget, on the zones and slots of a setting."""
        weights = setting.weights
        return cls.within(
            budget.left,
            ell=ell,
            slots=setting.slots,
            column_l1=weights.column_l1,
            lattice=weights.lattice,
        )
