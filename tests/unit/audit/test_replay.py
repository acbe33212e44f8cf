"""Replay holds on true pipelines for any pair of neighbours, and its arithmetic is right."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.loops import for_each, tiers

from shoal.auditing.pairs import NEW, Pair, at, edge_pairs, event_table
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.replay import (
    ArbitraryNoise,
    Call,
    RecordingNoise,
    audit_pairs,
    findings,
    observe,
    over_claim,
    replay,
    replay_pair,
    sources,
    transcript_loss,
)
from shoal.errors import PlanError
from shoal.mechanisms.registry import REGISTRY, taking
from shoal.privacy.accounting import NANO, Loss
from shoal.privacy.noise import SeededNoise

HISTOGRAMS = taking("trips")
SYNTHETIC = taking("paths", "commutes")

TRUE = {
    (name, uneven): pipeline_of(name, 1.0, None if entry.pure else 1e-6, uneven=uneven)
    for name, entry in REGISTRY.items()
    for uneven in (False, True)
}
VISITS = sorted(REGISTRY.keys() - HISTOGRAMS.keys())  # trips have no slots: test_trips.py
SLOTS = 6
KEY = bytes(range(16))

times = st.one_of(
    st.integers(-1, SLOTS).flatmap(lambda slot: st.integers(0, 2).map(lambda offset: at(slot, offset))),
    st.sampled_from([at(0, -1), at(0, 0), at(SLOTS, -1), at(SLOTS, 0), -(2**63), 2**63 - 1, 0]),
)
sites = st.integers(-1, 3)
kinds_of_id = st.sampled_from(["int", "str"])


@st.composite
def pairs(draw):
    """A table and one user's rows, int or string ids, rows in any order, with repetitions."""
    rows = draw(st.lists(st.tuples(st.integers(0, 4), times, sites), max_size=25))
    added = draw(st.lists(st.tuples(times, sites), min_size=1, max_size=12))
    again = draw(st.integers(1, 3))
    name = (lambda user: f"p{user}") if draw(kinds_of_id) == "str" else (lambda user: user - 2)
    new = name(NEW)
    return Pair(
        "generated",
        tuple((name(user), time, site) for user, time, site in rows) * again,
        tuple((new, time, site) for time, site in added) * again,
    )


