"""Counts per zone and slot by any plain mechanism, with the number of visits that they are scaled up to.

Guarantee    what the counts cost, plus M / b or M^2 / (2 s^2) for the number of visits K, plus ell / b' or
             ell^2 / (2 s'^2) for the number of visits B that the bound kept: rho or epsilon add up.
Unit         one user.        Neighbours   add or remove one user.
Requires     counts as their mechanism requires them; each user with at most `cap` visits in K and at most ell
             in B (checked by the engine).
Sensitivity  of K: cap, of B: min(ell, slots), each a single number. Of the counts: see their mechanism.
Public       cap, the scales, all that is public of the counts.
Source       improved scaling of Acs and Castelluccia 2014, section 5.4.1, here on plain counts.
Deviations   they divide by the exact number of users; here by the noisy number of kept visits.

The scaling itself is post-processing: `shoal.postprocess.density.numbers`.

>>> from shoal.mechanisms.audit_size import AuditSize
>>> from shoal.mechanisms.density.counts import DensityCounts
>>> counts = partial(DensityCounts.of, setting=AuditSize(slots=168).setting, ell=30)
>>> scaled = ScaledCounts.within(Budget.of(1.0, 1e-6), counts, cap=250)
>>> [(name, loss.rho_nano) for name, loss in scaled.spends()], scaled.loss().rho_nano
([('visits', 1217798), ('kept', 462763), ('counts', 22675409)], 24355970)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np

from shoal.errors import GuaranteeError
from shoal.mechanisms.density.counts import NoiseOfCount
from shoal.mechanisms.method import at
from shoal.mechanisms.noise import Adder, Composed, adder_within
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Noise
from shoal.space.setting import Setting
from shoal.stages.exact import ExactCounts, ScalableCounts
from shoal.stages.noisy import NoisyCounts, NoisyScaled

VISITS_SHARE = Fraction(1, 20)  # of the budget
KEPT_SHARE = Fraction(1, 50)  # of what is left then: ell is far below cap, so little will do
NEGATIVE = (
    "Negative counts were removed in a way that keeps each slot's total where that is above zero: the same "
    "amount was taken off every zone of a slot and what fell below zero was set to zero. So where most zones "
    "of a slot are nearly empty, `people` in the busy ones is low by up to about the size of the noise, and "
    "the nearly empty ones are high on average: sum over zones rather than over the slots of a quiet zone."
)
INTERVAL = (
    "`people_low` and `people_high` are the ends of the 95 % interval around the noisy count, before "
    "negative counts were removed, scaled up with it and cut at zero. They also hold the noise of the "
    "scaling and the chance of which visits were kept, but not that zones differ in what the bound leaves "
    "out."
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
    """Plain noisy counts, K-hat and B-hat: all that scaling them up takes."""

    counts: PlainCounts
    visits: Adder
    kept: Adder
    cap: int  # M: visits of a user that enter K
    inside: tuple[float, float]  # least and largest share of a visit that lies in the zones

    name = "density-scaled"
    takes = "scalable"

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (
            ("visits", self.visits.cost(self.cap)),
            ("kept", self.kept.cost(self.kept_sensitivity)),
            *self.counts.spends(),
        )

    @property
    def ell(self) -> int:
        return self.counts.ell

    @property
    def kept_sensitivity(self) -> int:
        """Once per slot, ell in all."""
        return min(self.counts.ell, self.counts.slots)

    @property
    def noise_of_count(self) -> NoiseOfCount:
        """In a count before it is scaled up."""
        return self.counts.noise_of_count

    def describe(self) -> Mapping[str, object]:
        """Public numbers of the counts, for the manifest."""
        return self.counts.describe()

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
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
        kept = self.kept.add(noise, "kept", np.array([exact.kept], np.int64))
        return NoisyScaled(
            counts=self.counts(exact.counts, noise),
            visits=float(visits[0]),
            visits_deviation=self.visits.deviation,
            kept=float(kept[0]),
            kept_deviation=self.kept.deviation,
            most=float(self.cap),  # a user seen at cap places within one slot keeps one visit
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
        """All of the budget: shares for K and B, the rest for `counts`, built from what it may spend."""
        visits, budget = budget.take("visits", VISITS_SHARE)
        kept, budget = budget.take("kept", KEPT_SHARE)
        rest, _ = budget.take("counts", 1)
        plain = counts(replace(budget, left=rest.amount))
        return cls(
            counts=plain,
            visits=adder_within(visits, cap),
            kept=adder_within(kept, min(plain.ell, plain.slots)),
            cap=cap,
            inside=inside,
        )

    @classmethod
    def of(
        cls, budget: Budget, setting: Setting, *, counts: str, ell: int, cap: int, **more: Any
    ) -> ScaledCounts:
        """The same on the zones and slots of a setting; `counts` is the place of what builds the counts."""
        inside = np.asarray(setting.weights.matrix.sum(axis=0)) / setting.weights.lattice
        return cls.within(
            budget,
            partial(at(counts), setting=setting, ell=ell, **more),
            cap=cap,
            inside=(float(inside.min(initial=1.0)), float(inside.max(initial=0.0))),
        )
