"""An Euler histogram of trips learned from a few rectangles by multiplicative weights (PriSH, made sound).

Guarantee    epsilon-DP: trips (+ all_trips) + I choices of 2 m / b each + I answers of m / s each; or
             rho-zCDP with (2 m / b)^2 / 8 and m^2 / (2 sigma^2) instead.
Unit         one user (or one trip, where m = 1 and each trip is a unit).
Neighbours   add or remove one unit.
Requires     at most m trips of a unit (checked by the engine); answers are counts of distinct trips.
Sensitivity  a distinct count moves by 0 to m, so |count - estimate| by -m to m: a bounded range of 2 m / b.
Public       grid, given rectangles, m, cells of a typical trip, rounds I, all scales.
Source       Ghane's thesis, chapter 3, algorithms 1 to 4.
Deviations   privacy: distinct counts are measured, where the thesis measures Euler answers with sensitivity
             1, which they do not have; the number of trips is measured. Accuracy: 5 rounds, where the best
             of 10 to 20 was reported; the start has a public mean length and the whole grid n trips, where
             equal faces and edges have a negative total; "normalise to n" is the whole grid's Euler answer;
             answers are cut to 0 .. n, and no gap within half the deviation of its noise is followed; no
             rectangle is asked twice.

>>> from shoal.mechanisms.audit_size import trip_setting
>>> mechanism = HistogramPrish.within(Budget.of(1.0, None), trip_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('trips', 100000000), ('select', 450000000), ('answers', 450000000)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.mechanisms.trip_totals import TripTotals
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Noise
from shoal.space.trip_setting import TripSetting
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import UserTrips
from shoal_baselines.mechanisms.histogram_laplace import TripHistogram
from shoal_baselines.mechanisms.histogram_rounds import Rounds
from shoal_baselines.postprocess.prish import PrishLearner, TripModel, uniform_model

ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class HistogramPrish(TripHistogram):
    """Faces and edges from noisy distinct counts of I chosen rectangles; edges never above their faces."""

    rounds: Rounds

    name = "histogram-prish"
    edges = True

    def __call__(self, trips: UserTrips, noise: Noise) -> NoisyHistogram:
        noisy_trips, every = self.totals(trips, noise)
        start = self.start(noisy_trips)
        learner = PrishLearner(start.copy(), self.setting.given, noisy_trips, self.rounds.answers.deviation)
        self.rounds(trips.distinct(self.setting.given), learner, noise)
        return NoisyHistogram(
            euler=learner.model.euler(),
            trips=noisy_trips,
            all_trips=every,
            violated_before=learner.without_repair(start),
        )

    def start(self, noisy_trips: float) -> TripModel:
        grid = self.setting.grid
        return uniform_model((grid.rows, grid.columns), noisy_trips, self.setting.expected_cells)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (*self.totals.spends(), *self.rounds.spends())

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "expected_cells": self.setting.expected_cells, **self.rounds.describe()}

    @classmethod
    def within(cls, budget: Budget, setting: TripSetting, *, rounds: int = ROUNDS) -> HistogramPrish:
        """The budget that the numbers of trips leave: half to choose, half to measure."""
        totals, budget = TripTotals.within(budget, setting)
        rounds_of_budget = Rounds.within(budget, setting.per_unit, rounds=rounds, given=setting.given.count)
        return cls(totals=totals, rounds=rounds_of_budget, setting=setting)
