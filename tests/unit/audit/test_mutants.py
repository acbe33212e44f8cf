"""Every planted bug is caught, and not by accident."""

from dataclasses import replace

import numpy as np
import pytest

from shoal.auditing.pairs import edge_pairs, event_table
from shoal.auditing.planted.bug import Bug, step_bug
from shoal.auditing.planted.mutants import (
    above_asked,
    above_claim,
    catch,
    faulty_noise,
    more_than_asked,
    off_lattice,
    on_lattice,
    planted,
    told_apart,
)
from shoal.auditing.replay import audit_pairs, findings
from shoal.errors import GuaranteeError
from shoal.mechanisms.registry import REGISTRY
from shoal.mechanisms.registry_histogram import HISTOGRAMS
from shoal.mechanisms.registry_synthetic import SYNTHETIC
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import SeededNoise

# trips: test_trip_mutants.py, test_path_mutants.py
VISITS = sorted(REGISTRY.keys() - HISTOGRAMS.keys() - SYNTHETIC.keys())
MUTANTS = [mutant for name in VISITS for mutant in planted(name)]
PLAIN = ("density-gaussian", "density-laplace")


def named(mechanism, words):
    return next(m for m in MUTANTS if m.mechanism == mechanism and words in m.name)


def with_bug(mutant, bug):
    """The bug instead of the mutant's own, and a sampler that is right."""
    return replace(mutant, bug=bug, sampler=SeededNoise)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.mechanism}: {mutant.name}")
def test_every_planted_bug_is_caught(mutant):
    assert catch(mutant) is not None


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if m.mechanism == "density-laplace"], ids=lambda m: m.name
)
def test_a_bug_runs_unless_it_is_to_raise(mutant):
    """A mutant that merely crashes would be caught for the wrong reason; our own checks may refuse it."""
    raised = False
    for pair in edge_pairs(6, 2)[:8]:
        for rows in (pair.before(), pair.after()):
            try:
                assert mutant.pipeline(event_table(rows), mutant.sampler(2))
            except GuaranteeError:
                pass
            except Exception:
                raised = True
    assert raised == mutant.raises


def test_a_mutant_that_crashes_is_not_caught():
    """On one side only, by a bug of its own: replay must not take that for a leak."""
    true = named("density-laplace", "0.8 of the scale")
    spread = true.pipeline.spread

    def divides(bounded, weights):
        return spread(replace(bounded, counts=bounded.counts * (1 // bounded.users)), weights)

    crashing = with_bug(true, step_bug("divides", spread=divides))
    assert told_apart(crashing) is None
    assert catch(crashing) is None
    assert "calls differ" in catch(with_bug(true, replace(crashing.bug, raises=True)))


def test_a_mutant_that_always_crashes_is_not_caught():
    def never(*_):
        raise RuntimeError("always")

    crashing = with_bug(named("density-laplace", "0.8 of the scale"), step_bug("never", write=never))
    assert catch(crashing) is None
    assert catch(with_bug(crashing, replace(crashing.bug, raises=True))) is None  # equal errors tell nothing


@pytest.mark.parametrize("mechanism", VISITS)
def test_a_claim_above_what_was_asked_is_caught_by_that_alone(mechanism):
    """Replay and runs hold it against its own claim, and find nothing."""
    mutant = named(mechanism, "a fifth of the noise")
    assert "where" in above_asked(mutant)
    assert told_apart(mutant) is None
    assert above_claim(mutant) is None
    assert catch(mutant).startswith("asked: ")
    assert above_asked(named(mechanism, "half the noise")) is None


def test_claims_are_held_against_what_was_asked():
    assert more_than_asked(Loss.pure(10**9), 1.0, None) is None
    assert more_than_asked(Loss.pure(10**9 + 2), 1.0, None) is not None
    assert more_than_asked(Loss(10**6), 1.0, None) is not None  # not pure
    assert more_than_asked(Loss(10**6), 1.0, 1e-6) is None
    assert more_than_asked(Loss(10**9), 1.0, 1e-6) is not None


@pytest.mark.parametrize(
    "bug", ["all zones of a slot", "every second zone", "at every call", "2^14", "even numbers"]
)
@pytest.mark.parametrize("mechanism", PLAIN)
def test_looks_at_the_noise_catch_what_runs_cannot(mechanism, bug):
    mutant = named(mechanism, bug)
    assert faulty_noise(mutant) is not None
    assert catch(mutant).startswith("noise: ")
    if bug == "every second zone":
        assert above_claim(mutant) is None


@pytest.mark.parametrize(
    ("mechanism", "bug"),
    [
        ("density-laplace", "half the noise"),
        ("density-laplace", "sqrt(ell)"),
        ("density-laplace", "noise scale x 0.8"),
        ("density-laplace", "ell - 1"),
        ("density-gaussian", "half the noise"),
        ("density-gaussian", "noise scale x 0.8"),
    ],
)
def test_runs_alone_catch_too_little_noise(mechanism, bug):
    assert above_claim(named(mechanism, bug)) is not None


@pytest.mark.parametrize("mechanism", PLAIN)
def test_the_lattice_alone_catches_floats(mechanism):
    assert off_lattice(named(mechanism, "float noise")) is not None
    assert off_lattice(named(mechanism, "low bits")) is not None
    assert off_lattice(named(mechanism, "noise scale x 0.8")) is None


@pytest.mark.parametrize("mechanism", VISITS)
def test_replay_trusts_the_sampler_and_draws_catch_a_broken_one(mechanism):
    mutant = named(mechanism, "0.8 of the scale")
    pairs = audit_pairs(mutant.pipeline)[:3]
    assert list(findings(mutant.pipeline, pairs, mutant.pipeline.mechanism.loss())) == []
    assert catch(mutant).startswith(("runs", "noise"))
    assert above_claim(mutant) is not None


@pytest.mark.parametrize("mechanism", VISITS)
def test_no_check_accuses_the_true_pipeline(mechanism):
    """The controls can fail: with the bug taken out, nothing is caught."""
    mutant = named(mechanism, "0.8 of the scale")
    assert catch(with_bug(mutant, Bug(name="none", plant=lambda true: true))) is None


def test_on_lattice_is_exact():
    step = 2.0**-20
    assert on_lattice(np.array([0.0, -3.0, 5 + step, 2.0**30 + step]), 2**20)
    assert not on_lattice(np.array([0.0, 5 + step / 2]), 2**20)
