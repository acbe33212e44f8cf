"""Both plain densities: the noise they ask for, the loss they state, what they refuse."""

from fractions import Fraction

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import GuaranteeError
from shoal.mechanisms.audit_size import AuditSize
from shoal.mechanisms.density.counts import DensityCounts
from shoal.mechanisms.methods import DENSITY
from shoal.mechanisms.noise import GAUSSIAN, LAPLACE
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import PARALLEL_FROM, OsNoise, SeededNoise
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import ExactCounts

LATTICE = 2**20
COMMON = {"ell": 3, "slots": 4, "lattice": LATTICE}
COLUMN = {GAUSSIAN: LATTICE**2, LAPLACE: LATTICE}
BOTH = [DensityCounts.within(family, 10**8, column=COLUMN[family], **COMMON) for family in COLUMN]


def exact(units=None, **changes):
    given = {
        "units": np.zeros((2, 4), np.int64) if units is None else units,
        "lattice": LATTICE,
        "ell": 3,
        "column_l1": LATTICE,
        "column_l2_squared": LATTICE**2,
    }
    return ExactCounts(**{**given, **changes})


class Spy:
    publishable = True

    def __init__(self):
        self.calls = []

    def laplace(self, name, query, scale):
        self.calls.append(("laplace", name, scale))
        return query + 7

    def gaussian(self, name, query, sigma):
        self.calls.append(("gaussian", name, sigma))
        return query + 7


@for_each("amount", [1, 999, 24_355_970, 12 * 10**9])
@for_each(("ell", "slots"), [(1, 1), (30, 168), (168, 168), (500, 168)])
@for_each("family", COLUMN, ids=lambda family: family.name)
def test_the_budget_is_used_and_not_more(family, amount, ell, slots):
    mechanism = DensityCounts.within(
        family, amount, ell=ell, slots=slots, column=COLUMN[family], lattice=LATTICE
    )
    visits, scale, loss = min(ell, slots), Fraction(mechanism.noise.scale), mechanism.loss()
    if family is GAUSSIAN:
        assert visits * LATTICE**2 / (2 * scale**2) <= Fraction(amount, 10**9)
        assert amount - 1 <= loss.rho_nano <= amount
        assert loss.pure_epsilon_nano is None
    else:
        assert visits * LATTICE / scale <= Fraction(amount, 10**9)
        assert loss.pure_epsilon_nano in (amount, amount - 1)


@pytest.mark.parametrize("mechanism", BOTH, ids=lambda m: m.name)
def test_all_counts_go_through_one_named_query(mechanism):
    spy = Spy()
    noisy = mechanism(exact(units=np.full((2, 4), 5 * LATTICE)), spy)
    scale, family = mechanism.noise.scale, mechanism.name.removeprefix("density-")
    assert spy.calls == [(family, "counts", scale)]
    assert (noisy.values == 5 + 7 / LATTICE).all()
    assert noisy.scale == scale / LATTICE
    assert noisy.family == f"discrete {family}"


WRONG = {
    "looser bound": exact(ell=4),
    "other slots": exact(units=np.zeros((2, 5), np.int64)),
    "other lattice": exact(lattice=LATTICE // 2),
    "heavier weights": exact(column_l1=LATTICE + 1, column_l2_squared=LATTICE**2 + 1),
    "raw stage": np.zeros((2, 4), np.int64),
    "bounded stage": BoundedVisits(
        counts=np.zeros((2, 4), np.int64), one_visit=np.zeros(2), users=0, visits_capped=0, ell=3, cap=3
    ),
}


@for_each("mechanism", BOTH, ids=lambda m: m.name)
@for_each("case", WRONG)
def test_anything_else_than_what_the_noise_was_scaled_for_is_refused(mechanism, case):
    spy = Spy()
    with pytest.raises(GuaranteeError):
        mechanism(WRONG[case], spy)
    assert spy.calls == []


@for_each("noise", [OsNoise(), SeededNoise(1)], ids=["os", "seeded"])
@for_each("kind", ["laplace", "gaussian"])
def test_what_does_not_fit_the_lattice_is_refused(noise, kind):
    """A saturated draw plus an exact count would publish the count."""
    draw = getattr(noise, kind)
    for scale in (1e22, 2.0**60, 0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(GuaranteeError, match="noise-scale"):
            draw("counts", np.zeros(3, np.int64), scale)
    for extreme in (-(2**63), 2**63 - 1):
        with pytest.raises(GuaranteeError, match="noise-lattice"):
            draw("counts", np.array([extreme], np.int64), 1.0)


def test_a_saturated_sampler_is_refused(monkeypatch):
    import opendp.measurements

    for extreme in (-(2**63), 2**63 - 1):
        saturated = lambda *_, extreme=extreme, **__: lambda zeros: [extreme] * len(zeros)  # noqa: E731
        monkeypatch.setattr(opendp.measurements, "make_laplace", saturated)
        with pytest.raises(GuaranteeError, match="noise-scale"):
            OsNoise().laplace("counts", np.zeros(3, np.int64), 1.0)


def test_noise_is_not_taken_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "opendp.py").write_text("raise SystemExit('imported from the working directory')")
    monkeypatch.chdir(tmp_path)
    noisy = OsNoise(processes=2).laplace("counts", np.zeros(PARALLEL_FROM, np.int64), 10.0)
    assert 8 < np.abs(noisy).mean() < 12


def test_floats_get_no_noise():
    with pytest.raises(GuaranteeError, match="noise-lattice"):
        BOTH[0](exact(units=np.zeros((2, 4))), SeededNoise(1))


@for_each(("method", "delta"), [("gaussian", None), ("laplace", 1e-6), ("best", None)])
def test_a_method_has_no_noise_of_another_family(method, delta):
    with pytest.raises(GuaranteeError, match="noise-family"):
        DENSITY[method].build(Budget.of(1.0, delta), AuditSize().setting, AuditSize())
