"""The audit as a whole, and the command that prints it."""

import json
from dataclasses import replace

import pytest

from shoal.audit import run as module
from shoal.audit.mutants import planted
from shoal.audit.pipelines import pipeline_of
from shoal.audit.run import AuditPlan, audit_mechanism
from shoal.audit.whole import sample_whole, worst_events
from shoal.cli.main import main
from shoal.errors import PlanError
from shoal.mechanisms.registry import REGISTRY
from shoal.privacy.noise import SeededNoise

FIELDS = {
    "mechanism",
    "claimed_epsilon",
    "delta",
    "lower_bound",
    "claimed_mu",
    "mu_lower_bound",
    "runs",
    "mutants_planted",
    "mutants_caught",
    "replay_pairs",
    "replay_passed",
}


@pytest.fixture
def hurry(monkeypatch):
    """Two bugs instead of all and few pairs: the suite runs the rest elsewhere."""
    bugs = ("noise scale x 0.8", "box from the data")
    monkeypatch.setattr(module, "planted", lambda name: [m for m in planted(name) if m.name in bugs])
    pairs = module.audit_pairs
    monkeypatch.setattr(module, "audit_pairs", lambda pipeline, extra: pairs(pipeline, extra)[:6])


def shoal(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["shoal", *arguments])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_json_is_one_object_per_mechanism_and_nothing_else(hurry, monkeypatch, capsys):
    code, out, _ = shoal(monkeypatch, capsys, "audit", "--json", "--quick", "--runs", "2000")
    results = json.loads(out)
    assert code == 0
    assert [result["mechanism"] for result in results] == list(REGISTRY)
    for result in results:
        assert set(result) >= FIELDS
        assert result["lower_bound"] <= result["claimed_epsilon"] <= 1.0
        assert result["mutants_caught"] == result["mutants_planted"] == 2
        assert result["runs"] == 2000
        assert (result["replay_pairs"], result["replay_passed"]) == (6, True)
    gaussian, laplace = results
    assert 0 <= gaussian["mu_lower_bound"] <= gaussian["claimed_mu"] == pytest.approx(0.2207, abs=1e-4)
    assert gaussian["delta"] == 1e-6
    assert laplace["claimed_mu"] is laplace["mu_lower_bound"] is None
    assert laplace["delta"] == 0.0


def test_table_names_what_was_asked_for(hurry, monkeypatch, capsys):
    arguments = ("--mechanism", "density-laplace", "--quick", "--runs", "1000", "--epsilon", "4")
    code, out, _ = shoal(monkeypatch, capsys, "audit", *arguments)
    assert code == 0
    assert "density-laplace" in out
    assert "density-gaussian" not in out
    assert "2/2" in out


def broken(name, epsilon, delta, *, uneven=False):
    true = pipeline_of(name, epsilon, delta, uneven=uneven)
    leak = next(m for m in planted(name) if m.name == "output rescaled by the exact total")
    return replace(true, estimate=leak.pipeline.estimate)


def test_a_leak_ends_with_code_6(hurry, monkeypatch, capsys):
    monkeypatch.setattr(module, "pipeline_of", broken)
    arguments = ("--mechanism", "density-laplace", "--quick", "--runs", "1000", "--json")
    code, out, err = shoal(monkeypatch, capsys, "audit", *arguments)
    assert code == 6
    assert "audit-failed" in err
    assert "released bytes differ" in err
    assert json.loads(out)[0]["replay_passed"] is False


def test_a_surviving_bug_ends_with_code_6(hurry, monkeypatch, capsys):
    monkeypatch.setattr(module, "catch", lambda mutant: None)
    arguments = ("--mechanism", "density-laplace", "--quick", "--runs", "1000", "--json")
    code, out, err = shoal(monkeypatch, capsys, "audit", *arguments)
    assert code == 6
    assert "planted bug not caught: box from the data" in err
    assert json.loads(out)[0]["mutants_caught"] == 0


def test_a_bound_above_the_claim_is_a_problem(hurry, monkeypatch):
    thin = next(m for m in planted("density-laplace") if m.name == "sampler draws at half the scale")
    monkeypatch.setattr(module, "OsNoise", lambda: thin.sampler(4))
    found = audit_mechanism("density-laplace", AuditPlan.quick())
    assert found.lower_bound > found.claimed_epsilon
    assert any("the claim is 1" in problem for problem in found.problems)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--epsilon", "0"), "epsilon-range"),
        (("--epsilon", "nan"), "epsilon-range"),
        (("--delta", "1"), "delta-range"),
        (("--runs", "5"), "audit-runs"),
        (("--mechanism", "density-magic"), "unknown-mechanism"),
    ],
)
def test_bad_arguments_are_one_message_and_code_2(arguments, code, monkeypatch, capsys):
    exit_code, out, err = shoal(monkeypatch, capsys, "audit", *arguments)
    assert (exit_code, out) == (2, "")
    assert err.startswith(code)


def test_quick_plans_are_smaller():
    quick, full = AuditPlan.quick(2.0, 1e-5), AuditPlan(epsilon=2.0, delta=1e-5)
    assert (quick.epsilon, quick.delta) == (2.0, 1e-5)
    assert quick.whole_runs < full.whole_runs
    with pytest.raises(PlanError, match="audit-runs"):
        AuditPlan(whole_runs=1)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_whole_runs_see_the_user_and_stay_below_the_claim(name):
    """At epsilon = 10 a few hundred runs tell the neighbours apart; the bound must not tell too much."""
    pipeline = pipeline_of(name, 10.0, 1e-6 if REGISTRY[name].has_mu else None)
    with_user, without = sample_whole(pipeline, SeededNoise(9), 400)
    found = module.bounds(with_user, without, 1e-6)
    assert 0.3 < found.epsilon <= 10.0
    assert (with_user.mean(axis=0) > without.mean(axis=0)).all()


def test_the_whole_pair_is_as_bad_as_can_be():
    pipeline = pipeline_of("density-laplace", 1.0, None)
    pair = worst_events(pipeline)
    assert len(pair.added) == pipeline.world.ell
    assert {user for user, _, _ in pair.added}.isdisjoint(user for user, _, _ in pair.table)
