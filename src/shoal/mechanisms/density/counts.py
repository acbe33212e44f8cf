"""Counts per zone and slot with discrete Gaussian or discrete Laplace noise, and the same scaled up.

DensityCounts: the counts alone.

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

>>> from shoal.privacy.noise import GAUSSIAN, LAPLACE
>>> public = {"ell": 30, "slots": 168, "lattice": 2**20}
>>> mechanism = DensityCounts.within(GAUSSIAN, 1_000_000, column=2**40, **public)
>>> mechanism.loss().rho_nano <= 1_000_000, round(mechanism.noise.scale / 2**20, 3)   # in people
(True, 122.474)
>>> mechanism = DensityCounts.within(LAPLACE, 10**9, column=2**20, **public)
>>> mechanism.name, mechanism.loss().pure_epsilon_nano, mechanism.noise.scale / 2**20
('density-laplace', 1000000000, 30.0)

ScaledCounts: counts by any plain mechanism, with the noisy totals needed to scale them up. The scaling itself
is post-processing: `shoal.postprocess.density.numbers`.

Guarantee    sum of the loss of the counts, M / b or M^2 / (2 s^2) for the number of visits K, and ell / b' or
             ell^2 / (2 s'^2) for the number of sampled visits B: pure epsilons or rhos add up.
Unit         one user.        Neighbours   add or remove one user.
Requires     counts as their mechanism requires them; each user with at most `cap` visits in K and at most ell
             in B (checked by the engine).
Sensitivity  K: cap. B: min(ell, slots). Each is a single number. For the counts, see their mechanism.
Public       cap, the scales, all that is public of the counts.
Source       improved scaling of Acs and Castelluccia 2014, section 5.4.1, here on plain counts.
Deviations   they divide by the exact number of users; here by the noisy number of sampled visits.

>>> from shoal.mechanisms.audit_size import AuditSize
>>> counts = partial(DensityCounts.of, setting=AuditSize(slots=168).setting, ell=30)
>>> scaled = ScaledCounts.within(Budget.of(1.0, 1e-6), counts, cap=250)
>>> [(name, loss.rho_nano) for name, loss in scaled.spends()], scaled.loss().rho_nano
([('visits', 1400723), ('kept', 532275), ('counts', 26081481)], 28014479)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np

from shoal.errors import GuaranteeError
from shoal.mechanisms.method import at
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Adder, Composed, Family, Noise, adder_within, family_of
from shoal.space.geography import AreaWeights, Setting
from shoal.stages.exact import ExactCounts, ScalableCounts
from shoal.stages.noisy import NoisyCounts, NoisyScaled


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
        """Noise of a released count before post-processing."""
        return NoiseOfCount(self.noise.family.name, self.noise.deviation / self.lattice)

    def reading(self) -> tuple[str, ...]:
        """How a recipient should read the numbers."""
        family, mean, half = self.noise.family, self.noise.mean / self.lattice, self.noise.half / self.lattice
        return (
            f"{family.name.capitalize()} noise was added to every zone and slot: before counts were scaled "
            f"up it is {mean:.1f} on average, and less than {half:.1f} in 95 of 100 cases. Counts much "
            "smaller than the noise say little. In the manifest, `noise_scale_people` is that noise of one "
            f"count in people: its {family.scale_is}.",
            "The noise of a sum of n counts grows like the square root of n.",
            "The largest count of a zone or slot is likely to be one whose noise was large. Its interval is "
            "that of a count chosen beforehand, so it lies too high. Read maxima with this in mind.",
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
    """Largest L1 norm (Laplace) or squared L2 norm (Gaussian) of one visit over the zones, in units."""
    return weights.column_l1 if family.norm == 1 else weights.column_l2_squared


def check_columns(exact: ExactCounts, family: Family, column: int) -> None:
    """Refuses area weights larger than the noise is calibrated to."""
    if column_of(exact, family) > column:
        raise GuaranteeError("sensitivity", "the area weights are larger than the mechanism was built for.")


def check_input(exact: ExactCounts, *, ell: int, slots: int, lattice: int) -> None:
    """Refuses counts of another stage, or with bounds, slots or lattice the noise is not calibrated to."""
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


VISITS_SHARE = Fraction(1, 20)  # of the budget
SAMPLED_SHARE = Fraction(1, 50)  # of what is left then: ell is far below cap, so little will do
NEGATIVE = (
    "Negative counts were removed such that each positive slot total is preserved: the same amount was "
    "subtracted from every zone of a slot, and values below zero were set to zero. Where most zones of a "
    "slot are nearly empty, `people` in the busy zones is low by up to about the size of the noise, and high "
    "on average in the others. Sum over zones rather than over the slots of a quiet zone."
)
INTERVAL = (
    "`people_low` and `people_high` are the ends of the 95 % interval around the noisy count before "
    "negative counts were removed, scaled up with it and cut at zero. The interval includes the noise of the "
    "scaling factor and the sampling of visits, but not that the bound drops a larger share of visits in "
    "some zones than in others."
)


class PlainCounts(Protocol):
    """Noisy counts per zone and slot, each user in at most `ell` slots."""

    @property
    def ell(self) -> int: ...

    @property
    def slots(self) -> int: ...

    @property
    def noise_of_count(self) -> NoiseOfCount: ...

    def spends(self) -> tuple[tuple[str, Loss], ...]: ...

    def describe(self) -> Mapping[str, object]: ...

    def reading(self) -> tuple[str, ...]: ...

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts: ...


@dataclass(frozen=True, kw_only=True)
class ScaledCounts(Composed):
    """Plain noisy counts with K-hat and B-hat, whose ratio scales them up."""

    counts: PlainCounts
    visits: Adder
    sampled: Adder
    cap: int  # M: visits of a user that enter K
    inside: tuple[float, float]  # least and largest share of a visit that lies in the zones

    name = "density-scaled"
    takes = "scalable"

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (
            ("visits", self.visits.cost(self.cap)),
            ("kept", self.sampled.cost(self.sampled_sensitivity)),
            *self.counts.spends(),
        )

    @property
    def ell(self) -> int:
        return self.counts.ell

    @property
    def sampled_sensitivity(self) -> int:
        """Sampled visits of a user: at most one per slot and ell in total."""
        return min(self.counts.ell, self.counts.slots)

    @property
    def noise_of_count(self) -> NoiseOfCount:
        """Noise of a count before scaling up."""
        return self.counts.noise_of_count

    def describe(self) -> Mapping[str, object]:
        """Public numbers of the counts, for the manifest."""
        return self.counts.describe()

    def reading(self) -> tuple[str, ...]:
        """How a recipient should read the numbers."""
        leaves_out = getattr(self.counts, "leaves_out", "")
        interval = f"{INTERVAL} They do not cover {leaves_out} either." if leaves_out else INTERVAL
        return (*self.counts.reading(), NEGATIVE, interval)

    def __call__(self, exact: ScalableCounts, noise: Noise) -> NoisyScaled:
        if not isinstance(exact, ScalableCounts):
            raise GuaranteeError("wrong-stage", "this mechanism takes counts with their visits only.")
        if exact.cap > self.cap or exact.counts.ell > self.ell:
            raise GuaranteeError(
                "sensitivity", "the visits were bounded more loosely than the mechanism was built for."
            )
        visits = self.visits.add(noise, "visits", np.array([exact.visits], np.int64))
        sampled = self.sampled.add(noise, "kept", np.array([exact.sampled], np.int64))
        return NoisyScaled(
            counts=self.counts(exact.counts, noise),
            visits=float(visits[0]),
            visits_deviation=self.visits.deviation,
            sampled=float(sampled[0]),
            sampled_deviation=self.sampled.deviation,
            most=float(self.cap),  # of a user observed at cap places within one slot, one visit is sampled
            inside=self.inside,
        )

    @classmethod
    def within(
        cls,
        budget: Budget,
        counts: Callable[[Budget], PlainCounts],
        *,
        cap: int,
        inside: tuple[float, float] = (1.0, 1.0),
    ) -> ScaledCounts:
        """Splits all of the budget: shares for K and B, the remainder for `counts`."""
        visits, budget = budget.take("visits", VISITS_SHARE)
        sampled, budget = budget.take("kept", SAMPLED_SHARE)
        rest, _ = budget.take("counts", 1)
        plain = counts(replace(budget, left=rest.amount))
        return cls(
            counts=plain,
            visits=adder_within(visits, cap),
            sampled=adder_within(sampled, min(plain.ell, plain.slots)),
            cap=cap,
            inside=inside,
        )

    @classmethod
    def of(
        cls, budget: Budget, setting: Setting, *, counts: str, ell: int, cap: int, **more: Any
    ) -> ScaledCounts:
        """The same on the zones and slots of a setting; `counts` is the place of their constructor."""
        inside = np.asarray(setting.weights.matrix.sum(axis=0)) / setting.weights.lattice
        return cls.within(
            budget,
            partial(at(counts), setting=setting, ell=ell, **more),
            cap=cap,
            inside=(float(inside.min(initial=1.0)), float(inside.max(initial=0.0))),
        )
