"""Every planted bug is caught, and not by accident."""

import contextlib

import numpy as np
import pytest

from shoal.audit.check import audit_pairs, findings
from shoal.audit.mutants import above_claim, catch, off_lattice, on_lattice, planted
from shoal.audit.pipelines import event_table, pipeline_of
from shoal.errors import ShoalError
from shoal.mechanisms.registry import REGISTRY
from shoal.privacy.noise import SeededNoise

MUTANTS = [mutant for name in sorted(REGISTRY) for mutant in planted(name)]


def named(mechanism, words):
    return next(m for m in MUTANTS if m.mechanism == mechanism and words in m.name)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.mechanism}: {mutant.name}")
def test_every_planted_bug_is_caught(mutant):
    assert catch(mutant) is not None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.mechanism}: {mutant.name}")
def test_a_bug_runs_or_stops_with_one_of_our_errors(mutant):
    """A mutant that merely crashes would be caught for the wrong reason."""
    for pair in audit_pairs(mutant.pipeline)[:3]:
        for rows in (pair.before(), pair.after()):
            with contextlib.suppress(ShoalError):
                assert mutant.pipeline(event_table(rows), SeededNoise(2))


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


@pytest.mark.parametrize("mechanism", sorted(REGISTRY))
def test_the_lattice_alone_catches_floats(mechanism):
    assert off_lattice(named(mechanism, "float noise")) is not None
    assert off_lattice(named(mechanism, "low bits")) is not None
    assert off_lattice(named(mechanism, "noise scale x 0.8")) is None


@pytest.mark.parametrize("mechanism", sorted(REGISTRY))
def test_only_runs_catch_a_broken_sampler(mechanism):
    mutant = named(mechanism, "0.8 of the scale")
    pairs = audit_pairs(mutant.pipeline)[:3]
    assert list(findings(mutant.pipeline, pairs, mutant.pipeline.mechanism.loss())) == []
    assert catch(mutant).startswith("runs")


@pytest.mark.parametrize("mechanism", sorted(REGISTRY))
def test_no_check_accuses_the_true_pipeline(mechanism):
    """The controls can fail: with the bug taken out, nothing is caught."""
    mutant = named(mechanism, "0.8 of the scale")
    true = type(mutant)(
        mechanism=mechanism,
        name="none",
        pipeline=pipeline_of(mechanism, mutant.epsilon, mutant.delta),
        delta=mutant.delta,
    )
    assert catch(true) is None


def test_on_lattice_is_exact():
    step = 2.0**-20
    assert on_lattice(np.array([0.0, -3.0, 5 + step, 2.0**30 + step]), 2**20)
    assert not on_lattice(np.array([0.0, 5 + step / 2]), 2**20)
