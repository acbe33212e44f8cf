"""Every planted bug is caught, and not by accident.

`make test` plants one bug of each family for each pipeline and family of noise, and what an issue asked
for by name. All of them are planted by tests/golden/test_now.py in `make test-all`, and by `shoal audit`.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.loops import for_each, tiers

from shoal.auditing.pairs import NEW, Pair, at, edge_pairs, event_table
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.planted.bug import Bug, step_bug
from shoal.auditing.planted.mutants import (
    above_budget,
    above_claim,
    catch,
    claim_of,
    distinguished,
    families_of,
    faulty_noise,
    more_than_budget,
    off_lattice,
    on_lattice,
    planted,
    shown_problems,
)
from shoal.auditing.planted.trips import BACK_AND_FORTH
from shoal.auditing.replay import KEYS, KeepsEverything, audit_pairs, findings, replay_pair
from shoal.errors import GuaranteeError
from shoal.mechanisms.registry import REGISTRY, taking
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import SeededNoise

HISTOGRAMS = taking("trips")
SYNTHETIC = taking("paths", "commutes")
VISITS = sorted(REGISTRY.keys() - HISTOGRAMS.keys() - SYNTHETIC.keys())
PLAIN = ("density-gaussian", "density-laplace")
SOME_VISITS = tiers(VISITS, ("density-gaussian", "density-scaled-laplace", "query-gaussian"))
SOME_HISTOGRAMS = tiers(
    ["histogram-laplace", "histogram-boxes", "histogram-prish-zcdp"], ("histogram-laplace",)
)
ISSUE = (  # what an issue of the package asks for by name, and the arguments of published papers
    ("density-efpag-basic", "totals charged with sqrt(ell)"),
    ("density-efpa", "choice of k charged once for all clusters"),
    ("density-efpa", "coefficients scaled by sqrt(k ell) in every cluster"),
    ("density-efpag", "totals scaled by the exact number of users"),
    ("synthetic-bridges", "fresh epsilon per generated trip"),
    ("synthetic-bridges-2nd", "exact n in the second-order rule"),
    ("synthetic-bridges-2nd-zcdp", "exact n in the second-order rule"),
    ("synthetic-bridges", "a user not normalised"),
    ("synthetic-bridges-trip", "a trip not normalised"),
    ("synthetic-bridges", "box from the data"),
    ("synthetic-bridges-trip", "box from the data"),
)


def delta_of(name):
    return None if REGISTRY[name].pure else 1e-6


def true_pipeline(name):
    return pipeline_of(name, claim_of(name), delta_of(name))


def named(mechanism, words):
    return next(mutant for mutant in planted(mechanism) if words in mutant.name)


def with_bug(mutant, bug):
    """The bug instead of the mutant's own, and a sampler that is right."""
    return replace(mutant, bug=bug, sampler=SeededNoise)


def by_family(name):
    """Mutants of a mechanism by the family of their bug; a greedy claim and samplers are the last two."""
    mutants, true = planted(name), true_pipeline(name)
    names = {family.__name__: {bug.name for bug in family(true)} for family in families_of(type(true))}
    families = {
        family: [mutant for mutant in mutants if mutant.name in bugs] for family, bugs in names.items()
    }
    others = [mutant for mutant in mutants if not any(mutant.name in bugs for bugs in names.values())]
    families["claim"] = [mutant for mutant in others if mutant.sampler is SeededNoise]
    families["sampler"] = [mutant for mutant in others if mutant.sampler is not SeededNoise]
    return {family: some for family, some in families.items() if some}


def one_of_each_family():
    first = {}
    for name in sorted(REGISTRY):
        for family, mutants in by_family(name).items():
            first.setdefault((type(true_pipeline(name)), REGISTRY[name].pure, family), mutants[0])
    return first.values()


def mutant_name(mutant):
    return f"{mutant.mechanism}: {mutant.name}"


@for_each("mutant", one_of_each_family, ids=mutant_name)
def test_a_bug_of_each_family_is_caught(mutant):
    assert catch(mutant) is not None


@for_each(("mechanism", "bug"), ISSUE)
def test_bugs_that_an_issue_names_are_caught(mechanism, bug):
    assert catch(named(mechanism, bug)) is not None


@for_each("mutant", lambda: planted("density-laplace"), ids=mutant_name)
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
    assert raised == mutant.bug.raises


TRIP_ROWS = [(1, at(0), 0), (1, at(0, 2), 1), (2, at(1), 3)]
PATH_ROWS = [(1, at(0), 0), (1, at(0), 1), (2, at(0), 3)]


def check_bugs_run(name, mutants):
    rows = TRIP_ROWS if name in HISTOGRAMS else PATH_ROWS
    refused = (
        ("trip more", "several batches") if name in HISTOGRAMS else ("several batches", "not normalised")
    )
    for mutant in mutants:
        try:
            assert mutant.pipeline(event_table(rows), mutant.sampler(2))
        except GuaranteeError:
            assert any(words in mutant.name for words in refused), mutant_name(mutant)
        except Exception:
            assert mutant.bug.raises, mutant_name(mutant)


def test_bugs_of_trips_run_unless_they_are_to_raise():
    for name in ("histogram-boxes", "synthetic-markov", "synthetic-bridges"):
        check_bugs_run(name, planted(name))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted({*HISTOGRAMS, *SYNTHETIC}))
def test_every_bug_of_trips_runs_unless_it_is_to_raise(name):
    check_bugs_run(name, planted(name))


