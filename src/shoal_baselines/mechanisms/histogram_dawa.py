"""Trips per cell as sums over buckets of a Hilbert curve, each trip shared over its cells (DAWA).

Guarantee    epsilon-DP: trips (+ all_trips) + one share per level of intervals + m / s for all buckets
             together; or the same in rho-zCDP.
Unit         one user (or one trip, where m = 1 and each trip is a unit).
Neighbours   add or remove one unit.
Requires     at most m trips of a unit (checked by the engine).
Sensitivity  costs: the intervals of one length are a partition of the cells, so their deviation costs
             together move by at most 2 m in L1 (+ rounding, see below); levels are noised one
             by one and add up. Buckets: disjoint, so their sums move by at most m in L1 and in L2.
Public       grid, its Hilbert order, finest length, m, all scales.
Source       Li, Hay, Miklau and Wang 2014 (DAWA), stage 1 with dyadic intervals; run on faces as in Ghane's
             thesis, sections 3.6 and 4.4, with a quarter of the budget for stage 1.
Deviations   stage 2 adds plain noise to buckets instead of a workload's strategy; buckets of `finest` cells
             are not looked into, which saves their levels; the number of trips is measured. A rectangle's
             answer is the weight inside it, less than the number of distinct trips where they go beyond it.

>>> from shoal.mechanisms.audit_size import trip_setting
>>> mechanism = HistogramDawa.within(Budget.of(1.0, None), trip_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('trips', 100000000), ('costs', 225000000), ('buckets', 675000000)]

How far cells are from flat within groups: sum over a group of |cell - mean of its group|, in whole units.

A unit that adds d_j >= 0 to cells, at most S in all, moves the costs of all groups together by at most
2 S (1 - 1/s), s the cells of the largest group: a group's cost moves by at most the sum of |d_j - mean d|
over it, which is largest if one cell has it all. Costs are rounded down, which adds at most 1 per group. A
group of one cell costs 0, whatever the data.

>>> deviation_costs(np.array([4, 0, 0, 7]), np.array([0, 0, 0, 1]), 2).tolist()
[5, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.errors import PlanError
from shoal.mechanisms.trip_totals import TripTotals
from shoal.privacy.accounting import Allowance, Budget, Loss, compose
from shoal.privacy.noise import Adder, Noise, adder_within
from shoal.space.cells import Euler
from shoal.space.trip_setting import TripSetting
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import UserTrips
from shoal_baselines.mechanisms.histogram_laplace import LATTICE, TripHistogram
from shoal_baselines.postprocess.cells import cover_by_intervals, hilbert_order, interval_levels

COST_SHARE = Fraction(1, 4)
FINEST = 64  # cells of the smallest bucket


@dataclass(frozen=True, kw_only=True)
class HistogramDawa(TripHistogram):
    """Faces alone: noisy sums of buckets, spread evenly over their cells."""

    costs: NoisyCosts
    buckets: Adder  # in units of the lattice
    finest: int

    name = "histogram-dawa"

    def __call__(self, trips: UserTrips, noise: Noise) -> NoisyHistogram:
        noisy_trips, every = self.totals(trips, noise)
        grid = self.setting.grid
        order = hilbert_order(grid.rows, grid.columns)
        exact = trips.shared_faces(LATTICE).ravel()[order]
        bucket = self._buckets(exact, noise)
        sums, size = np.zeros((2, int(bucket[-1]) + 1), np.int64)
        np.add.at(sums, bucket, exact)
        np.add.at(size, bucket, 1)
        noisy = self.buckets.add(noise, "buckets", sums) / LATTICE
        faces = np.empty(grid.count)
        faces[order] = (noisy / size)[bucket]
        return NoisyHistogram(
            euler=Euler(faces=faces.reshape(grid.rows, grid.columns)), trips=noisy_trips, all_trips=every
        )

    def _buckets(self, exact: np.ndarray, noise: Noise) -> np.ndarray:
        """Stage 1: the bucket of every cell on the curve."""
        place = np.arange(exact.size)
        lengths = interval_levels(exact.size, self.finest)
        costs = self.costs(exact, [place // length for length in lengths], noise)
        return cover_by_intervals(costs, self.finest, exact.size, self.buckets.deviation)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        units = self.setting.per_unit * LATTICE
        return (*self.totals.spends(), *self.costs.spends(), ("buckets", self.buckets.cost(units)))

    def describe(self) -> dict[str, Any]:
        scale = self.buckets.scale / LATTICE
        return {"name": self.name, "finest": self.finest, "bucket_scale": scale, **self.costs.describe()}

    @classmethod
    def within(cls, budget: Budget, setting: TripSetting, *, finest: int = FINEST) -> HistogramDawa:
        """The budget that the numbers of trips leave: a quarter for the costs, the rest for the buckets."""
        totals, budget = TripTotals.within(budget, setting)
        cells, units = setting.grid.count, setting.per_unit * LATTICE
        finest = min(finest, 1 << max(cells // 8, 1).bit_length() - 1)  # small grids are divided too
        lengths = interval_levels(cells, finest)
        groups = [Groups(-(-cells // length), min(length, cells)) for length in lengths]
        costs = NoisyCosts(adders=(), groups=(), units=units)
        if groups:
            share, budget = budget.take("costs", COST_SHARE)
            costs = NoisyCosts.within(share, units, groups)
        rest, _ = budget.take("buckets", 1)
        buckets = adder_within(rest, units)
        return cls(totals=totals, costs=costs, buckets=buckets, finest=finest, setting=setting)


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
        share = replace(allowance, amount=allowance.amount // max(len(groups), 1))
        if not share.amount:
            raise PlanError("share-empty", "nothing is left for the costs of partitions.", "Raise --epsilon.")
        adders = tuple(adder_within(share, each.sensitivity(units)) for each in groups)
        return cls(adders=adders, groups=tuple(groups), units=units)
