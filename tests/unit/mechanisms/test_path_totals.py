"""The number of trips and tables of norm 1: what they cost and what comes out."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.mechanisms.audit_size import path_setting
from shoal.mechanisms.trip_totals import PathTotals, TableNoise, tables_within
from shoal.privacy.accounting import Allowance, Budget
from shoal.stages.trips import LATTICE


class Queries:
    """Says one table and one number, and which norm it was asked for."""

    def __init__(self):
        self.norms = []

    def all_trips(self):
        return 500

    def table(self, table, norm):
        self.norms.append(norm)
        return np.array([3, 0, -1], np.int64) * LATTICE


class Shift:
    """Adds the same to every number; keeps the scales."""

    def __init__(self, shift):
        self.shift, self.scales = shift, []

    def laplace(self, name, exact, scale):
        self.scales.append((name, scale))
        return exact + self.shift

    gaussian = laplace


@for_each(("shift", "trips"), [(0, 500), (40, 540), (-499, 1), (-10_000, 1)])
def test_the_number_of_trips_is_at_least_one(shift, trips):
    totals, _ = PathTotals.within(Budget.of(1.0, None), path_setting(cap=7))
    noise = Shift(shift)
    assert totals(Queries(), noise) == trips
    assert noise.scales == [("trips", pytest.approx(7 / 0.02))]  # cap over epsilon


def test_a_declared_number_costs_nothing_and_asks_nothing():
    budget = Budget.of(1.0, None)
    totals, rest = PathTotals.within(budget, path_setting(trips=123))
    assert rest == budget
    assert totals.spends() == ()
    assert totals(None, None) == 123


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


def test_shares_are_proportions_of_all_that_is_left():
    noises = tables_within(Budget.of(1.0, None), {"a": 0.2, "b": 0.4, "c": 0.2})
    assert [noise.spend()[1].pure_epsilon_nano for noise in noises.values()] == [250e6, 500e6, 250e6]
