"""The number of users with discrete Laplace noise.

Guarantee    epsilon-DP, epsilon = 1 / b.
Unit         one user.        Neighbours   add or remove one user.
Requires     each user counted once (the kernel counts distinct ids of user-complete batches).
Sensitivity  L1: adding or removing a user changes the number by 1.
Public       b.
Source       Dwork, McSherry, Nissim and Smith 2006; deviations: discrete noise, the same epsilon.

>>> from shoal.privacy.accounting import Budget
>>> HeadcountLaplace.of(Budget.pure_epsilon(0.5), None).noise.scale
2.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.privacy.noise import LAPLACE, Adder
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Noise


@dataclass(frozen=True)
class HeadcountLaplace:
    """One number plus noise."""

    noise: Adder

    name = "headcount-laplace"
    takes = "users"

    def loss(self) -> Loss:
        return self.noise.cost(1)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("users", self.loss()),)

    def describe(self) -> Mapping[str, Any]:
        return {"scale": self.noise.scale}

    def __call__(self, exact: np.ndarray, noise: Noise) -> np.ndarray:
        return self.noise.add(noise, "users", exact)

    @classmethod
    def of(cls, budget: Budget, setting: None) -> HeadcountLaplace:
        """All of the budget."""
        return cls(Adder.within(LAPLACE, budget.left, 1))
