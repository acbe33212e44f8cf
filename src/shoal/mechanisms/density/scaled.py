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

The scaling itself is post-processing: `shoal.postprocess.density.scaled`.

>>> from shoal.mechanisms.density.gaussian import DensityGaussian
>>> from shoal.privacy.budget import Budget
>>> public = {"ell": 30, "slots": 168, "column_l2_squared": 2**40, "lattice": 2**20}
>>> scaled = ScaledCounts.within(
...     Budget.of(1.0, 1e-6), lambda left: DensityGaussian.within(left, **public), cap=250, ell=30, slots=168
... )
>>> [(name, loss.rho_nano) for name, loss in scaled.spends()], scaled.loss().rho_nano
([('visits', 1217798), ('kept', 462763), ('counts', 22675409)], 24355970)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.errors import GuaranteeError
from shoal.mechanisms.adders import Adder, GaussianAdder, LaplaceAdder
from shoal.mechanisms.density.gaussian import DensityGaussian
from shoal.mechanisms.density.laplace import DensityLaplace
from shoal.privacy.accounting import Loss, compose
from shoal.privacy.budget import Budget
from shoal.privacy.noise import Noise
from shoal.stages.exact import ScalableCounts
from shoal.stages.noisy import NoisyScaled
from shoal_baselines.mechanisms.fpa import DensityFpa
from shoal_baselines.mechanisms.fpa_laplace import DensityFpaLaplace
from shoal_baselines.mechanisms.scm_full import DensityScmFull

PlainCounts = DensityGaussian | DensityLaplace | DensityFpa | DensityFpaLaplace | DensityScmFull

VISITS_SHARE = Fraction(1, 20)  # of the budget
KEPT_SHARE = Fraction(1, 50)  # of what is left then: ell is far below cap, so little will do


@dataclass(frozen=True, kw_only=True)
class ScaledCounts:
    """Plain noisy counts, K-hat and B-hat: all that scaling them up takes."""

    counts: PlainCounts
    visits: Adder
    kept: Adder
    cap: int  # M: visits of a user that enter K
    inside: tuple[float, float]  # least and largest share of a visit that lies in the zones

    name = "density-scaled"
    takes = "scalable"

    def loss(self) -> Loss:
        return compose(loss for _, loss in self.spends())

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
        counts: Callable[[int], PlainCounts],
        *,
        cap: int,
        ell: int,
        slots: int,
        inside: tuple[float, float] = (1.0, 1.0),
    ) -> ScaledCounts:
        """All of the budget: shares for K and B, the rest for `counts`, built from what it may spend."""
        adder = LaplaceAdder if budget.pure else GaussianAdder
        visits, budget = budget.take("visits", VISITS_SHARE)
        kept, budget = budget.take("kept", KEPT_SHARE)
        rest, _ = budget.take("counts", 1)
        return cls(
            counts=counts(rest.amount),
            visits=adder.within(visits.amount, cap),
            kept=adder.within(kept.amount, min(ell, slots)),
            cap=cap,
            inside=inside,
        )
