"""Counts per zone and slot with discrete Laplace noise that hides a user everywhere at all times.

Guarantee    epsilon-DP for the whole array, epsilon = zones * slots / b (b in visits).
Unit         one user.        Neighbours   add or remove one user.
Requires     each user at most once per zone and slot. No cap on the number of visits.
Sensitivity  L1: Delta <= zones * slots visits. A user moves each zone and slot by at most one visit. The
             engine counts a user once per slot over all zones, so what it hands over moves by at most one
             visit per slot: the true loss is 1 / zones of the claim or less. The claim is kept, because the
             noise level of the source is what this baseline is there to show.
Public       zones, slots, b.
Source       Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2: SCM with Lap(|S| |T'| / epsilon). Their
             Lap(Delta / epsilon), for a cap of Delta = ell visits enforced on every user, is DensityLaplace.
Deviations   discrete instead of continuous noise (Ghosh, Roughgarden, Sundararajan 2009: the same epsilon).

>>> mechanism = DensityScmFull.within(10**9, zones=989, slots=168, lattice=2**20)
>>> mechanism.loss().pure_epsilon_nano
1000000000
>>> mechanism.scale / 2**20                              # noise per zone and slot, in people
166152.0
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

NO_CAP = 2**62  # the bound does not rest on one


@dataclass(frozen=True, kw_only=True)
class DensityScmFull:
    """Zone x slot counts plus independent discrete Laplace noise of scale zones * slots / epsilon."""

    scale: float  # b, in lattice units
    zones: int
    slots: int
    lattice: int

    name = "density-scm-full"
    takes = "counts"

    def loss(self) -> Loss:
        """Once per zone and slot at most: Delta / b, exactly, rounded up."""
        return Loss.pure(ceil_nano(self.sensitivity / Fraction(self.scale)))

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("counts", self.loss()),)

    @property
    def ell(self) -> int:
        """No cap: the engine keeps a visit in every slot."""
        return self.slots

    @property
    def sensitivity(self) -> Fraction:
        return Fraction(self.zones * self.slots * self.lattice)

    def describe(self) -> Mapping[str, object]:
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
        check_input(exact, ell=NO_CAP, slots=self.slots, lattice=self.lattice)
        if exact.units.shape[0] != self.zones or exact.column_l1 > self.lattice:
            raise GuaranteeError(
                "sensitivity", "the counts have other zones than the mechanism was built for."
            )
        noisy = noise.laplace("counts", exact.units, self.scale)
        return NoisyCounts(
            values=noisy / self.lattice, family="discrete laplace", scale=self.scale / self.lattice
        )

    @classmethod
    def within(cls, epsilon_nano: int, *, zones: int, slots: int, lattice: int) -> DensityScmFull:
        """The least noise whose loss stays within epsilon."""
        sensitivity = zones * slots * lattice
        scale = sensitivity / (epsilon_nano / NANO)
        while Fraction(scale) * epsilon_nano < sensitivity * NANO:  # the float quotient may fall short
            scale = math.nextafter(scale, math.inf)
        return cls(scale=scale, zones=zones, slots=slots, lattice=lattice)

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int = 0) -> DensityScmFull:
        """All of the budget, on the zones and slots of a setting; without a cap, so whatever `ell` is."""
        lattice = setting.weights.lattice
        return cls.within(budget.left, zones=setting.zones, slots=setting.slots, lattice=lattice)
