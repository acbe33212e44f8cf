"""First measurements of mechanisms on trips: numbers of trips, tables of norm 1, costs and estimates."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.mechanisms.audit_size import path_setting, trip_setting
from shoal.mechanisms.trip_totals import (
    PathTotals,
    TableNoise,
    TripTotals,
    posterior_mean_between,
    tables_within,
)
from shoal.privacy.accounting import Allowance, Budget
from shoal.stages.trips import LATTICE


class Trips:
    """Only the numbers are asked for."""

    per_unit, cap, each_trip = 2, 4, False
    grid = trip_setting(per_unit=2).grid

    def count(self):
        return 20

    def all_trips(self):
        return 30


class Shift:
    """Adds the same to every number; keeps the scales."""

    def __init__(self, shift):
        self.shift, self.scales = shift, []

    def laplace(self, name, exact, scale):
        self.scales.append((name, scale))
        return np.asarray(exact) + self.shift

    gaussian = laplace


@for_each(("shift", "kept"), [(0, 20), (4, 24), (100_000, 100_020), (-(10**6), 1)])
def test_a_kept_trip_stands_for_one_to_cap_over_per_unit(shift, kept):
    totals, _ = TripTotals.within(Budget.of(1.0, None), trip_setting(per_unit=2, cap=4))
    found, every = totals(Trips(), Shift(shift))
    assert found == kept
    assert kept <= every <= 2 * kept


def test_a_precise_number_is_taken_as_it_is_and_none_scaled_without_a_cap():
    totals, _ = TripTotals.within(Budget.of(1e5, None), trip_setting(per_unit=2, cap=4))
    assert totals(Trips(), Shift(0)) == (20, 30)
    totals, _ = TripTotals.within(Budget.of(1.0, None), trip_setting(per_unit=2))
    assert totals.all_trips is None
    assert totals(Trips(), Shift(-50)) == (1.0, None)


class Queries:
    """Says one table and one number, and which norm it was asked for."""

    def __init__(self):
        self.norms = []

    def all_trips(self):
        return 500

    def table(self, table, norm):
        self.norms.append(norm)
        return np.array([3, 0, -1], np.int64) * LATTICE


@for_each(("shift", "trips"), [(0, 500), (40, 540), (-499, 1), (-10_000, 1)])
def test_the_number_of_trips_is_at_least_one(shift, trips):
    totals, _ = PathTotals.within(Budget.of(1.0, None), path_setting(cap=7))
    noise = Shift(shift)
    assert totals(Queries(), noise) == trips
    assert noise.scales == [("trips", pytest.approx(7 / 0.02))]  # cap over epsilon


def test_a_declared_number_costs_nothing_and_shares_are_of_what_is_left():
    budget = Budget.of(1.0, None)
    totals, rest = PathTotals.within(budget, path_setting(trips=123))
    assert rest == budget
    assert totals.spends() == ()
    assert totals(None, None) == 123
    noises = tables_within(Budget.of(1.0, None), {"a": 0.2, "b": 0.4, "c": 0.2})
    assert [noise.spend()[1].pure_epsilon_nano for noise in noises.values()] == [250e6, 500e6, 250e6]


@pytest.mark.parametrize(("pure", "norm", "scale"), [(True, 1, 1 / 0.25), (False, 2, (1 / 0.5) ** 0.5)])
def test_a_table_has_noise_for_norm_one(pure, norm, scale):
    table = TableNoise.within(Allowance("moves", 250_000_000, pure))
    queries, noise = Queries(), Shift(LATTICE // 2)
    bought = table(queries, None, noise)
    assert bought.values.tolist() == [3.5, 0.5, -0.5]
    assert queries.norms == [norm]
    assert noise.scales == [("moves", pytest.approx(scale * LATTICE))]
    assert bought.deviation == pytest.approx(scale * (2**0.5 if pure else 1))
    name, loss = table.spend()
    assert name == "moves"
    assert (loss.pure_epsilon_nano if pure else loss.rho_nano) == 250_000_000


@for_each("deviation", [2.0, 20.0, 300.0, 1e4])
@for_each("noisy", [98.0, 100.0, 450.0, 901.0, 300.0])
def test_it_is_the_mean_of_what_can_be(noisy, deviation):
    low, high = 100.0, 900.0
    at = np.linspace(low, high, 400_001)
    chance = (high - at) * np.exp(-(((at - noisy) / deviation) ** 2) / 2)
    assert posterior_mean_between(noisy, deviation, low, high) == pytest.approx(
        float((at * chance).sum() / chance.sum()), abs=0.5
    )


def test_beyond_bounds_and_at_extremes_it_stays_within():
    assert posterior_mean_between(50.0, 2.0, 100.0, 900.0) == 100.0
    assert posterior_mean_between(2000.0, 2.0, 100.0, 900.0) == 900.0
    for noisy in (-(2.0**60), 2.0**60, 0.0):
        for deviation in (1e-9, 1.0, 1e30):
            assert 5.0 <= posterior_mean_between(noisy, deviation, 5.0, 7.0) <= 7.0
    assert posterior_mean_between(1.0, 1.0, 5.0, 5.0) == 5.0
