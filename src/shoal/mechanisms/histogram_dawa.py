"""Trips per cell as sums over buckets of a Hilbert curve, each trip shared over its cells (DAWA).

Guarantee    epsilon-DP: trips (+ all_trips) + one share per level of intervals + m / s for all buckets
             together; or the same in rho-zCDP.
Unit         one user (or one trip, where m = 1 and each trip is a unit).
Neighbours   add or remove one unit.
Requires     at most m trips of a unit (checked by the engine).
Sensitivity  costs: the intervals of one length are a partition of the cells, so their deviation costs
             together move by at most 2 m in L1 (+ rounding, see deviation_cost.py); levels are noised one
             by one and add up. Buckets: disjoint, so their sums move by at most m in L1 and in L2.
Public       grid, its Hilbert order, finest length, m, all scales.
Source       Li, Hay, Miklau and Wang 2014 (DAWA), stage 1 with dyadic intervals; run on faces as in Ghane's
             thesis, sections 3.6 and 4.4, with a quarter of the budget for stage 1.
Deviations   stage 2 adds plain noise to buckets instead of a workload's strategy; buckets of `finest` cells
             are not looked into, which saves their levels; the number of trips is bought. A rectangle's
             answer is the weight inside it, less than the number of distinct trips where they go beyond it.

>>> from shoal.mechanisms.audit_size import trip_setting
>>> mechanism = HistogramDawa.within(Budget.of(1.0, None), trip_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('trips', 100000000), ('costs', 225000000), ('buckets', 675000000)]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.mechanisms.adders import Adder
from shoal.mechanisms.deviation_cost import Groups, NoisyCosts
from shoal.mechanisms.histogram_laplace import LATTICE
from shoal.mechanisms.trip_totals import TripTotals, adder_within
from shoal.postprocess.buckets import cover_by_intervals, interval_levels
from shoal.privacy.accounting import Loss, compose
from shoal.privacy.budget import Budget
from shoal.privacy.noise import Noise
from shoal.space.euler import Euler
from shoal.space.hilbert import hilbert_order
from shoal.space.trip_setting import TripSetting
from shoal.stages.histogram import NoisyHistogram
from shoal.stages.trips import UserTrips

COST_SHARE = Fraction(1, 4)
FINEST = 64  # cells of the smallest bucket


@dataclass(frozen=True, kw_only=True)
class HistogramDawa:
    """Faces alone: noisy sums of buckets, spread evenly over their cells."""

    totals: TripTotals
    costs: NoisyCosts
    buckets: Adder  # in units of the lattice
    finest: int
    setting: TripSetting = field(repr=False)

    name = "histogram-dawa"
    takes = "trips"

    def __call__(self, trips: UserTrips, noise: Noise) -> NoisyHistogram:
        kept, every = self.totals(trips, noise)
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
            euler=Euler(faces=faces.reshape(grid.rows, grid.columns)), trips=kept, all_trips=every
        )

    def _buckets(self, exact: np.ndarray, noise: Noise) -> np.ndarray:
        """Stage 1: the bucket of every cell on the curve."""
        place = np.arange(exact.size)
        lengths = interval_levels(exact.size, self.finest)
        costs = self.costs(exact, [place // length for length in lengths], noise)
        return cover_by_intervals(costs, self.finest, exact.size, self.buckets.deviation)

    def loss(self) -> Loss:
        return compose(loss for _, loss in self.spends())

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        units = self.setting.per_unit * LATTICE
        return (*self.totals.spends(), *self.costs.spends(), ("buckets", self.buckets.cost(units)))

    def describe(self) -> dict[str, Any]:
        scale = self.buckets.scale / LATTICE
        return {"name": self.name, "finest": self.finest, "bucket_scale": scale, **self.costs.describe()}

    @classmethod
    def within(cls, budget: Budget, setting: TripSetting, *, finest: int = FINEST) -> HistogramDawa:
        """What the numbers of trips leave: a quarter for the costs, the rest for the buckets."""
        totals, budget = TripTotals.within(budget, setting)
        cells, units = setting.grid.count, setting.per_unit * LATTICE
        finest = min(finest, 1 << max(cells // 8, 1).bit_length() - 1)  # small grids are divided too
        lengths = interval_levels(cells, finest)
        groups = [Groups(-(-cells // length), min(length, cells)) for length in lengths]
        costs = NoisyCosts(adders=(), groups=(), units=units)
        if groups:
            share, budget = budget.take("costs", COST_SHARE)
            costs = NoisyCosts.within(share, units, groups)
        buckets, _ = budget.take("buckets", 1)
        return cls(
            totals=totals,
            costs=costs,
            buckets=adder_within(buckets, units),
            finest=finest,
            setting=setting,
        )
