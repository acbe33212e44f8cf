"""Plain densities, also scaled up: noise, losses by replay, spends, what is refused."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from tests.loops import for_each

from shoal.auditing.replay import ArbitraryNoise, replay
from shoal.engine.visits import VisitKernel, bound_visits, scalable_counts
from shoal.errors import GuaranteeError
from shoal.kinds.density.plan import METHODS, MethodOptions
from shoal.mechanisms.audit_size import AuditSize
from shoal.mechanisms.density.counts import DensityCounts
from shoal.mechanisms.methods import DENSITY
from shoal.postprocess.density.numbers import scaled_density
from shoal.privacy.accounting import NANO, Budget, compose
from shoal.privacy.noise import GAUSSIAN, LAPLACE, PARALLEL_FROM, OsNoise, SeededNoise
from shoal.space.geography import AreaWeights
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import ExactCounts, ScalableCounts

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


HOUR = 3_600_000_000
SLOTS, PLACES = 5, 3
WEIGHTS = AreaWeights(
    matrix=scipy.sparse.csr_array(np.array([[8, 4, 0], [0, 2, 8]], np.int64) * (LATTICE // 8)),
    lattice=LATTICE,
    lost=np.array([0.0, 0.25, 0.0]),
)
SETTING = SimpleNamespace(weights=WEIGHTS, zones=2, places=PLACES, slots=SLOTS)
NAMES = ["gaussian", "laplace", "fpa", "fpa-laplace", "scm-cap", "scm-full"]


class Whole:
    """All rows in one batch."""

    def sum_users(self, events, kernel, progress=None):
        return kernel(*events)


def stage(rows, ell, cap, key=bytes(16)):
    """Rows of (user, slot, place) through the package's own kernel."""
    user, slot, place = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    batch = pa.record_batch({"user": user, "time_us": slot * HOUR, "site": place.astype(np.int32)})
    edges = np.arange(SLOTS + 1, dtype=np.int64) * HOUR
    kernel = VisitKernel(edges_us=edges, sites=PLACES, ell=ell, cap=cap, run_key=key)
    bounded, _ = bound_visits(Whole(), [batch], kernel)
    return scalable_counts(bounded, WEIGHTS)


def built(name, epsilon=1.0, **options):
    method = METHODS[name]
    budget = Budget.of(epsilon, None if method.pure else 1e-6)
    return method.build(budget, SETTING, MethodOptions(**{"ell": 3, "cap": 4, **options})), budget


OTHERS = [(7, 0, 0), (7, 1, 2), (8, 3, 1), (8, 3, 2)]
ONE_USER = {
    "one visit": [(1, 0, 0)],
    "every place and slot": [(1, slot, place) for slot in range(SLOTS) for place in range(PLACES)],
    "every place in one slot": [(1, 2, place) for place in range(PLACES)],
    "one place in every slot": [(1, slot, 2) for slot in range(SLOTS)],
}


@for_each("name", NAMES)
@for_each("user", ONE_USER)
def test_replay_of_neighbours_stays_within_the_claim(name, user):
    mechanism, _ = built(name)
    pair = [stage(rows, mechanism.ell, mechanism.cap) for rows in (OTHERS, OTHERS + ONE_USER[user])]

    def run(exact):
        return lambda noise: scaled_density(mechanism(exact, noise)).people.tobytes()

    for first, second in (pair, pair[::-1]):
        for source in (SeededNoise(1), *(ArbitraryNoise(turn) for turn in range(4))):
            verdict = replay(
                run(first), run(second), mechanism.loss(), source, bytes(16), dict(mechanism.spends())
            )
            assert verdict.problems == ()
            assert verdict.raised == ()
            assert verdict.rho > 0


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_the_number_of_visits_and_of_kept_ones_reach_their_claims(name):
    """Brute force: what a user with a visit everywhere moves is all that was paid for."""
    mechanism, _ = built(name)
    without, with_user = (
        stage(rows, mechanism.ell, mechanism.cap)
        for rows in (OTHERS, OTHERS + ONE_USER["every place and slot"])
    )
    moved = {"visits": with_user.visits - without.visits, "kept": with_user.sampled - without.sampled}
    assert moved == {"visits": 4, "kept": 3}
    for step, adder in (("visits", mechanism.visits), ("kept", mechanism.sampled)):
        ratio = Fraction(moved[step]) / Fraction(adder.scale)
        claim = dict(mechanism.spends())[step]
        loss = claim.pure_epsilon_nano if name == "laplace" else claim.rho_nano
        true = ratio if name == "laplace" else ratio**2 / 2
        assert 0 <= Fraction(loss, NANO) - true < Fraction(2, NANO)


@for_each("name", NAMES)
def test_spends_come_in_order_and_add_up(name):
    mechanism, budget = built(name)
    names = [step for step, _ in mechanism.spends()]
    assert names == ["visits", "kept", *(step for step, _ in mechanism.counts.spends())]
    assert compose(loss for _, loss in mechanism.spends()) == mechanism.loss()
    whole = mechanism.loss().pure_epsilon_nano if budget.pure else mechanism.loss().rho_nano
    assert 0.999 * budget.left < whole <= budget.left


def test_more_slots_than_ell_do_not_make_the_kept_visits_dearer():
    assert built("gaussian", ell=3)[0].sampled_sensitivity == 3
    assert built("gaussian", ell=300)[0].sampled_sensitivity == SLOTS


def test_it_refuses_other_stages_and_looser_bounds():
    mechanism, _ = built("gaussian")
    good = stage(OTHERS, 3, 4)
    mechanism(good, SeededNoise(1))
    for wrong in (stage(OTHERS, 3, 5), stage(OTHERS, 4, 4), good.counts, None):
        with pytest.raises(GuaranteeError):
            mechanism(wrong, SeededNoise(1))


def test_exact_numbers_are_not_shown_in_a_repr():
    shown = repr(ScalableCounts(counts=stage(OTHERS, 3, 4).counts, sampled=1234567, visits=7654321, cap=4))
    assert "1234567" not in shown
    assert "7654321" not in shown


@for_each("name", NAMES)
def test_little_noise_gives_all_visits_back(name):
    """A city where the bound keeps half of the visits: the total and each zone come back."""
    mechanism, _ = built(name, epsilon=30_000.0)
    counts = np.full((2, SLOTS), 5000, np.int64)
    exact = ScalableCounts(
        counts=ExactCounts(
            units=counts * LATTICE,
            lattice=LATTICE,
            ell=mechanism.ell,
            column_l1=WEIGHTS.column_l1,
            column_l2_squared=WEIGHTS.column_l2_squared,
        ),
        sampled=int(counts.sum()),
        visits=2 * int(counts.sum()),
        cap=4,
    )
    made = METHODS[name].finish(mechanism(exact, SeededNoise(5)), SETTING, MethodOptions())
    assert made.people.sum() == pytest.approx(exact.visits, rel=2e-3)
    assert made.people == pytest.approx(2.0 * counts, rel=0.02)
