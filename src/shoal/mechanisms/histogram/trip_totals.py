"""Noisy numbers of trips, measured first by every histogram mechanism.

`trips` is the number of kept trips, unless declared; a unit changes it by at most per_unit. `all_trips` is
the number of trips before bounding, at most cap per unit, and is measured where cap is above per_unit:
answers are scaled up by all_trips / trips.

>>> from shoal.mechanisms.audit_size import trip_setting
>>> totals, rest = TripTotals.within(Budget.of(1.0, None), trip_setting(per_unit=2, cap=4))
>>> [(name, loss.pure_epsilon_nano) for name, loss in totals.spends()], rest.left
([('trips', 100000000), ('all_trips', 45000000)], 855000000)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shoal.errors import GuaranteeError
from shoal.mechanisms.noise import Adder, adder_within
from shoal.postprocess.shrinkage import posterior_mean_between
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Noise
from shoal.space.trip_setting import TripSetting
from shoal.stages.trips import UserTrips

TRIPS_SHARE = 0.1
ALL_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class TripTotals:
    """Measures the numbers of kept and of all trips."""

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
        """Noisy numbers of kept trips (at least 1) and of all trips; refuses trips with looser bounds."""
        check_trips(trips, self.setting)
        kept = float(self.declared or 0)
        if self.trips is not None:
            kept = float(self.trips.add(noise, "trips", np.array([trips.count()], np.int64))[0])
        kept = max(kept, 1.0)
        if self.all_trips is None:
            return kept, None
        every = self.all_trips.add(noise, "all_trips", np.array([trips.all_trips()], np.int64))
        # min(c, cap) is from min(c, per_unit) to that times cap / per_unit, for every unit's c trips
        most = kept * self.cap / self.per_unit
        return kept, posterior_mean_between(float(every[0]), self.all_trips.deviation, kept, most)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        spends = []
        if self.trips is not None:
            spends.append(("trips", self.trips.cost(self.per_unit)))
        if self.all_trips is not None:
            spends.append(("all_trips", self.all_trips.cost(self.cap)))
        return tuple(spends)

    @classmethod
    def within(cls, budget: Budget, setting: TripSetting) -> tuple[TripTotals, Budget]:
        """Takes a tenth of the budget for kept trips and a twentieth of the remainder for all trips."""
        trips = every = None
        cap = setting.cap or setting.per_unit
        if setting.trips is None:
            allowance, budget = budget.take("trips", TRIPS_SHARE)
            trips = adder_within(allowance, setting.per_unit)
        if cap > setting.per_unit:
            allowance, budget = budget.take("all_trips", ALL_SHARE)
            every = adder_within(allowance, cap)
        return cls(declared=setting.trips, trips=trips, all_trips=every, setting=setting), budget


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
