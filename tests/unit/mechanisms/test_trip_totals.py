"""Numbers of trips: what is bought, and how far a kept trip may be scaled up."""

import numpy as np
from tests.loops import for_each

from shoal.mechanisms.audit_size import trip_setting
from shoal.mechanisms.trip_totals import TripTotals
from shoal.privacy.accounting import Budget


class Trips:
    """Only the numbers are asked for."""

    per_unit, cap, each_trip = 2, 4, False
    grid = trip_setting(per_unit=2).grid

    def count(self):
        return 20

    def all_trips(self):
        return 30


class Shift:
    """Adds the same to every number."""

    def __init__(self, shift):
        self.shift = shift

    def laplace(self, name, exact, scale):
        return np.asarray(exact) + self.shift


@for_each(("shift", "kept"), [(0, 20), (4, 24), (100_000, 100_020), (-(10**6), 1)])
def test_a_kept_trip_stands_for_one_to_cap_over_per_unit(shift, kept):
    totals, _ = TripTotals.within(Budget.of(1.0, None), trip_setting(per_unit=2, cap=4))
    found, every = totals(Trips(), Shift(shift))
    assert found == kept
    assert kept <= every <= 2 * kept


def test_a_precise_number_of_all_trips_is_taken_as_it_is():
    totals, _ = TripTotals.within(Budget.of(1e5, None), trip_setting(per_unit=2, cap=4))
    assert totals(Trips(), Shift(0)) == (20, 30)


def test_without_a_cap_nothing_is_scaled_up():
    totals, _ = TripTotals.within(Budget.of(1.0, None), trip_setting(per_unit=2))
    assert totals.all_trips is None
    assert totals(Trips(), Shift(-50)) == (1.0, None)
