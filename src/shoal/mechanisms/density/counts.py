"""Counts per zone and slot with discrete Gaussian or discrete Laplace noise.

Guarantee    for the whole array, rho-zCDP with rho = Delta_2^2 / (2 sigma^2) (Gaussian), or epsilon-DP with
             epsilon = Delta_1 / b (Laplace).
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  Delta_2^2 <= ell * max_s |W_s|_2^2, Delta_1 <= ell * max_s |W_s|_1. A user touches at most ell
             slots; in each, the counts move by one column W_s of the area weights. All in integer lattice
             units, so nothing is rounded.
Public       zones, slots, W, ell, the family and scale of the noise.
Source       Acs and Castelluccia 2014, section 4: LPA, their baseline; Gaussian noise, here on plain counts.
Deviations   discrete instead of continuous noise (Canonne, Kamath, Steinke 2020: the same rho; Ghosh,
             Roughgarden, Sundararajan 2009: the same epsilon); the Gaussian scale from zCDP instead of their
             constant, which holds for epsilon <= 1 only.

>>> from shoal.mechanisms.noise import GAUSSIAN, LAPLACE
>>> public = {"ell": 30, "slots": 168, "lattice": 2**20}
>>> mechanism = DensityCounts.within(GAUSSIAN, 1_000_000, column=2**40, **public)
>>> mechanism.loss().rho_nano <= 1_000_000, round(mechanism.noise.scale / 2**20, 3)   # in people
(True, 122.474)
>>> mechanism = DensityCounts.within(LAPLACE, 10**9, column=2**20, **public)
>>> mechanism.name, mechanism.loss().pure_epsilon_nano, mechanism.noise.scale / 2**20
('density-laplace', 1000000000, 30.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.errors import GuaranteeError
from shoal.mechanisms.noise import Adder, Family, family_of
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Noise
from shoal.space.geography import AreaWeights
from shoal.space.setting import Setting
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


@dataclass(frozen=True, kw_only=True)
class DensityCounts:
    """Zone x slot counts plus independent discrete noise."""

    noise: Adder  # in lattice units
    ell: int
    slots: int
    column: int  # largest |W_s|_1 in lattice units (Laplace), or |W_s|_2^2 in their squares (Gaussian)
    lattice: int

    takes = "counts"

    @property
    def name(self) -> str:
        return f"density-{self.noise.family.name}"

    @property
    def power(self) -> int:
        """ell visits at most, at most one per slot."""
        return min(self.ell, self.slots) * self.column

    def loss(self) -> Loss:
        return self.noise.family.cost(self.noise.scale, self.power)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("counts", self.loss()),)

    def describe(self) -> Mapping[str, object]:
        """Public numbers for the manifest; the noise is that before counts are scaled up."""
        return {"noise_scale_people": self.noise.scale / self.lattice, "lattice": self.lattice}

    @property
    def noise_of_count(self) -> NoiseOfCount:
        """In a released count before post-processing."""
        return NoiseOfCount(self.noise.family.name, self.noise.deviation / self.lattice)

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
        family, mean, half = self.noise.family, self.noise.mean / self.lattice, self.noise.half / self.lattice
        return (
            f"{family.name.capitalize()} noise was added to every zone and slot: before counts were scaled "
            f"up it is {mean:.1f} on average, and less than {half:.1f} in 95 of 100 cases. Counts much "
            "smaller than the noise say little. In the manifest, `noise_scale_people` is that noise of one "
            f"count in people: its {family.scale_is}.",
            "The noise of a sum of n counts grows like the square root of n.",
        )

    def check(self, exact: ExactCounts) -> None:
        """Refuses counts that the noise was not scaled for."""
        check_input(exact, ell=self.ell, slots=self.slots, lattice=self.lattice)
        check_columns(exact, self.noise.family, self.column)

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        self.check(exact)
        noisy = self.noise.add(noise, "counts", exact.units)
        return NoisyCounts(
            values=noisy / self.lattice,
            family=f"discrete {self.noise.family.name}",
            scale=self.noise.scale / self.lattice,
        )

    @classmethod
    def within(
        cls, family: Family, amount: int, *, ell: int, slots: int, column: int, lattice: int
    ) -> DensityCounts:
        """The least noise whose loss stays within `amount`, in 1e-9 of rho or epsilon."""
        scale = family.scale(amount, min(ell, slots) * column)
        return cls(noise=Adder(family, scale), ell=ell, slots=slots, column=column, lattice=lattice)

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int) -> DensityCounts:
        """All of the budget, on the zones and slots of a setting."""
        family, weights = family_of(budget), setting.weights
        public = {"ell": ell, "slots": setting.slots, "lattice": weights.lattice}
        return cls.within(family, budget.left, column=column_of(weights, family), **public)


def column_of(weights: AreaWeights | ExactCounts, family: Family) -> int:
    """What one visit changes the counts of a slot by, in the power that the family's cost is of."""
    return weights.column_l1 if family.norm == 1 else weights.column_l2_squared


def check_columns(exact: ExactCounts, family: Family, column: int) -> None:
    """The area weights must be no larger than the noise was scaled for."""
    if column_of(exact, family) > column:
        raise GuaranteeError("sensitivity", "the area weights are larger than the mechanism was built for.")


def check_input(exact: ExactCounts, *, ell: int, slots: int, lattice: int) -> None:
    """The counts must be of the stage, the bound, the slots and the lattice the noise was scaled for."""
    if not isinstance(exact, ExactCounts):
        raise GuaranteeError("wrong-stage", "a density mechanism takes exact counts of bounded visits only.")
    if exact.ell > ell:
        raise GuaranteeError(
            "sensitivity", "the counts were bounded more loosely than the mechanism was built for."
        )
    if exact.units.shape[1] != slots or exact.lattice != lattice:
        raise GuaranteeError(
            "sensitivity", "the counts have other slots or units than the mechanism was built for."
        )


@dataclass(frozen=True)
class NoiseOfCount:
    """The noise in one released count before post-processing, where it has a formula."""

    family: str  # "gaussian" | "laplace"
    deviation: float  # standard deviation, in people
