"""Integer noise of a set scale with its exact cost: one class per family, for sums with one sensitivity.

The queries that use these (totals, the number of visits) have the same L1 and L2 sensitivity, since one user
can put everything into one bin; so a single number tells the cost of either family.

>>> GaussianAdder.within(1_000_000, 30).cost(30).rho_nano
1000000
>>> LaplaceAdder.within(10**9, 30).scale
30.0

What plain density mechanisms share: the check of exact counts, and how their noise is reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.errors import GuaranteeError
from shoal.privacy.accounting import NANO, Loss, ceil_nano
from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts


def float_at_least(bound: Fraction | int) -> float:
    """The smallest float (to the last bit or two) that is not below an exact bound."""
    value = float(bound)
    while Fraction(value) < bound:
        value = math.nextafter(value, math.inf)
    return value


def ceil_sqrt(square: int) -> int:
    """The square root of a whole number, rounded up to a whole number."""
    root = math.isqrt(square)
    return root + (root * root < square)


@dataclass(frozen=True)
class GaussianAdder:
    """Discrete Gaussian noise of standard deviation `scale`, in units of the query."""

    scale: float

    @classmethod
    def within(cls, rho_nano: int, sensitivity: int) -> GaussianAdder:
        """The least noise whose cost stays within rho."""
        squared = Fraction(sensitivity**2 * NANO, 2 * rho_nano)
        sigma = math.sqrt(squared)
        while Fraction(sigma) ** 2 < squared:  # the float root may fall short
            sigma = math.nextafter(sigma, math.inf)
        return cls(sigma)

    def cost(self, sensitivity: int) -> Loss:
        return Loss(ceil_nano(Fraction(sensitivity) ** 2 / (2 * Fraction(self.scale) ** 2)))

    def add(self, noise: Noise, name: str, exact: np.ndarray) -> np.ndarray:
        return noise.gaussian(name, exact, self.scale)

    @property
    def deviation(self) -> float:
        return self.scale


@dataclass(frozen=True)
class LaplaceAdder:
    """Discrete Laplace noise of scale `scale`, in units of the query."""

    scale: float

    @classmethod
    def within(cls, epsilon_nano: int, sensitivity: int) -> LaplaceAdder:
        """The least noise whose cost stays within epsilon."""
        return cls(float_at_least(Fraction(sensitivity * NANO, epsilon_nano)))

    def cost(self, sensitivity: int) -> Loss:
        return Loss.pure(ceil_nano(Fraction(sensitivity) / Fraction(self.scale)))

    def add(self, noise: Noise, name: str, exact: np.ndarray) -> np.ndarray:
        return noise.laplace(name, exact, self.scale)

    @property
    def deviation(self) -> float:
        return math.sqrt(2.0) * self.scale


Adder = GaussianAdder | LaplaceAdder


FARTHEST = 2.0**59  # estimates beyond this are cut, so that scores fit the lattice of the noise


def whole_estimates(estimates: np.ndarray) -> np.ndarray:
    """Estimates in whole trips that fit the lattice of the noise, whatever they were."""
    return np.clip(np.rint(np.nan_to_num(estimates)), -FARTHEST, FARTHEST).astype(np.int64)


Z95 = 1.959964


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


def plain_noise(family: str, mean: float, half: float, scale: str) -> tuple[str, ...]:
    """For the recipient: independent noise of `mean` people in every count, below `half` in 95 % of cases."""
    return (
        f"{family} noise was added to every zone and slot: before counts were scaled up it is {mean:.1f} on "
        f"average, and less than {half:.1f} in 95 of 100 cases. Counts much smaller than the noise say "
        f"little. In the manifest, `noise_scale_people` is that noise of one count in people: its {scale}.",
        "The noise of a sum of n counts grows like the square root of n.",
    )
