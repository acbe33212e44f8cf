"""Integer noise of two families: the scale that a budget allows, and the exact cost of a scale.

`power` is the most that one unit changes a query by: the L1 norm of the change for discrete Laplace noise,
its squared L2 norm for discrete Gaussian noise. With n the norm of the family and s the scale,

    cost = power / (n s^n),        so epsilon = power / s and rho = power / (2 s^2).

A choice with P(i) ~ exp(score_i / s), each score moved by at most `shift`, has the bounded range
r = 2 shift / s and costs epsilon = r or rho = r^2 / 8: the cost of noise on a power of 2 shift or shift^2.

>>> Adder.within(GAUSSIAN, 1_000_000, 30).cost(30).rho_nano
1000000
>>> Adder.within(LAPLACE, 10**9, 30).scale
30.0
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.privacy.accounting import NANO, Allowance, Budget, Loss, ceil_nano, compose
from shoal.privacy.noise import Noise

Z95 = 1.959964
FARTHEST = 2.0**59  # estimates beyond this are cut, so that scores fit the lattice of the noise


@dataclass(frozen=True)
class Family:
    """A distribution of integer noise. Its cost is in epsilon (norm 1) or in rho (norm 2)."""

    name: str
    norm: int
    scale_is: str  # for the recipient
    deviation: float  # standard deviation, in scales
    mean: float  # mean absolute noise, in scales
    half: float  # of the interval that holds the noise in 95 of 100 cases, in scales

    def scale(self, amount: int, power: int) -> float:
        """The least scale (to the last bit or two) whose cost stays within `amount`, in 1e-9."""
        bound = Fraction(power * NANO, self.norm * amount)
        scale = math.sqrt(bound) if self.norm == 2 else float(bound)
        while Fraction(scale) ** self.norm < bound:  # rounding may fall short
            scale = math.nextafter(scale, math.inf)
        return scale

    def amount(self, scale: float, power: int) -> int:
        """The cost in 1e-9, exact and rounded up."""
        return ceil_nano(Fraction(power) / (self.norm * Fraction(scale) ** self.norm))

    def as_loss(self, amount: int) -> Loss:
        """An amount in 1e-9 of the family's own currency as a loss."""
        return Loss.pure(amount) if self.norm == 1 else Loss(amount)

    def cost(self, scale: float, power: int) -> Loss:
        return self.as_loss(self.amount(scale, power))

    def choice(self, shift: int) -> int:
        """The power of a choice whose scores one unit moves by at most `shift` each, up or down."""
        return 2 * shift if self.norm == 1 else shift**2


LAPLACE = Family("laplace", 1, "mean size (the scale b)", math.sqrt(2.0), 1.0, math.log(20.0))
GAUSSIAN = Family("gaussian", 2, "standard deviation", 1.0, math.sqrt(2 / math.pi), Z95)


def family_of(budget: Budget | Allowance) -> Family:
    """Laplace noise for a pure budget, Gaussian noise for one in rho."""
    return LAPLACE if budget.pure else GAUSSIAN


@dataclass(frozen=True)
class Adder:
    """Discrete noise of one family and scale, in units of the query."""

    family: Family
    scale: float

    @classmethod
    def within(cls, family: Family, amount: int, sensitivity: int) -> Adder:
        """The least noise whose cost stays within `amount`, for a query whose L1 and L2 norms are equal."""
        return cls(family, family.scale(amount, sensitivity**family.norm))

    def amount(self, sensitivity: int) -> int:
        """The cost in 1e-9 of rho or epsilon, exact and rounded up."""
        return self.family.amount(self.scale, sensitivity**self.family.norm)

    def cost(self, sensitivity: int) -> Loss:
        return self.family.as_loss(self.amount(sensitivity))

    def add(self, noise: Noise, name: str, exact: np.ndarray) -> np.ndarray:
        if self.family == LAPLACE:
            return noise.laplace(name, exact, self.scale)
        return noise.gaussian(name, exact, self.scale)

    @property
    def deviation(self) -> float:
        """Standard deviation."""
        return self.family.deviation * self.scale

    @property
    def mean(self) -> float:
        """Mean absolute noise."""
        return self.family.mean * self.scale

    @property
    def half(self) -> float:
        """Half the width of the interval that holds the noise in 95 of 100 cases."""
        return self.family.half * self.scale


def adder_within(allowance: Allowance, sensitivity: int) -> Adder:
    """The least noise that a named share of a budget pays for."""
    return Adder.within(family_of(allowance), allowance.amount, sensitivity)


class Composed(ABC):
    """A mechanism whose steps have named losses, which add up."""

    @abstractmethod
    def spends(self) -> tuple[tuple[str, Loss], ...]: ...

    def loss(self) -> Loss:
        return compose(loss for _, loss in self.spends())


def ceil_sqrt(square: int) -> int:
    """The square root of a whole number, rounded up to a whole number."""
    root = math.isqrt(square)
    return root + (root * root < square)


def whole_estimates(estimates: np.ndarray) -> np.ndarray:
    """Estimates in whole trips that fit the lattice of the noise, whatever they were."""
    return np.clip(np.rint(np.nan_to_num(estimates)), -FARTHEST, FARTHEST).astype(np.int64)