def test_a_mutant_that_crashes_is_not_caught():
    """On one side only, by a bug of its own: replay must not take that for a leak."""
    true = named("density-laplace", "0.8 of the scale")
    spread = true.pipeline.spread

    def divides(bounded, weights):
        return spread(replace(bounded, counts=bounded.counts * (1 // bounded.users)), weights)

    crashing = with_bug(true, step_bug("divides", spread=divides))
    assert distinguished(crashing) is None
    assert catch(crashing) is None
    assert "calls differ" in catch(with_bug(true, replace(crashing.bug, raises=True)))


@for_each(
    ("mechanism", "step"),
    [("density-laplace", "write"), ("histogram-prish", "bound"), ("synthetic-markov", "bound")],
)
def test_a_mutant_that_always_crashes_is_not_caught(mechanism, step):
    def never(*_):
        raise RuntimeError("always")

    crashing = with_bug(named(mechanism, "0.8 of the scale"), step_bug("never", **{step: never}))
    assert catch(crashing) is None
    assert catch(with_bug(crashing, replace(crashing.bug, raises=True))) is None  # equal errors tell nothing


@pytest.mark.parametrize("mechanism", SOME_VISITS)
def test_a_claim_above_what_was_asked_is_caught_by_that_alone(mechanism):
    """Replay and runs hold it against its own claim, and find nothing."""
    mutant = named(mechanism, "a fifth of the noise")
    assert "where" in above_budget(mutant)
    assert distinguished(mutant) is None
    assert above_claim(mutant) is None
    assert catch(mutant).startswith("asked: ")
    assert above_budget(named(mechanism, "half the noise")) is None


def test_claims_and_the_lattice_are_compared_exactly():
    assert more_than_budget(Loss.pure(10**9), 1.0, None) is None
    assert more_than_budget(Loss.pure(10**9 + 2), 1.0, None) is not None
    assert more_than_budget(Loss(10**6), 1.0, None) is not None  # not pure
    assert more_than_budget(Loss(10**6), 1.0, 1e-6) is None
    assert more_than_budget(Loss(10**9), 1.0, 1e-6) is not None
    step = 2.0**-20
    assert on_lattice(np.array([0.0, -3.0, 5 + step, 2.0**30 + step]), 2**20)
    assert not on_lattice(np.array([0.0, 5 + step / 2]), 2**20)


@for_each("bug", ["all zones of a slot", "every second zone", "at every call", "2^14", "even numbers"])
@for_each("mechanism", PLAIN)
def test_looks_at_the_noise_catch_what_runs_cannot(mechanism, bug):
    mutant = named(mechanism, bug)
    assert faulty_noise(mutant) is not None
    assert catch(mutant).startswith("noise: ")
    if bug == "every second zone":
        assert above_claim(mutant) is None


@for_each(
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


@pytest.mark.parametrize("mechanism", SOME_VISITS)
def test_replay_trusts_the_sampler_and_draws_catch_a_broken_one(mechanism):
    mutant = named(mechanism, "0.8 of the scale")
    pairs = audit_pairs(mutant.pipeline)[:3]
    assert list(findings(mutant.pipeline, pairs, mutant.pipeline.mechanism.loss())) == []
    assert catch(mutant).startswith(("runs", "noise"))
    assert above_claim(mutant) is not None


@pytest.mark.parametrize("mechanism", [*SOME_VISITS, *SOME_HISTOGRAMS])
def test_no_check_accuses_the_true_pipeline(mechanism):
    """The controls can fail: with the bug taken out, nothing is caught."""
    mutant = named(mechanism, "0.8 of the scale")
    assert catch(with_bug(mutant, Bug(name="none", plant=lambda true: true))) is None


@for_each(
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
    assert "loss above the claim" in distinguished(named(mechanism, bug))


@for_each("mechanism", ["histogram-prish", "histogram-dqam"])
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


@for_each("mechanism", ["histogram-dawa", "histogram-mwem-zcdp", "histogram-boxes"])
def test_draws_catch_a_broken_sampler(mechanism):
    mutant = named(mechanism, "0.8 of the scale")
    assert catch(mutant).startswith(("runs", "noise"))
    assert above_claim(mutant) is not None


def test_counter_examples_say_what_the_bug_is_and_nothing_about_anybody():
    broken = named("histogram-laplace", "one trip more").pipeline
    with pytest.raises(GuaranteeError, match="more trips than the noise is for"):
        broken(event_table([(1, at(0), 0)]), SeededNoise(1))
    # Once for the model, twenty times for twenty trips.
    assert "epsilon = 21 of 1" in distinguished(named("synthetic-bridges-trip", "fresh epsilon"))
    assert "calls differ" in distinguished(named("synthetic-bridges-2nd", "exact n"))


@for_each(
    "mechanism",
    [
        *("density-efpa", "synthetic-bridges-2nd", "synthetic-prefix", "synthetic-dpt-zcdp"),
        "synthetic-commute",
    ],
)
def test_replay_does_not_accuse_the_true_mechanism_where_bugs_show(mechanism):
    """The worst user, followed or not, and what shows the bugs: none of it costs more than the claim."""
    bugs = [mutant.bug for mutant in planted(mechanism) if mutant.bug.shown]
    shown = {bug.shown.pair.name: bug.shown for bug in bugs}
    for each in shown.values():
        honest = Bug(name="none", plant=lambda true: true, shown=each)
        mutant = replace(named(mechanism, "noise scale x 0.8"), bug=honest)
        assert above_budget(mutant) is None
        assert shown_problems(mutant.pipeline, each) == ()
