"""Counts per zone and slot by any plain mechanism, with the noisy totals needed to scale them up.

Guarantee    sum of the loss of the counts, M / b or M^2 / (2 s^2) for the number of visits K, and ell / b' or
             ell^2 / (2 s'^2) for the number of sampled visits B: pure epsilons or rhos add up.
Unit         one user.        Neighbours   add or remove one user.
Requires     counts as their mechanism requires them; each user with at most `cap` visits in K and at most ell
             in B (checked by the engine).
Sensitivity  K: cap. B: min(ell, slots). Each is a single number. For the counts, see their mechanism.
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
        """Splits all of the budget: shares for K and B, the remainder for `counts`."""
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
        """The same on the zones and slots of a setting; `counts` is the place of their constructor."""
        inside = np.asarray(setting.weights.matrix.sum(axis=0)) / setting.weights.lattice
        return cls.within(
            budget,
            partial(at(counts), setting=setting, ell=ell, **more),
            cap=cap,
            inside=(float(inside.min(initial=1.0)), float(inside.max(initial=0.0))),
        )
