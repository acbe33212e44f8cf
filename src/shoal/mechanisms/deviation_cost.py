"""How far cells are from flat within groups: sum over a group of |cell - mean of its group|, in whole units.

A unit that adds at most S in all to the cells moves the costs of all groups together by at most 2 S: it adds
d_j to cells and their mean to the mean, and the sum of |d_j - mean d| is at most twice that of d_j. Costs are
rounded down, which adds at most 1 per group. A group of one cell costs 0, whatever the data.

>>> deviation_costs(np.array([4, 0, 0, 7]), np.array([0, 0, 0, 1]), 2).tolist()
[5, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.errors import PlanError
from shoal.mechanisms.adders import Adder
from shoal.mechanisms.trip_totals import adder_within
from shoal.privacy.accounting import Loss, compose
from shoal.privacy.budget import Allowance
from shoal.privacy.noise import Noise


def deviation_costs(cells: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """int64 [groups]: floor of the deviation cost, exact: with mean = q + r / size no product overflows."""
    size, total, above = (np.zeros(groups, np.int64) for _ in range(3))
    np.add.at(size, group, 1)
    np.add.at(total, group, cells)
    quotient, rest = np.divmod(total, np.maximum(size, 1))
    gap = cells - quotient[group]
    whole = np.zeros(groups, np.int64)
    np.add.at(whole, group, np.abs(gap))
    np.add.at(above, group, (gap > 0).astype(np.int64))
    return whole + rest * (size - 2 * above) // np.maximum(size, 1)


def cost_sensitivity(units: int, groups: int) -> int:
    """L1 (and L2) of the costs of one partition, where a unit adds at most `units` to the cells in all."""
    return 2 * units + groups


@dataclass(frozen=True, kw_only=True)
class NoisyCosts:
    """Costs of several partitions of the same cells, each with noise of its own: their losses add up."""

    adders: tuple[Adder, ...]
    groups: tuple[int, ...]  # of each partition
    units: int  # that a unit adds to the cells at most

    def __call__(
        self, cells: np.ndarray, partitions: Sequence[np.ndarray], noise: Noise
    ) -> tuple[np.ndarray, ...]:
        """int64 noisy costs, one array per partition."""
        return tuple(
            adder.add(noise, "costs", deviation_costs(cells, partition, groups))
            for adder, partition, groups in zip(self.adders, partitions, self.groups, strict=True)
        )

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        if not self.adders:
            return ()
        losses = (
            a.cost(cost_sensitivity(self.units, groups))
            for a, groups in zip(self.adders, self.groups, strict=True)
        )
        return (("costs", compose(losses)),)

    def describe(self) -> dict[str, Any]:
        return {"partitions": len(self.adders), "cost_scale": [a.scale / self.units for a in self.adders]}

    @classmethod
    def within(cls, allowance: Allowance, units: int, groups: Sequence[int]) -> NoisyCosts:
        """The same share for every partition."""
        share = Allowance(allowance.name, allowance.amount // max(len(groups), 1), allowance.pure)
        if not share.amount:
            raise PlanError("share-empty", "nothing is left for the costs of partitions.", "Raise --epsilon.")
        adders = tuple(adder_within(share, cost_sensitivity(units, count)) for count in groups)
        return cls(adders=adders, groups=tuple(groups), units=units)
