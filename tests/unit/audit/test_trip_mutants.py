"""Every planted bug of histograms of trips is caught; here a part of them, `shoal audit` runs all."""

from dataclasses import replace

import pytest

from shoal.auditing.pairs import NEW, Pair, at, event_table
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.planted.bug import Bug, step_bug
from shoal.auditing.planted.mutants import above_claim, catch, planted, told_apart
from shoal.auditing.planted.trip_bounds import trip_bound_bugs
from shoal.auditing.planted.trips import BACK_AND_FORTH, boxes_bugs, per_unit_bugs
from shoal.auditing.replay import KEYS, KeepsEverything, replay_pair
from shoal.errors import GuaranteeError
from shoal.mechanisms.registry_histogram import HISTOGRAMS
from shoal.privacy.noise import SeededNoise
from shoal_baselines.auditing.histograms import histogram_bugs

ALL_BUGS = ("histogram-laplace", "histogram-dawa", "histogram-prish", "histogram-boxes")
OWN_BUGS = sorted(HISTOGRAMS.keys() - set(ALL_BUGS))
SLOW = ("histogram-dqam", "best T picked on the true error")  # shows late; with Gaussian noise at once


def delta_of(name):
    return None if HISTOGRAMS[name].pure else 1e-6


def own(name):
    """Bugs of trips alone: those of any mechanism are caught above in others."""
    true = pipeline_of(name, 1.0, delta_of(name))
    families = (histogram_bugs, boxes_bugs, trip_bound_bugs, per_unit_bugs)
    return {bug.name for family in families for bug in family(true)}


MUTANTS = [
    *(mutant for name in ALL_BUGS for mutant in planted(name)),
    *(
        mutant
        for name in OWN_BUGS
        for mutant in planted(name)
        if mutant.name in own(name) and (name, mutant.name) != SLOW
    ),
]


def named(mechanism, words):
    return next(mutant for mutant in planted(mechanism) if words in mutant.name)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.mechanism}: {mutant.name}")
def test_every_planted_bug_is_caught(mutant):
    assert catch(mutant) is not None


@pytest.mark.parametrize(
    ("mechanism", "bug"),
    [
        *(
            (name, "Euler answer measured with sensitivity 1")
            for name in ("histogram-prish", "histogram-dqam", "histogram-boxes-large")
        ),
        ("histogram-dqam", "quadtree levels uncharged"),
        ("histogram-dqam-zcdp", "quadtree levels uncharged"),
        ("histogram-laplace", "in full in every cell"),
        ("histogram-mwem", "in full in every cell"),
        ("histogram-prish", "second trip of a user"),
        ("histogram-boxes", "bound per user not enforced"),
        ("histogram-boxes-large", "charged as if they were of different trips"),
    ],
)
def test_too_large_a_loss_is_seen_as_such(mechanism, bug):
    assert "loss above the claim" in told_apart(named(mechanism, bug))


@pytest.mark.parametrize("mechanism", ["histogram-prish", "histogram-dqam"])
def test_euler_answers_are_right_until_somebody_comes_back(mechanism):
    """A straight trip costs what it should; one that leaves and returns costs more than is claimed."""
    broken = named(mechanism, "Euler answer").pipeline
    claim = broken.mechanism.loss()

    def verdict(sites):
        rows = tuple((NEW, at(slot, k), site) for slot in (0, 1) for k, site in enumerate(sites))
        return replay_pair(broken, Pair("", (), rows), claim, KeepsEverything(), KEYS[0])

    assert verdict((0, 1)).passed
    back = verdict(BACK_AND_FORTH)
    assert any("loss above the claim" in problem for problem in back.problems)
    true = pipeline_of(mechanism, 1.0, None)
    assert replay_pair(
        true, named(mechanism, "Euler answer").bug.shown.pair, claim, KeepsEverything(), KEYS[0]
    ).passed


@pytest.mark.parametrize("mechanism", ["histogram-laplace", "histogram-boxes", "histogram-prish-zcdp"])
def test_no_check_accuses_the_true_pipeline(mechanism):
    mutant = replace(named(mechanism, "noise scale x 0.8"), bug=Bug(name="none", plant=lambda true: true))
    assert catch(mutant) is None


@pytest.mark.parametrize("mechanism", ["histogram-dawa", "histogram-mwem-zcdp", "histogram-boxes"])
def test_draws_catch_a_broken_sampler(mechanism):
    mutant = named(mechanism, "0.8 of the scale")
    assert catch(mutant).startswith(("runs", "noise"))
    assert above_claim(mutant) is not None


def test_a_mutant_that_crashes_is_not_caught():
    def never(*_):
        raise RuntimeError("always")

    crashing = replace(named("histogram-prish", "noise scale x 0.8"), bug=step_bug("never", bound=never))
    assert catch(crashing) is None


@pytest.mark.parametrize("name", sorted(HISTOGRAMS))
def test_a_bug_runs_unless_it_is_to_raise(name):
    """A mutant that merely crashes would be caught for the wrong reason; our own checks may refuse it."""
    rows = [(1, at(0), 0), (1, at(0, 2), 1), (2, at(1), 3)]
    for mutant in planted(name):
        try:
            assert mutant.pipeline(event_table(rows), mutant.sampler(2))
        except GuaranteeError:
            assert "trip more" in mutant.name or "several batches" in mutant.name
        except Exception:
            assert mutant.raises, mutant.name


def test_refusals_say_nothing_about_anybody():
    broken = named("histogram-laplace", "one trip more").pipeline
    with pytest.raises(GuaranteeError, match="more trips than the noise is for"):
        broken(event_table([(1, at(0), 0)]), SeededNoise(1))
