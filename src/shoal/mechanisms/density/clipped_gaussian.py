"""One measurement of all visits with discrete Gaussian noise, each user clipped in its norm.

Guarantee    rho-zCDP, rho = Delta^2 / (2 sigma^2).
Unit         one user.        Neighbours   add or remove one user.
Requires     each user adds a vector of norm at most `clip` before rounding (done in the kernel by an upper
             bound of the norm, checked on its output).
Sensitivity  L2: Delta <= clip STEP + sqrt(d) in steps of 1 / STEP visits, d the number of values: the sum is
             rounded once, by at most half a step per value with the user and without.
Public       clip, d and sigma; the view is public or follows from earlier noisy answers.
Source       own; clipping in the measured norm as in private mean estimation.
Deviations   none.

>>> step = ClippedGaussian.within(1_000_000, clip=2.0, values=100)
>>> step.loss().rho_nano <= 1_000_000
True
>>> round(step.sigma, 1)                                 # noise per value, in visits
44.7
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.errors import GuaranteeError
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import GAUSSIAN, Adder, Noise
from shoal.space.geography import Setting
from shoal.stages.exact import STEP, ClippedSum


@dataclass(frozen=True, kw_only=True)
class ClippedGaussian:
    """A clipped sum of at most `values` values plus independent discrete Gaussian noise."""

    clip: float
    values: int
    noise: Adder  # in steps of 1 / STEP visits

    name = "clipped-gaussian"

    def loss(self) -> Loss:
        return self.noise.cost(self.sensitivity)

    @property
    def sensitivity(self) -> int:
        """In steps, rounded up."""
        return math.ceil(Fraction(self.clip) * STEP) + math.isqrt(self.values) + 1

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise of a value, in visits."""
        return self.noise.scale / STEP

    def __call__(self, exact: ClippedSum, noise: Noise, name: str = "clipped") -> np.ndarray:
        """Noisy values in visits, float64 [groups, columns]."""
        if not isinstance(exact, ClippedSum):
            raise GuaranteeError("wrong-stage", "this mechanism takes sums of clipped users only.")
        if exact.clip > self.clip or exact.values.size > self.values:
            raise GuaranteeError("sensitivity", "the sum is larger than the noise was scaled for.")
        return self.noise.add(noise, name, exact.values) / STEP

    @classmethod
    def within(cls, rho_nano: int, *, clip: float, values: int) -> ClippedGaussian:
        """The least noise whose loss stays within rho."""
        sensitivity = math.ceil(Fraction(clip) * STEP) + math.isqrt(values) + 1
        return cls(clip=clip, values=values, noise=Adder.within(GAUSSIAN, rho_nano, sensitivity))

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, clip: float) -> ClippedGaussian:
        """All of the budget, for a value of every zone and slot."""
        return cls.within(budget.left, clip=clip, values=setting.zones * setting.slots)