@pytest.mark.parametrize("uneven", tiers([False, True], (True,)))
@pytest.mark.parametrize("name", VISITS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(pair=pairs(), key=st.binary(min_size=16, max_size=16), swap=st.booleans(), which=st.integers(0, 4))
def test_neighbours_are_indistinguishable(name, uneven, pair, key, swap, which):
    pipeline = TRUE[name, uneven]
    verdict = replay_pair(pipeline, pair, pipeline.mechanism.loss(), sources()[which][1](), key, swap=swap)
    assert verdict.problems == verdict.raised == ()


@pytest.mark.parametrize("few", tiers([True, False], (True,)))
@for_each("name", sorted(REGISTRY))
def test_edge_cases_hold(name, few):
    pipeline = TRUE[name, False]
    world = pipeline.world
    every = 5 if few and name in SYNTHETIC else 1
    pairs = edge_pairs(world.slots, world.size.ell, world.size.places)[::every]
    assert list(findings(pipeline, pairs, pipeline.mechanism.loss(), quick=True)) == []


@pytest.mark.parametrize("name", ["density-gaussian", "density-laplace"])
def test_the_worst_pair_costs_the_whole_claim(name):
    """The others are tested in tests/contract/test_registry.py."""
    pipeline = TRUE[name, False]
    claim = pipeline.mechanism.loss()
    worst = replay_pair(pipeline, audit_pairs(pipeline)[0], claim, SeededNoise(1), KEY)
    if claim.pure_epsilon_nano is None:
        assert 0 <= Fraction(claim.rho_nano, NANO) - worst.rho < Fraction(1, NANO)
    else:
        assert worst.pure_epsilon == Fraction(claim.pure_epsilon_nano, NANO)


@pytest.mark.parametrize("name", sorted(REGISTRY))
@settings(max_examples=10, deadline=None, derandomize=True)
@given(pair=pairs(), order=st.randoms(use_true_random=False))
def test_order_of_rows_costs_nothing_and_changes_nothing(name, pair, order):
    pipeline = TRUE[name, False]
    rows = pair.after()
    mixed = rows.copy()
    order.shuffle(mixed)
    verdict = replay(
        lambda noise: pipeline(event_table(rows), noise),
        lambda noise: pipeline(event_table(mixed, batch_rows=3), noise),
        Loss(0, 0),
        SeededNoise(5),
        KEY,
    )
    assert verdict.problems == ()
    assert verdict.rho == 0


def call(kind, exact, scale, answer=0):
    return Call(kind, "x", np.array(exact, dtype=np.int64), scale, answer)


def test_loss_of_a_transcript_by_hand():
    first = [call("gaussian", [0, 5, 2], 3.0), call("laplace", [[1, 1]], 4.0), call("choose", [0, 2, 9], 8.0)]
    second = [
        call("gaussian", [1, 3, 2], 3.0),
        call("laplace", [[3, 0]], 4.0),
        call("choose", [3, 1, 9], 8.0),
    ]
    rho, pure = transcript_loss(first[1:], second[1:])
    assert pure == Fraction(3, 4) + Fraction(4, 8)  # |2| + |-1| over 4; scores moved by 3, -1, 0 over 8
    assert rho == Fraction(3, 4) ** 2 / 2 + Fraction(1, 2) ** 2 / 8
    rho, pure = transcript_loss(first, second)
    assert pure is None  # Gaussian noise is never pure
    assert rho == Fraction(5, 18) + Fraction(9, 32) + Fraction(1, 32)


@for_each(
    ("rho", "pure", "claim", "over"),
    [
        (Fraction(1, 10), None, Loss(10**8), False),
        (Fraction(1, 10) + Fraction(1, 10**30), None, Loss(10**8), True),
        (Fraction(1, 8), Fraction(1, 2), Loss.pure(5 * 10**8), False),
        (Fraction(1, 8), Fraction(1, 2) + Fraction(1, 10**30), Loss.pure(5 * 10**8), True),
        (Fraction(1, 10**6), None, Loss.pure(5 * 10**8), True),  # not pure at all
    ],
)
def test_claims_are_compared_exactly(rho, pure, claim, over):
    assert bool(over_claim(rho, pure, claim)) is over


def two_runs(first, second):
    return replay(first, second, Loss(10**9, 10**9), SeededNoise(1), KEY).problems


ZERO = np.zeros(2, np.int64)


@for_each(
    ("second", "problem"),
    [
        (lambda noise: noise.laplace("a", ZERO, 9.0).tobytes(), None),
        (lambda noise: noise.laplace("b", ZERO, 9.0).tobytes(), "calls differ"),
        (lambda noise: noise.laplace("a", ZERO, 8.0).tobytes(), "calls differ"),
        (lambda noise: noise.gaussian("a", ZERO, 9.0).tobytes(), "calls differ"),
        (lambda noise: noise.laplace("a", np.zeros(3, np.int64), 9.0).tobytes(), "calls differ"),
        (lambda noise: noise.laplace("a", ZERO.reshape(2, 1), 9.0).tobytes(), "calls differ"),
        (lambda noise: b"", "fewer calls"),
        (
            lambda noise: (noise.laplace("a", ZERO, 9.0) + noise.laplace("a", ZERO, 9.0)).tobytes(),
            "not made on the neighbour",
        ),
        (lambda noise: noise.laplace("a", ZERO, 9.0).tobytes() + b" ", "released bytes differ"),
        (lambda noise: noise.laplace("a", ZERO + 99, 9.0).tobytes(), "loss above the claim"),
    ],
)
def test_everything_an_outsider_could_see_is_compared(second, problem):
    problems = two_runs(lambda noise: noise.laplace("a", ZERO, 9.0).tobytes(), second)
    assert (problems == ()) if problem is None else any(problem in found for found in problems)


def raising(error):
    def run(noise):
        noise.laplace("a", ZERO, 9.0)
        raise error

    return run


def test_exceptions_are_outputs_and_hide_no_difference_of_calls():
    same = PlanError("a", "same.")
    assert two_runs(raising(same), raising(PlanError("a", "same."))) == ()
    assert "exceptions differ" in two_runs(raising(same), raising(PlanError("a", "other.")))[0]
    assert "exceptions differ" in two_runs(raising(same), raising(ValueError("a: same.")))[0]

    def hides(noise):
        try:
            return noise.laplace("b", ZERO, 9.0).tobytes()
        except Exception:
            return b""

    assert "calls differ" in two_runs(lambda noise: noise.laplace("a", ZERO, 9.0).tobytes(), hides)[0]


def test_recording_keeps_copies_and_arbitrary_answers_do_not_depend_on_the_query():
    def changes_its_arrays(noise):
        exact = np.zeros(3, np.int64)
        noisy = noise.gaussian("a", exact, 5.0)
        kept = noisy.copy()
        exact += 7
        noisy += 7
        return kept.tobytes()

    noise = RecordingNoise(SeededNoise(3), KEY)
    seen = observe(changes_its_arrays, noise)
    assert seen.calls[0].exact.tolist() == [0, 0, 0]
    assert seen.calls[0].answer.tobytes() == seen.released
    assert noise.run_key() == KEY
    for turn in range(4):
        low, high = ArbitraryNoise(turn), ArbitraryNoise(turn)
        exact = np.arange(6).reshape(2, 3)
        assert (low.laplace("a", exact, 1.0) == high.gaussian("a", exact + 10**6, 2.0)).all()
        assert low.choose("b", exact.ravel(), 1.0) == high.choose("b", exact.ravel() * 9, 1.0)
