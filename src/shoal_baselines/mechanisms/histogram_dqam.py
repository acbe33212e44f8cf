"""An Euler histogram of trips learned from a few rectangles and the densities of regions (DQAM, made sound).

Guarantee    epsilon-DP: trips (+ all_trips) + one share per level of the quadtree + m / s for the densities
             of all regions together + T choices of 2 m / b each + T answers of m / s' each; or the same in
             rho-zCDP, with (2 m / b)^2 / 8 for a choice.
Unit         one user (or one trip, where m = 1 and each trip is a unit).
Neighbours   add or remove one unit.
Requires     at most m trips of a unit (checked by the engine); answers are counts of distinct trips.
Sensitivity  costs: blocks of one level are disjoint and a trip's shares sum to 1, so their deviation costs
             together move by at most 2 m in L1 (+ rounding, see histogram_dawa.py). Each block's cost is
             noised once and used twice, as a parent and as a child; levels add up. Regions are disjoint:
             their sums move by at most m. A distinct count moves by 0 to m: a bounded range of 2 m / b.
Public       grid, given rectangles, m, cells of a typical trip, first and last level, threshold, rounds T.
Source       Ghane's thesis, chapter 4, algorithms 5 and 6.
Deviations   privacy: every level is paid, where the thesis pays for the leaves alone, which show each split
             above them; distinct counts are measured, where it takes 1 for the sensitivity of Euler
             answers; the number of trips is measured. Accuracy: the tree starts at a public level and ends at
             one, so that fewer are paid; the threshold is in units of the noise, where 4 / eps1^2 is a
             variance; densities have noise of m / s trips, not of 1 / eps2 on a share, and weigh updates as
             in shoal_baselines.postprocess.regions; 5 rounds with replay; start, cut answers and gaps as in
             histogram_prish.py; the consistent estimate is found without a linear program.

>>> from shoal.mechanisms.audit_size import trip_setting
>>> mechanism = HistogramDqam.within(Budget.of(1.0, None), trip_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends() if name != "costs"]
[('trips', 100000000), ('densities', 225000000), ('select', 225000000), ('answers', 225000000)]
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from shoal.errors import PlanError
from shoal.mechanisms.trip_totals import TripTotals
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Adder, Noise, adder_within
from shoal.space.trip_setting import TripSetting
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import UserTrips
from shoal_baselines.mechanisms.histogram_dawa import Groups, NoisyCosts
from shoal_baselines.mechanisms.histogram_laplace import LATTICE, TripHistogram
from shoal_baselines.mechanisms.histogram_rounds import Rounds
from shoal_baselines.postprocess.prish import uniform_model
from shoal_baselines.postprocess.regions import DqamLearner, blocks, depth_of, mean_of_children, regions

COST_SHARE = Fraction(1, 4)
DENSITY_SHARE = Fraction(1, 3)  # of what is left then: a quarter of the whole; the rounds have half
ROUNDS = 5
FIRST, LAST = 3, 6  # levels of the quadtree
THRESHOLD = 16.0  # of the costs' noise scale


@dataclass(frozen=True, kw_only=True)
class HistogramDqam(TripHistogram):
    """Faces and edges from regions of like density and T noisy distinct counts; edges below their faces."""

    costs: NoisyCosts
    densities: Adder  # in units of the lattice
    rounds: Rounds
    first: int

    name = "histogram-dqam"
    edges = True

    def __call__(self, trips: UserTrips, noise: Noise) -> NoisyHistogram:
        noisy_trips, every = self.totals(trips, noise)
        region, mass = self._partition(trips.shared_faces(LATTICE).ravel(), noise)
        given, deviation = self.setting.given, self.rounds.answers.deviation
        start = uniform_model(self.shape, noisy_trips, self.setting.expected_cells)
        learner = DqamLearner(start.copy(), region, mass, given, noisy_trips, deviation)
        self.rounds(trips.distinct(given), learner, noise)
        return NoisyHistogram(
            euler=learner.model.euler(),
            trips=noisy_trips,
            all_trips=every,
            violated_before=learner.without_repair(start),
        )

    def _partition(self, exact: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
        """Algorithm 5: the region of every cell, and the noisy trips in each region."""
        levels = range(self.first, self.first + len(self.costs.adders))
        costs = list(self.costs(exact, [blocks(self.shape, level) for level in levels], noise))
        if costs and levels[-1] + 1 == depth_of(self.shape):
            costs.append(np.zeros(4 ** depth_of(self.shape)))  # cells cost 0
        threshold = THRESHOLD * max((adder.scale for adder in self.costs.adders), default=0.0)
        gaps = [
            cost - mean_of_children(finer, level)
            for level, (cost, finer) in enumerate(pairwise(costs), self.first)
        ]
        region = regions(self.shape, first=self.first, gaps=gaps, threshold=threshold)
        sums = np.zeros(int(region.max()) + 1, np.int64)
        np.add.at(sums, region, exact)
        return region, self.densities.add(noise, "densities", sums) / LATTICE

    @property
    def shape(self) -> tuple[int, int]:
        return self.setting.grid.rows, self.setting.grid.columns

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        densities = self.densities.cost(self.setting.per_unit * LATTICE)
        return (
            *self.totals.spends(),
            *self.costs.spends(),
            ("densities", densities),
            *self.rounds.spends(),
        )

    def describe(self) -> dict[str, Any]:
        scale = self.densities.scale / LATTICE
        return {
            "name": self.name,
            "first_level": self.first,
            "expected_cells": self.setting.expected_cells,
            "density_scale": scale,
            **self.costs.describe(),
            **self.rounds.describe(),
        }

    @classmethod
    def within(
        cls,
        budget: Budget,
        setting: TripSetting,
        *,
        rounds: int = ROUNDS,
        first: int = FIRST,
        last: int = LAST,
    ) -> HistogramDqam:
        """The budget that the numbers of trips leave: quarters for costs and densities, half for rounds."""
        if not 0 <= first <= last:
            raise PlanError(
                "quadtree-levels", f"levels must have 0 <= first <= last; got {first} and {last}."
            )
        totals, budget = TripTotals.within(budget, setting)
        units = setting.per_unit * LATTICE
        shape = setting.grid.rows, setting.grid.columns
        depth = depth_of(shape)
        first, last = min(first, max(depth - 1, 0)), min(last, depth)
        # single cells cost 0, so their level is free
        levels = range(first, min(last + 1, depth)) if last > first else range(0)
        costs = NoisyCosts(adders=(), groups=(), units=units)
        if levels:
            share, budget = budget.take("costs", COST_SHARE)
            costs = NoisyCosts.within(share, units, [_groups(shape, level) for level in levels])
        share, budget = budget.take("densities", DENSITY_SHARE)
        noise = {"costs": costs, "densities": adder_within(share, units)}
        rounds_of_budget = Rounds.within(budget, setting.per_unit, rounds=rounds, given=setting.given.count)
        return cls(totals=totals, rounds=rounds_of_budget, first=first, setting=setting, **noise)


def _groups(shape: tuple[int, int], level: int) -> Groups:
    side = 1 << (depth_of(shape) - level)
    return Groups(4**level, min(side, shape[0]) * min(side, shape[1]))
