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
             Lap(Delta / epsilon), for a cap of Delta = ell visits enforced on every user, is
             `density-laplace`.
Deviations   discrete instead of continuous noise (Ghosh, Roughgarden, Sundararajan 2009: the same epsilon).

>>> mechanism = DensityScmFull.within(10**9, zones=989, slots=168, lattice=2**20)
>>> mechanism.loss().pure_epsilon_nano
1000000000
>>> mechanism.noise.scale / 2**20                              # noise per zone and slot, in people
166152.0
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.errors import GuaranteeError
from shoal.mechanisms.density.counts import DensityCounts, check_input
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import LAPLACE, Adder
from shoal.space.geography import Setting
from shoal.stages.exact import ExactCounts

NO_CAP = 2**62  # the bound does not rest on one


@dataclass(frozen=True, kw_only=True)
class DensityScmFull(DensityCounts):
    """Zone x slot counts plus independent discrete Laplace noise of scale zones * slots / epsilon.

    There is no cap: the engine keeps a visit in every slot, so `ell` is the number of slots.
    """

    zones: int

    @property
    def name(self) -> str:
        return "density-scm-full"

    @property
    def power(self) -> int:
        """Once per zone and slot at most."""
        return self.zones * self.slots * self.column

    def check(self, exact: ExactCounts) -> None:
        check_input(exact, ell=NO_CAP, slots=self.slots, lattice=self.lattice)
        if exact.units.shape[0] != self.zones or exact.column_l1 > self.column:
            raise GuaranteeError(
                "sensitivity", "the counts have other zones than the mechanism was built for."
            )

    @classmethod
    def within(cls, epsilon_nano: int, *, zones: int, slots: int, lattice: int) -> DensityScmFull:
        """The least noise whose loss stays within epsilon."""
        noise = Adder(LAPLACE, LAPLACE.scale(epsilon_nano, zones * slots * lattice))
        return cls(noise=noise, zones=zones, ell=slots, slots=slots, column=lattice, lattice=lattice)

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int = 0) -> DensityScmFull:
        """All of the budget, on the zones and slots of a setting; without a cap, so whatever `ell` is."""
        lattice = setting.weights.lattice
        return cls.within(budget.left, zones=setting.zones, slots=setting.slots, lattice=lattice)
