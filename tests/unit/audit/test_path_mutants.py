"""Every planted bug of generators is caught; here a part of them, `shoal audit` runs all."""

from dataclasses import replace

import pytest

from shoal.auditing.pairs import at, event_table
from shoal.auditing.planted.bug import Bug, step_bug
from shoal.auditing.planted.mutants import above_asked, catch, planted, shown_problems, told_apart
from shoal.errors import GuaranteeError
from shoal.mechanisms.registry_synthetic import SYNTHETIC

ALL_BUGS = ("synthetic-markov", "synthetic-ngram-zcdp", "synthetic-commute")
ISSUE = (  # what an issue of the package asks for by name
    ("synthetic-bridges", "fresh epsilon per generated trip"),
    ("synthetic-bridges-2nd", "exact n in the second-order rule"),
    ("synthetic-bridges-2nd-zcdp", "exact n in the second-order rule"),
    ("synthetic-bridges", "a user not normalised"),
    ("synthetic-bridges-trip", "a trip not normalised"),
    ("synthetic-bridges", "box from the data"),
    ("synthetic-bridges-trip", "box from the data"),
)
BRIDGES = (
    ("synthetic-bridges", "shares add up to more than 1"),
    ("synthetic-bridges", "regions from exact starts and ends"),
    ("synthetic-bridges", "a user scaled trip by trip"),
    ("synthetic-bridges", "norm 2 under Laplace noise"),
    ("synthetic-bridges", "a table measured twice for one price"),
    ("synthetic-bridges-zcdp", "tables charged as if of different trips"),
    ("synthetic-bridges-zcdp", "shares rounded up"),
    ("synthetic-bridges-zcdp", "scaled to the largest place"),
    ("synthetic-bridges-trip", "each piece of a trip taken for a unit"),
    ("synthetic-bridges-trip", "cap on the number of trips"),
    ("synthetic-prefix", "contexts that nobody has do not go on"),
    ("synthetic-dpt-zcdp", "levels charged as if of different trips"),
    ("synthetic-commute-zcdp", "users weighed by their events"),
)


def named(mechanism, words):
    return next(mutant for mutant in planted(mechanism) if words in mutant.name)


@pytest.mark.parametrize(
    "mutant",
    [mutant for name in ALL_BUGS for mutant in planted(name)],
    ids=lambda mutant: f"{mutant.mechanism}: {mutant.name}",
)
def test_every_planted_bug_is_caught(mutant):
    assert catch(mutant) is not None


@pytest.mark.parametrize(("mechanism", "bug"), [*ISSUE, *BRIDGES])
def test_bugs_of_single_mechanisms_are_caught(mechanism, bug):
    assert catch(named(mechanism, bug)) is not None


@pytest.mark.parametrize(
    ("mechanism", "bug"),
    [
        ("synthetic-bridges", "fresh epsilon per generated trip"),
        ("synthetic-bridges-trip", "a trip not normalised"),
        ("synthetic-bridges", "a user scaled trip by trip"),
        ("synthetic-bridges", "norm 2 under Laplace noise"),
        ("synthetic-bridges", "shares add up to more than 1"),
        ("synthetic-markov", "box from the data"),
        ("synthetic-markov", "cap on the number of trips"),
        ("synthetic-commute", "fresh epsilon per person"),
    ],
)
def test_too_large_a_loss_is_seen_as_such(mechanism, bug):
    assert "loss above the claim" in told_apart(named(mechanism, bug))


def test_fresh_noise_for_every_trip_costs_as_often():
    """Once for the model, twenty times for twenty trips."""
    assert "epsilon = 21 of 1" in told_apart(named("synthetic-bridges-trip", "fresh epsilon"))


def test_an_exact_rule_shows_where_a_trip_comes_over_it():
    assert "calls differ" in told_apart(named("synthetic-bridges-2nd", "exact n"))


@pytest.mark.parametrize(
    "mechanism", ["synthetic-bridges-2nd", "synthetic-prefix", "synthetic-dpt-zcdp", "synthetic-commute"]
)
def test_replay_does_not_accuse_the_true_pipeline(mechanism):
    """The worst user, followed or not, and what shows the bugs: none of it costs more than the claim."""
    bugs = [mutant.bug for mutant in planted(mechanism) if mutant.bug.shown]
    shown = {bug.shown.pair.name: bug.shown for bug in bugs}
    for each in shown.values():
        honest = Bug(name="none", plant=lambda true: true, shown=each)
        mutant = replace(named(mechanism, "noise scale x 0.8"), bug=honest)
        assert above_asked(mutant) is None
        assert shown_problems(mutant.pipeline, each) == ()


def test_a_mutant_that_crashes_is_not_caught():
    def never(*_):
        raise RuntimeError("always")

    crashing = replace(named("synthetic-markov", "noise scale x 0.8"), bug=step_bug("never", bound=never))
    assert catch(crashing) is None


@pytest.mark.parametrize("name", sorted(SYNTHETIC))
def test_a_bug_runs_unless_it_is_to_raise(name):
    """A mutant that merely crashes would be caught for the wrong reason; our own checks may refuse it."""
    rows = [(1, at(0), 0), (1, at(0), 1), (2, at(0), 3)]
    for mutant in planted(name):
        try:
            assert mutant.pipeline(event_table(rows), mutant.sampler(2))
        except GuaranteeError:
            assert "several batches" in mutant.name or "not normalised" in mutant.name
        except Exception:
            assert mutant.raises, mutant.name
