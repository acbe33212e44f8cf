"""How far cells are from flat within groups: sum over a group of |cell - mean of its group|, in whole units.

A unit that adds d_j >= 0 to cells, at most S in all, moves the costs of all groups together by at most
2 S (1 - 1/s), s the cells of the largest group: a group's cost moves by at most the sum of |d_j - mean d|
over it, which is largest if one cell has it all. Costs are rounded down, which adds at most 1 per group. A
group of one cell costs 0, whatever the data.

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


@dataclass(frozen=True)
class Groups:
    """A partition of cells, as far as costs depend on it."""

    count: int
    largest: int  # cells of the largest group

    def sensitivity(self, units: int) -> int:
        """L1 (and L2) of all costs, where a unit adds at most `units` to the cells in all."""
        return -(-2 * units * (self.largest - 1) // self.largest) + self.count


@dataclass(frozen=True, kw_only=True)
class NoisyCosts:
    """Costs of several partitions of the same cells, each with noise of its own: their losses add up."""

    adders: tuple[Adder, ...]
    groups: tuple[Groups, ...]  # of each partition
    units: int  # that a unit adds to the cells at most

    def __call__(
        self, cells: np.ndarray, partitions: Sequence[np.ndarray], noise: Noise
    ) -> tuple[np.ndarray, ...]:
        """int64 noisy costs, one array per partition."""
        return tuple(
            adder.add(noise, "costs", deviation_costs(cells, partition, groups.count))
            for adder, partition, groups in zip(self.adders, partitions, self.groups, strict=True)
        )

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        if not self.adders:
            return ()
        losses = (
            adder.cost(groups.sensitivity(self.units))
            for adder, groups in zip(self.adders, self.groups, strict=True)
        )
        return (("costs", compose(losses)),)

    def describe(self) -> dict[str, Any]:
        return {"partitions": len(self.adders), "cost_scale": [a.scale / self.units for a in self.adders]}

    @classmethod
    def within(cls, allowance: Allowance, units: int, groups: Sequence[Groups]) -> NoisyCosts:
        """The same share for every partition."""
        share = Allowance(allowance.name, allowance.amount // max(len(groups), 1), allowance.pure)
        if not share.amount:
            raise PlanError("share-empty", "nothing is left for the costs of partitions.", "Raise --epsilon.")
        adders = tuple(adder_within(share, each.sensitivity(units)) for each in groups)
        return cls(adders=adders, groups=tuple(groups), units=units)
