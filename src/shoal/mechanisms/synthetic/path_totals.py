"""Measurements of every generator of trips: the number of trips, and tables in which a unit has norm 1.

`trips` is the number of trips, at most `cap` per unit, unless declared; a unit changes it by at most cap. A
table comes from the query interface `UserPaths`, where every unit has norm LATTICE at most: L1 where the
budget is pure (Laplace noise), L2 where it is in rho (Gaussian noise).

>>> from shoal.mechanisms.audit_size import path_setting
>>> totals, rest = PathTotals.within(Budget.of(1.0, None), path_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in totals.spends()], rest.left
([('trips', 20000000)], 980000000)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.errors import GuaranteeError
from shoal.mechanisms.histogram.trip_totals import check_each_trip
from shoal.mechanisms.noise import Adder, adder_within
from shoal.privacy.accounting import Allowance, Budget, Loss
from shoal.privacy.noise import Noise
from shoal.space.path_setting import PathSetting
from shoal.space.path_tables import PathTable
from shoal.stages.synthetic import NoisyTable
from shoal.stages.trips import LATTICE, UserPaths

TRIPS_SHARE = 0.02


@dataclass(frozen=True, kw_only=True)
class PathTotals:
    """The noisy number of trips, or the declared one."""

    declared: int | None
    trips: Adder | None  # None: declared
    cap: int

    def __call__(self, paths: UserPaths, noise: Noise) -> float:
        """The declared or noisy number of trips, at least 1."""
        if self.trips is None:
            return float(self.declared or 1)
        exact = np.array([paths.all_trips()], np.int64)
        return max(1.0, float(self.trips.add(noise, "trips", exact)[0]))

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return () if self.trips is None else (("trips", self.trips.cost(self.cap)),)

    @classmethod
    def within(
        cls, budget: Budget, setting: PathSetting, share: float = TRIPS_SHARE
    ) -> tuple[PathTotals, Budget]:
        """Takes a share for the number of trips, unless it is declared; returns the remaining budget too."""
        trips = None
        if setting.trips is None:
            allowance, budget = budget.take("trips", share)
            trips = adder_within(allowance, setting.cap)
        return cls(declared=setting.trips, trips=trips, cap=setting.cap), budget


@dataclass(frozen=True, kw_only=True)
class TableNoise:
    """Noise for one table in which a unit has norm 1; `name` is that of its spend."""

    name: str
    adder: Adder  # in units of the lattice

    def __call__(self, paths: UserPaths, table: PathTable, noise: Noise) -> NoisyTable:
        """The whole table after noise, in units of one contribution."""
        noisy = self.adder.add(noise, self.name, paths.table(table, self.adder.family.norm))
        return NoisyTable(noisy / LATTICE, self.deviation)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a value, in units of one contribution."""
        return self.adder.deviation / LATTICE

    def spend(self) -> tuple[str, Loss]:
        return self.name, self.adder.cost(LATTICE)

    @classmethod
    def within(cls, allowance: Allowance) -> TableNoise:
        return cls(name=allowance.name, adder=adder_within(allowance, LATTICE))


def tables_within(budget: Budget, shares: dict[str, float]) -> dict[str, TableNoise]:
    """Splits the remaining budget in these proportions; the last table takes the rounding remainder."""
    parts = {name: Fraction(share).limit_denominator(10**6) for name, share in shares.items()}
    left = sum(parts.values())
    noises = {}
    for name, part in parts.items():
        allowance, budget = budget.take(name, part / left)
        noises[name] = TableNoise.within(allowance)
        left -= part
    return noises


def check_queries(paths: UserPaths, setting: PathSetting) -> None:
    """Refuses trips on another grid or step, or with looser bounds than the noise is calibrated to."""
    if paths.grid != setting.grid:
        raise GuaranteeError("bound-not-held", "the trips lie on another grid than the noise is for.")
    if paths.step_s != setting.step_s:
        raise GuaranteeError("bound-not-held", "the trips have another step of time than the noise is for.")
    check_each_trip(paths.each_trip, setting.each_trip)
    if setting.trips is None and paths.cap > setting.cap:
        raise GuaranteeError("bound-not-held", "a unit has more trips than the noise is for.")
