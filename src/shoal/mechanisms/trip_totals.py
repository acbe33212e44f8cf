"""The number of trips, measured first by mechanisms on trips, and tables of norm 1 for generators of trips.

TripTotals, for histograms: `trips` is the number of bounded trips, unless declared; a unit changes it by at
most per_unit. `all_trips` is the number of trips before bounding, at most cap per unit, and is measured where
cap is above per_unit: answers are scaled up by all_trips / trips.

>>> from shoal.mechanisms.audit_size import path_setting, trip_setting
>>> totals, rest = TripTotals.within(Budget.of(1.0, None), trip_setting(per_unit=2, cap=4))
>>> [(name, loss.pure_epsilon_nano) for name, loss in totals.spends()], rest.left
([('trips', 100000000), ('all_trips', 45000000)], 855000000)

PathTotals, for generators: `trips` is the number of trips, at most `cap` per unit, unless declared; a unit
changes it by at most cap.

>>> totals, rest = PathTotals.within(Budget.of(1.0, None), path_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in totals.spends()], rest.left
([('trips', 20000000)], 980000000)

TableNoise: a table comes from the query interface `UserPaths`, where every unit has norm LATTICE at most: L1
where the budget is pure (Laplace noise), L2 where it is in rho (Gaussian noise).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from shoal.errors import GuaranteeError
from shoal.privacy.accounting import Allowance, Budget, Loss
from shoal.privacy.noise import Adder, Noise, adder_within
from shoal.space.cell_paths import PathTable
from shoal.space.trip_setting import PathSetting, TripSetting
from shoal.stages.synthetic import NoisyTable
from shoal.stages.trips import LATTICE, UserPaths, UserTrips

TRIPS_SHARE, ALL_SHARE = 0.1, 0.05  # of a histogram's budget
PATH_TRIPS_SHARE = 0.02  # of a generator's budget


@dataclass(frozen=True, kw_only=True)
class TripTotals:
    """Measures the numbers of bounded and of all trips."""

    declared: int | None
    trips: Adder | None  # None: declared
    all_trips: Adder | None  # None: answers are not scaled up
    setting: TripSetting = field(repr=False)

    @property
    def per_unit(self) -> int:
        return self.setting.per_unit

    @property
    def cap(self) -> int:
        return self.setting.cap or self.setting.per_unit

    def __call__(self, trips: UserTrips, noise: Noise) -> tuple[float, float | None]:
        """Noisy numbers of bounded trips (at least 1) and of all trips; refuses trips with looser bounds."""
        check_trips(trips, self.setting)
        bounded = float(self.declared or 0)
        if self.trips is not None:
            bounded = float(self.trips.add(noise, "trips", np.array([trips.count()], np.int64))[0])
        bounded = max(bounded, 1.0)
        if self.all_trips is None:
            return bounded, None
        every = self.all_trips.add(noise, "all_trips", np.array([trips.all_trips()], np.int64))
        # min(c, cap) is from min(c, per_unit) to that times cap / per_unit, for every unit's c trips
        most = bounded * self.cap / self.per_unit
        return bounded, posterior_mean_between(float(every[0]), self.all_trips.deviation, bounded, most)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        spends = []
        if self.trips is not None:
            spends.append(("trips", self.trips.cost(self.per_unit)))
        if self.all_trips is not None:
            spends.append(("all_trips", self.all_trips.cost(self.cap)))
        return tuple(spends)

    @classmethod
    def within(cls, budget: Budget, setting: TripSetting) -> tuple[TripTotals, Budget]:
        """Takes a tenth of the budget for bounded trips and a twentieth of the remainder for all trips."""
        trips = every = None
        cap = setting.cap or setting.per_unit
        if setting.trips is None:
            allowance, budget = budget.take("trips", TRIPS_SHARE)
            trips = adder_within(allowance, setting.per_unit)
        if cap > setting.per_unit:
            allowance, budget = budget.take("all_trips", ALL_SHARE)
            every = adder_within(allowance, cap)
        return cls(declared=setting.trips, trips=trips, all_trips=every, setting=setting), budget


FAR = 6.0  # deviations from the noisy number, beyond which the likelihood is taken as 0
PLACES, WEIGHTS = np.polynomial.legendre.leggauss(64)


def posterior_mean_between(noisy: float, deviation: float, low: float, high: float) -> float:
    """The posterior mean of a number between two known bounds, given a noisy one.

    The prior density falls linearly from the lower bound to zero at the upper one; the noise is taken to be
    normal. Without noise, the result is the noisy number; with very large noise, it lies a third of the way
    from the lower bound to the upper one.

    >>> posterior_mean_between(500.0, 0.1, 100.0, 900.0)
    500.0
    >>> round(posterior_mean_between(5000.0, 1e7, 100.0, 1000.0))
    400
    """
    first, last = max(low, noisy - FAR * deviation), min(high, noisy + FAR * deviation)
    if high <= low or first >= last:
        return min(max(noisy, low), max(high, low))
    if deviation < 1e-3 * (high - low):
        return min(max(noisy, low), high)
    at = first + (PLACES + 1) / 2 * (last - first)
    distance = ((at - noisy) / deviation) ** 2 / 2
    density = WEIGHTS * (high - at) * np.exp(distance.min() - distance)
    return float(min(max((at * density).sum() / density.sum(), low), high))


def check_trips(trips: UserTrips, setting: TripSetting) -> None:
    """Refuses trips on another grid, or with looser bounds than the noise is calibrated to."""
    if trips.grid != setting.grid:
        raise GuaranteeError("bound-not-held", "the trips lie on another grid than the noise is for.")
    check_each_trip(trips.each_trip, setting.each_trip)
    if trips.per_unit > setting.per_unit or (setting.cap is not None and trips.cap > setting.cap):
        raise GuaranteeError("bound-not-held", "a unit has more trips than the noise is for.")


def check_each_trip(counted: bool, declared: bool) -> None:
    """Refuses trips that were bounded for another unit of privacy than that of the noise."""
    if counted != declared:
        units = {True: "a trip", False: "a user"}
        message = f"the unit of these trips is {units[counted]}; the noise is for {units[declared]}."
        raise GuaranteeError("bound-not-held", message)


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
        cls, budget: Budget, setting: PathSetting, share: float = PATH_TRIPS_SHARE
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
    """Refuses trips on another grid, or with looser bounds than the noise is calibrated to."""
    if paths.grid != setting.grid:
        raise GuaranteeError("bound-not-held", "the trips lie on another grid than the noise is for.")
    if paths.step_s != setting.step_s:
        raise GuaranteeError("bound-not-held", "the trips have another step of time than the noise is for.")
    check_each_trip(paths.each_trip, setting.each_trip)
    if setting.trips is None and paths.cap > setting.cap:
        raise GuaranteeError("bound-not-held", "a unit has more trips than the noise is for.")
