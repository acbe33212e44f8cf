"""Shares of trips per cell, learned from a few rectangles by multiplicative weights (MWEM).

Guarantee    epsilon-DP: trips (+ all_trips) + T choices of 2 m / b each + T answers of m / s each; or
             rho-zCDP with (2 m / b)^2 / 8 and m^2 / (2 sigma^2) instead.
Unit         one user (or one trip, where m = 1 and each trip is a unit).
Neighbours   add or remove one unit.
Requires     at most m trips of a unit (checked by the engine).
Sensitivity  the shares of a trip inside a rectangle sum to at most 1: an answer moves by 0 to m, so
             |answer - estimate| by -m to m: a bounded range of 2 m / b.
Public       grid, given rectangles, m, rounds T, all scales.
Source       Hardt, Ligett and McSherry 2012; run on faces as in Ghane's thesis, sections 3.6 and 4.4.
Deviations   the number of trips is measured; all answers are replayed after each new one, cut to 0 .. n, and
             no gap within half the deviation of its noise is followed; no rectangle is asked twice. The
             thesis runs it along a Hilbert curve; rectangles are sums of cells in any order, so nothing
             changes and none is used. Post-processing, all of it.

>>> from shoal.mechanisms.audit_size import trip_setting
>>> mechanism = HistogramMwem.within(Budget.of(1.0, None), trip_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('trips', 100000000), ('select', 450000000), ('answers', 450000000)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.mechanisms.trip_totals import TripTotals
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Noise
from shoal.space.cells import Euler
from shoal.space.trip_setting import TripSetting
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import UserTrips
from shoal_baselines.mechanisms.histogram_laplace import LATTICE, TripHistogram
from shoal_baselines.mechanisms.histogram_rounds import Rounds
from shoal_baselines.postprocess.prish import PrishLearner, uniform_model

ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class HistogramMwem(TripHistogram):
    """Faces alone, from noisy weights of trips in T chosen rectangles."""

    rounds: Rounds  # in units of the lattice

    name = "histogram-mwem"

    def __call__(self, trips: UserTrips, noise: Noise) -> NoisyHistogram:
        noisy_trips, every = self.totals(trips, noise)
        grid, given = self.setting.grid, self.setting.given
        exact = Euler(faces=trips.shared_faces(LATTICE)).answers(given)
        shape = grid.rows, grid.columns
        start = uniform_model(shape, noisy_trips, cells=1.0)  # without edges
        learner = PrishLearner(
            start, given, noisy_trips, self.rounds.answers.deviation / LATTICE, repair=False
        )
        self.rounds(exact, _OnLattice(learner), noise)
        return NoisyHistogram(euler=Euler(faces=learner.model.faces), trips=noisy_trips, all_trips=every)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (*self.totals.spends(), *self.rounds.spends())

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, **self.rounds.describe()}

    @classmethod
    def within(cls, budget: Budget, setting: TripSetting, *, rounds: int = ROUNDS) -> HistogramMwem:
        """The budget that the numbers of trips leave: half to choose, half to measure."""
        totals, budget = TripTotals.within(budget, setting)
        sensitivity = setting.per_unit * LATTICE
        rounds_of_budget = Rounds.within(budget, sensitivity, rounds=rounds, given=setting.given.count)
        return cls(totals=totals, rounds=rounds_of_budget, setting=setting)


@dataclass(frozen=True)
class _OnLattice:
    """A learner in trips for rounds in units of the lattice."""

    learner: PrishLearner

    def estimates(self) -> np.ndarray:
        return self.learner.estimates() * LATTICE

    def learn(self, chosen: int, answer: float) -> None:
        self.learner.learn(chosen, answer / LATTICE)
