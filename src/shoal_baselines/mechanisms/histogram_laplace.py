"""Trips per cell of a grid, each trip shared over its cells, with noise on every cell once.

Guarantee    epsilon-DP: trips (+ all_trips) + m / s for all cells together; or rho-zCDP with
             m^2 / (2 sigma^2) for the cells.
Unit         one user (or one trip, where m = 1 and each trip is a unit).
Neighbours   add or remove one unit.
Requires     at most m trips of a unit (checked by the engine).
Sensitivity  the shares of a trip sum to at most 1 over its cells: L1 <= m, and L2 <= m, reached by trips
             of one cell.
Public       grid, given rectangles, m, all scales.
Source       Dwork, McSherry, Nissim and Smith 2006; "LM" of Ghane's thesis, section 4.4, on normalised faces.
Deviations   a trip weighs 1 in all, where whole trips in every cell would have its length as sensitivity;
             a rectangle's answer is the weight inside it, less than the number of distinct trips where they
             go beyond it. Where noise outweighs what the map says about the given rectangles, a flat map is
             released (shoal_baselines.postprocess.cells); nothing is cut at 0, so that sums stay unbiased.

>>> from shoal.mechanisms.audit_size import trip_setting
>>> mechanism = HistogramLaplace.within(Budget.of(1.0, None), trip_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('trips', 100000000), ('cells', 900000000)]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.mechanisms.trip_totals import TripTotals
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Adder, Composed, Noise, adder_within
from shoal.space.cells import Euler
from shoal.space.trip_setting import TripSetting
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import UserTrips
from shoal_baselines.postprocess.cells import map_or_flat

LATTICE = 2**20  # units of one trip


@dataclass(frozen=True, kw_only=True)
class TripHistogram(Composed):
    """Common parts of histogram mechanisms: numbers of trips and public parameters."""

    totals: TripTotals
    setting: TripSetting = field(repr=False)

    takes = "trips"
    edges = False  # answers are of faces and edges; without, of shares of trips in cells
    pool = False  # no pool of synthetic boxes is published


@dataclass(frozen=True, kw_only=True)
class HistogramLaplace(TripHistogram):
    """Faces alone: noisy shares of trips."""

    cells: Adder  # in units of the lattice

    name = "histogram-laplace"

    def __call__(self, trips: UserTrips, noise: Noise) -> NoisyHistogram:
        noisy_trips, every = self.totals(trips, noise)
        noisy = self.cells.add(noise, "cells", trips.shared_faces(LATTICE)) / LATTICE
        variance = (self.cells.deviation / LATTICE) ** 2
        faces = map_or_flat(noisy, noisy_trips, variance, self.setting.given)
        return NoisyHistogram(euler=Euler(faces=faces), trips=noisy_trips, all_trips=every)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (*self.totals.spends(), ("cells", self.cells.cost(self.setting.per_unit * LATTICE)))

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "cell_scale": self.cells.scale / LATTICE}

    @classmethod
    def within(cls, budget: Budget, setting: TripSetting) -> HistogramLaplace:
        """The budget that the numbers of trips leave goes to the cells."""
        totals, budget = TripTotals.within(budget, setting)
        cells, _ = budget.take("cells", 1)
        return cls(totals=totals, cells=adder_within(cells, setting.per_unit * LATTICE), setting=setting)
