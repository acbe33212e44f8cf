"""Plain counts with the number of visits they are scaled up to: losses by replay, spends, what is refused."""

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
from shoal.postprocess.density.numbers import scaled_density
from shoal.privacy.accounting import NANO, Budget, compose
from shoal.privacy.noise import SeededNoise
from shoal.space.weights import AreaWeights
from shoal.stages.exact import ExactCounts, ScalableCounts

LATTICE = 2**20
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
    moved = {"visits": with_user.visits - without.visits, "kept": with_user.kept - without.kept}
    assert moved == {"visits": 4, "kept": 3}
    for step, adder in (("visits", mechanism.visits), ("kept", mechanism.kept)):
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
    assert built("gaussian", ell=3)[0].kept_sensitivity == 3
    assert built("gaussian", ell=300)[0].kept_sensitivity == SLOTS


def test_it_refuses_other_stages_and_looser_bounds():
    mechanism, _ = built("gaussian")
    good = stage(OTHERS, 3, 4)
    mechanism(good, SeededNoise(1))
    for wrong in (stage(OTHERS, 3, 5), stage(OTHERS, 4, 4), good.counts, None):
        with pytest.raises(GuaranteeError):
            mechanism(wrong, SeededNoise(1))


def test_exact_numbers_are_not_shown_in_a_repr():
    shown = repr(ScalableCounts(counts=stage(OTHERS, 3, 4).counts, kept=1234567, visits=7654321, cap=4))
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
        kept=int(counts.sum()),
        visits=2 * int(counts.sum()),
        cap=4,
    )
    made = METHODS[name].finish(mechanism(exact, SeededNoise(5)), SETTING, MethodOptions())
    assert made.people.sum() == pytest.approx(exact.visits, rel=2e-3)
    assert made.people == pytest.approx(2.0 * counts, rel=0.02)
