"""Noise and cost of the commute model: what is spent, what a table gets, what is refused."""

import math

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.synthetic.commute import OPTIONAL, SHARES, SyntheticCommute
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.clock import Clock
from shoal.space.setting import CommuteSetting
from shoal.stages.commutes import LATTICE, ExactCommutes

XY = np.random.default_rng(0).uniform(0, 5000, (12, 2))
SETTING = CommuteSetting(site_xy_m=XY, clock=Clock.week("2026-03-02", "UTC"), regions=4, distances=6)


class Recorded(SeededNoise):
    """Noise that remembers what it was asked."""

    def __init__(self, seed):
        super().__init__(seed)
        self.asked = []

    def laplace(self, name, exact, scale):
        self.asked.append((name, exact.copy(), scale))
        return super().laplace(name, exact, scale)

    def gaussian(self, name, exact, sigma):
        self.asked.append((name, exact.copy(), sigma))
        return super().gaussian(name, exact, sigma)


def exact_of(norm=1, seed=0, users=1000):
    chance = np.random.default_rng(seed)
    tables = {}
    for name, shape in SETTING.shapes.items():
        share = chance.dirichlet(np.ones(int(np.prod(shape))))
        tables[name] = (share * users * LATTICE).astype(np.int64).reshape(shape)
    return ExactCommutes(tables=tables, norm=norm)


@for_each("delta", [None, 1e-6])
@for_each("without", [(), ("flows",), OPTIONAL])
def test_spends_add_up_to_the_budget(delta, without):
    budget = Budget.of(0.7, delta)
    mechanism = SyntheticCommute.within(budget, SETTING, without=without)
    loss = mechanism.loss()
    spent = loss.pure_epsilon_nano if delta is None else loss.rho_nano
    assert spent is not None
    assert budget.left - 20 <= spent <= budget.left
    assert [name for name, _ in mechanism.spends()] == [name for name in SHARES if name not in without]
    assert sum(SHARES.values()) == 100


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_every_place_of_every_table_gets_noise_of_its_price(delta):
    mechanism = SyntheticCommute.within(Budget.of(1.0, delta), SETTING)
    exact, noise = exact_of(norm=1 if delta is None else 2), Recorded(5)
    model = mechanism(exact, noise)
    assert [name for name, _, _ in noise.asked] == list(SETTING.shapes)
    spends = dict(mechanism.spends())
    for name, asked, scale in noise.asked:
        assert (asked == exact.tables[name]).all()
        if delta is None:  # one user moves the table by LATTICE in all
            assert LATTICE / scale * 1e9 <= spends[name].pure_epsilon_nano
            assert model.noisy.deviations[name] == pytest.approx(math.sqrt(2) * scale / LATTICE)
        else:
            assert LATTICE**2 / (2 * scale**2) * 1e9 <= spends[name].rho_nano
            assert model.noisy.deviations[name] == pytest.approx(scale / LATTICE)
        moved = model.numbers()[name] - exact.tables[name] / LATTICE
        assert (moved != 0).all()
        if moved.size > 20:
            assert 0.5 < moved.std() / model.noisy.deviations[name] < 1.7


def test_a_huge_budget_gives_the_exact_tables():
    exact = exact_of()
    model = SyntheticCommute.within(Budget.of(1e5, None), SETTING)(exact, SeededNoise(1))
    assert set(model.numbers()) == set(SETTING.shapes)
    for name, values in model.numbers().items():
        assert np.abs(values - exact.tables[name] / LATTICE).max() < 0.02
    assert model.users == pytest.approx(1000, abs=0.1)


def test_other_norms_settings_and_tables_left_out_are_refused():
    mechanism = SyntheticCommute.within(Budget.of(1.0, 1e-6), SETTING)
    assert mechanism.norm == 2
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        mechanism(exact_of(norm=1), SeededNoise(0))
    wrong = exact_of(norm=2)
    wrong.tables["flows"] = wrong.tables["flows"][:2]
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        mechanism(wrong, SeededNoise(0))
    with pytest.raises(PlanError, match="commute-table"):
        SyntheticCommute.within(Budget.of(1.0, None), SETTING, without=("homes",))
