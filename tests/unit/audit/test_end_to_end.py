"""The end-to-end replay passes on the package, and finds what reaches a release past the noise."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.loops import for_each

from shoal.auditing.end_to_end import METHODS, Finding, Result, check, examine
from shoal.auditing.end_to_end.driver import Outcome, driven
from shoal.auditing.end_to_end.rules import OTHER_KEYS, _same_under_other_keys
from shoal.auditing.end_to_end.stops import STOPS, section
from shoal.auditing.end_to_end.worlds import event_world
from shoal.auditing.replay import ArbitraryNoise, Call
from shoal.cli.audit import audit
from shoal.errors import ShoalError
from shoal.kinds import KINDS
from shoal.kinds import trips as trip_release
from shoal.kinds.commute import build as commute_release
from shoal.kinds.density import build as density
from shoal.kinds.synthetic import build as synthetic
from shoal.kinds.trips import PreparedTrips
from shoal.privacy import noise as noise_module
from shoal.privacy.noise import OsNoise
from shoal.release.manifest import CASES

ROOT = Path(__file__).parents[3]
EVERY = [(kind, method) for kind, methods in METHODS.items() for method in methods]

FIRST = {kind: (kind, method) for kind, method in reversed(EVERY)}.values()
# and one of every other stage: scaled counts, answers learned from a few, a model of chains; and the noise
SMALL = (*FIRST, ("density", "gaussian"), ("query", "weights"), ("synthetic", "markov"), ("noise", "scale"))


@for_each(("at", "kind", "method"), [(at, *each) for at, each in enumerate(EVERY) if each in SMALL])
def test_one_method_of_each_stage_holds_in_one_world(at, kind, method):
    """A different world for each; `make test-all` has all of them, and all methods."""
    assert check(kind, method, pairs=1, first=at % 6) == []


def test_worlds_reach_the_claim():
    """A world in which nobody costs what is paid for would not see a bound that is too loose."""
    (result,) = examine("query", "laplace", pairs=3)
    assert result.share == pytest.approx(1.0)
    assert result.pairs == 3


def test_one_key_under_which_a_query_happens_to_have_the_same_answer_is_no_finding():
    """A single query counts as many visits under one key in thirty as under the first."""
    world = replace(event_world("query", "gaussian", 0, seed=2), keyed=frozenset({"queries"}))
    first, same, other = (
        Outcome(calls=[Call("gaussian", "answers", np.array([value]), 1.0, np.array([0]))])
        for value in (17, 17, 18)
    )
    assert _same_under_other_keys(world, first, [same, other]) == []
    assert _same_under_other_keys(world, first, [same] * OTHER_KEYS) == [
        "the queries do not depend on the secret run key"
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "method"), EVERY)
def test_every_method_holds_and_every_audit_case_is_reached(kind, method):
    (result,) = examine(kind, method, pairs=24, seed=2)
    assert result.findings == []
    assert set(result.cases) == {case.case for case in CASES.values() if walked_as(case) == (kind, method)}


def walked_as(case):
    """Kind and method of a case; synthetic events have a kind of their own."""
    return ("commute", "commute") if case.method == "commute" else (case.kind, case.method)


def test_every_method_with_an_audit_case_is_walked_and_no_other():
    assert {walked_as(case) for case in CASES.values()} == {each for each in EVERY if each[0] != "noise"}
    assert set(METHODS) == {*KINDS, "noise"} - {"trajectories"}  # which have no epsilon
    with pytest.raises(ShoalError, match="trajectories"):
        check("trajectories")
    with pytest.raises(ShoalError, match="nothing"):
        check("density", "nothing")


def rules(found):
    return {each.rule for each in found}


def change_output(monkeypatch, change):
    """The released people of a density become change(people, counting), which may look at raw visits."""
    seen = {}
    true_stage, true_round = density.stage_for, density.round_density

    def stage(mechanism, counting, *rest):
        seen["counting"] = counting
        return true_stage(mechanism, counting, *rest)

    def changed(estimate, decimals):
        rounded = true_round(estimate, decimals)
        return replace(rounded, people=change(rounded.people, seen["counting"]))

    monkeypatch.setattr(density, "stage_for", stage)
    monkeypatch.setattr(density, "round_density", changed)


def test_counts_rescaled_to_the_exact_total_are_found(monkeypatch):
    change_output(monkeypatch, lambda people, raw: people * (raw.people().sum() / max(people.sum(), 1)))
    found = check("density", "gaussian", pairs=1)
    assert rules(found) == {"bytes"}
    assert "differs at byte" in found[0].problem
    assert "seed 1" in str(found[0])


def test_a_threshold_on_a_raw_number_is_found_wherever_it_lies(monkeypatch):
    """57 is in no list of crowds: any two tables must look alike, not only neighbours."""
    change_output(monkeypatch, lambda people, raw: people * (raw.bounded(1, 1).users >= 57))
    assert rules(check("density", "laplace", pairs=1)) == {"bytes"}


@pytest.mark.parametrize("key", ["of the files", "of the plan"])
def test_a_run_key_that_is_no_secret_is_found(key, monkeypatch):
    """Derived from the files it makes neighbours choose other visits; from the plan, choices are public."""
    true_counts = density.DensityBuild.counts_under

    def counts(self, run_key, *events):
        path = Path(self.prepared.source.paths[0])
        text = path.read_bytes() if key == "of the files" else b"the plan"
        return true_counts(self, hashlib.md5(text).digest(), *events)

    monkeypatch.setattr(density.DensityBuild, "counts_under", counts)
    found = check("density", "gaussian", pairs=1)
    assert rules(found) == ({"key", "loss"} if key == "of the files" else {"key"})


def test_an_exact_number_in_the_manifest_or_as_the_size_is_found(monkeypatch):
    true_manifest = synthetic.manifest_of
    monkeypatch.setattr(
        synthetic,
        "manifest_of",
        lambda prepared, **more: replace(true_manifest(prepared, **more), licence=f"{len(seen)}"),
    )
    seen = []
    true_paths = synthetic.SyntheticBuild.paths

    def paths(self, run_key):
        held = true_paths(self, run_key)
        seen[:] = range(held.queries().all_trips())
        return held

    monkeypatch.setattr(synthetic.SyntheticBuild, "paths", paths)
    found = check("synthetic", "markov", pairs=1, first=1)
    assert rules(found) == {"bytes"}
    assert any(each.problem.startswith("manifest.json differs at byte") for each in found)


def test_a_trip_that_stands_for_its_user_is_found(monkeypatch):
    """`each_trip` where one trip per user is kept: every trip is a unit, whatever its user did."""
    monkeypatch.setattr(
        PreparedTrips, "each_trip", property(lambda self: self.plan.unit == "trip" or self.plan.per_unit == 1)
    )
    assert check("histogram", "laplace", pairs=1)


def test_another_outcome_on_a_neighbour_is_found(monkeypatch):
    true_check = trip_release.TripBuild.check

    def refuses_nobody(self):
        true_check(self)
        if not self.rows:
            raise ShoalError("no-rows", "there is nobody.")

    monkeypatch.setattr(trip_release.TripBuild, "check", refuses_nobody)
    found = check("commute", pairs=1, first=1)
    assert any("outcomes differ: ('ShoalError', 'no-rows')" in each.problem for each in found)


def test_noise_that_is_drawn_once_is_found(monkeypatch):
    true_draw, drawn = noise_module.draw, {}

    def once(kind, scale, count):
        return drawn.setdefault((kind, scale, count), true_draw(kind, scale, count))

    monkeypatch.setattr(noise_module, "draw", once)
    monkeypatch.setattr("shoal.auditing.end_to_end.rules.WATCHED", (("query", "laplace"),))
    assert any("the same in" in each.problem for each in check("noise", "repeats"))


@pytest.mark.exhaustive
def test_a_scale_that_is_rounded_for_child_processes_is_found(monkeypatch):
    true_children = noise_module._draw_in_processes
    monkeypatch.setattr(
        noise_module,
        "_draw_in_processes",
        lambda kind, scale, *rest: true_children(kind, float(f"{scale:.0e}"), *rest),
    )
    assert check("noise", "scale")


def test_the_noise_is_itself_again_after_a_run():
    before = dict(vars(OsNoise))

    def fails():
        with driven(ArbitraryNoise()):
            assert OsNoise().run_key() == bytes(16)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert dict(vars(OsNoise)) == before
    assert commute_release.CommuteBuild.report.__name__ == "report"


def test_the_command_prints_shares_and_exits_with_the_counter_example(monkeypatch):
    finding = Finding("query", "laplace", "3: nobody", 5, "bytes", "answers.csv differs at byte 7")
    results = [Result("query", "laplace", 6, 0.75, [])]
    calls = []

    def examined(names, **options):
        calls.append((names, options["pairs"], options["seed"]))
        return results

    monkeypatch.setattr("shoal.auditing.end_to_end.examine_many", examined)
    arguments = ["--end-to-end", "--quick", "--mechanism", "query", "--seed", "5"]
    held = CliRunner().invoke(audit, arguments)
    assert held.exit_code == 0
    assert re.search(r"query +laplace +6 +0\.750 +0\n", held.output)
    assert calls == [(("query",), 6, 5)]
    assert json.loads(CliRunner().invoke(audit, [*arguments, "--json"]).output)[0]["share"] == 0.75
    results[0].findings.append(finding)
    failed = CliRunner().invoke(audit, arguments)
    assert failed.exit_code != 0
    assert "answers.csv differs at byte 7 (seed 5, world 3: nobody)" in str(failed.exception)


def test_known_limits_list_every_decision_to_stop_that_exists():
    assert section() in (ROOT / "docs/known-limits.md").read_text("utf-8")
    for stop in STOPS:
        text = "".join((ROOT / "src/shoal" / name).read_text("utf-8") for name in stop.where.split(", "))
        assert all(f'"{code}"' in text for code in stop.codes)
