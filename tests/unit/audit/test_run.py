"""The audit as a whole, and the command that prints it."""

import json
from dataclasses import replace

import pytest
from tests.loops import tiers

from shoal.auditing import run as module
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.planted.mutants import planted
from shoal.auditing.run import AuditPlan, audit_many, audit_mechanism, sample_whole, worst_events
from shoal.errors import PlanError
from shoal.mechanisms.registry import REGISTRY, taking
from shoal.privacy.noise import SeededNoise
from shoal.release.manifest import CASES, entry_name

HISTOGRAMS = taking("trips")
SYNTHETIC = taking("paths", "commutes")

VISITS = [name for name in REGISTRY if name not in HISTOGRAMS and name not in SYNTHETIC]
SOME_TRIPS = [
    "histogram-laplace",
    "histogram-prish-zcdp",
    "histogram-boxes",
    "synthetic-markov",
    "synthetic-prefix-zcdp",
    "synthetic-commute",
]  # all take long
FEW = ["density-scaled", "density-scaled-laplace", "query-laplace", "histogram-laplace"]
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
    "replay_held",
    "noise_passed",
    "spends",
}


IN_EVERY_RUN = ("density-gaussian", "density-laplace", "query-gaussian", "histogram-laplace")


@pytest.fixture
def one_for_all(hurry, monkeypatch):
    """One result under every name."""
    found = audit_mechanism("density-gaussian", AuditPlan.quick(runs=1000))
    monkeypatch.setattr(module, "audit_mechanism", lambda name, *_: replace(found, mechanism=name))
    monkeypatch.setattr(module, "scale_faults", list)


@pytest.fixture
def hurry(monkeypatch):
    """Two bugs instead of all and few pairs: the suite runs the rest elsewhere."""
    bugs = ("noise scale x 0.8", "box from the data")
    monkeypatch.setattr(module, "planted", lambda name: [m for m in planted(name) if m.name in bugs])
    pairs = module.audit_pairs
    monkeypatch.setattr(module, "audit_pairs", lambda pipeline, extra: pairs(pipeline, extra)[:6])


@pytest.mark.parametrize("audited", tiers([FEW, VISITS, SOME_TRIPS], lambda names: names is FEW))
def test_json_is_one_object_per_mechanism_and_nothing_else(audited, hurry, command):
    names = [name for name in audited if entry_name(name) == name]
    asked = [word for name in names for word in ("--mechanism", name)]
    code, out, _ = command("audit", "--json", "--quick", "--runs", "2000", "--jobs", "1", *asked)
    results = json.loads(out)
    assert code == 0
    assert [result["mechanism"] for result in results] == names
    for result in results:
        assert set(result) >= FIELDS
        assert result["lower_bound"] <= result["claimed_epsilon"] <= 1.0
        assert result["mutants_caught"] == result["mutants_planted"] >= 1
        assert result["runs"] == 2000
        assert (result["replay_pairs"], result["replay_held"], result["replay_passed"]) == (6, 6, True)
        assert result["noise_passed"] is True
        assert {spend["name"] for spend in result["spends"]} == set(REGISTRY[result["mechanism"]].spends)
        assert all(spend["lower_bound"] <= spend["claimed_epsilon"] for spend in result["spends"])
    by_name = {result["mechanism"]: result for result in results}
    if "density-scaled" not in by_name:
        return
    gaussian, laplace = by_name["density-scaled"], by_name["density-scaled-laplace"]
    assert 0 <= gaussian["mu_lower_bound"] <= gaussian["claimed_mu"] == pytest.approx(0.2367, abs=1e-4)
    assert gaussian["delta"] == 1e-6
    assert laplace["claimed_mu"] is laplace["mu_lower_bound"] is None
    assert laplace["delta"] == 0.0


def test_table_names_what_was_asked_for(hurry, command):
    arguments = ("--mechanism", "density-laplace", "--quick", "--runs", "1000", "--epsilon", "4")
    code, out, _ = command("audit", *arguments)
    assert code == 0
    assert "density-scaled" not in out.replace("density-scaled-laplace", "")
    row = next(line.split() for line in out.splitlines() if line.startswith("density-scaled-laplace"))
    assert row == ["density-scaled-laplace", "4", row[2], "1000", "6/6", "held", "2/2"]
    assert "\nAll promises held.\n" in out
    assert "mu" not in out.split()  # neither its rows nor its explanation
    assert "delta" not in out


def test_mu_is_explained_where_it_is_shown(hurry, command):
    arguments = ("--mechanism", "density-gaussian", "--quick", "--runs", "1000", "--delta", "1e-5")
    code, out, _ = command("audit", *arguments)
    assert code == 0
    header = [line.split() for line in out.splitlines()[:2]]
    assert header[0].count("mu") == 2
    assert header[1][:5] == ["mechanism", "claim", "proved", "claim", "proved"]
    assert "in standard deviations of the Gaussian noise" in out
    assert "1e-05" in out


def test_cases_are_listed_as_a_table_and_as_json(command):
    code, out, _ = command("audit", "--list", "--json")
    assert code == 0
    assert [list(each) for each in json.loads(out)] == [
        ["case", "kind", "method", "family", "mechanism"] for _ in CASES
    ]
    code, out, _ = command("audit", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["case", *CASES]


def test_all_mechanisms_are_audited_in_a_table_that_fits_a_terminal(one_for_all, command, monkeypatch):
    code, out, _ = command("audit", "--json", "--quick", "--jobs", "1")
    assert code == 0
    assert [result["mechanism"] for result in json.loads(out)] == list(REGISTRY)
    code, out, _ = command("audit", "--quick", "--runs", "1000", "--jobs", "1")
    assert code == 0
    assert "…" not in out
    rows = [line for line in out.splitlines() if line.split(" ")[0] in REGISTRY]
    assert len(rows) == len(REGISTRY)
    assert max(map(len, rows)) <= 80
    monkeypatch.setattr(module, "scale_faults", lambda: ["noise of child processes is not of scale 2.6"])
    code, _, err = command("audit", "--json", "--quick", "--jobs", "1")
    assert code == 6
    assert "noise of child processes is not of scale 2.6" in err


@pytest.mark.exhaustive
def test_processes_find_what_one_finds_in_the_order_asked():
    """Claims and planted bugs; what is drawn from the operating system differs from run to run."""
    names, plan = ["query-laplace", "density-laplace"], AuditPlan.quick(runs=1000)
    together = audit_many(names, plan, jobs=2)
    assert [found.mechanism for found in together] == names
    for found in together:
        alone = audit_mechanism(found.mechanism, plan)
        assert found.caught_by == alone.caught_by
        assert found.problems == alone.problems == ()
        assert found.claimed_epsilon == alone.claimed_epsilon


def test_two_processes_audit_in_the_order_asked(hurry, monkeypatch):
    """A small sibling of the test above, without what their children find."""
    names = ["query-laplace", "density-laplace"]
    monkeypatch.setattr(module, "in_processes", lambda one, items, tell, jobs: [one(item) for item in items])
    together = audit_many(names, AuditPlan.quick(runs=1000), jobs=2)
    assert [found.mechanism for found in together] == names
    assert all(found.problems == () for found in together)


def broken(name, epsilon, delta, **more):
    leak = next(m for m in planted(name) if m.name == "output rescaled by the exact total")
    return leak.bug.plant(pipeline_of(name, epsilon, delta, **more))


def test_a_leak_ends_with_code_6_and_the_table_says_so(hurry, monkeypatch, command):
    monkeypatch.setattr(module, "pipeline_of", broken)
    arguments = ("--mechanism", "density-laplace", "--quick", "--runs", "1000", "--json")
    code, out, err = command("audit", *arguments)
    assert code == 6
    assert "audit-failed" in err
    assert "released bytes differ" in err
    assert json.loads(out)[0]["replay_passed"] is False
    monkeypatch.setattr(module, "pipeline_of", broken)
    arguments = ("--mechanism", "density-laplace", "--quick", "--runs", "1000")
    code, out, err = command("audit", *arguments)
    assert code == 6
    assert "NOT HELD" in out
    assert "All promises" not in out
    assert " 0/6 " in out
    assert "replay of nobody, and one user at the cap" in err


def test_a_mechanism_that_claims_more_than_was_asked_is_a_problem(hurry, monkeypatch):
    def greedy(name, epsilon, delta, **more):
        return pipeline_of(name, 5 * epsilon, delta, **more)

    monkeypatch.setattr(module, "pipeline_of", greedy)
    monkeypatch.setattr(module, "_plant_bugs", lambda name, tell: {})
    found = audit_mechanism("density-gaussian", AuditPlan.quick(runs=1000))
    assert found.replay_passed
    assert found.problems == (f"claims epsilon = {found.claimed_epsilon:.6g} where 1 was asked for",)


def test_spends_that_do_not_add_up_are_a_problem(hurry, monkeypatch):
    def uncharged(name, epsilon, delta, **more):
        bug = next(m for m in planted(name) if m.name == "visits: not charged").bug
        return replace(bug.plant(pipeline_of(name, epsilon, delta, **more)), mechanism=kept(name, epsilon))

    def kept(name, epsilon):
        true = pipeline_of(name, epsilon, 1e-6).mechanism

        class Kept(type(true)):
            def spends(self):
                return super().spends()[1:]

            def loss(self):
                return true.loss()

        return Kept(**{name: getattr(true, name) for name in true.__dataclass_fields__})

    problems = module._asked(
        pipeline_of("density-scaled", 1.0, 1e-6).mechanism.loss(),
        uncharged("density-scaled", 1.0, 1e-6),
        1.0,
        1e-6,
    )
    assert problems == ["the named spends do not add up to the claim"]


def test_noise_that_comes_again_and_a_bound_above_the_claim_are_problems(hurry, monkeypatch):
    again = next(m for m in planted("density-laplace") if m.name.endswith("every second zone"))
    monkeypatch.setattr(module, "OsNoise", lambda: again.sampler(4))
    found = audit_mechanism("density-laplace", AuditPlan.quick(runs=1000))
    assert not found.noise_passed
    assert any("zones 0 and 1" in problem for problem in found.problems)
    thin = next(m for m in planted("density-laplace") if m.name == "sampler draws at half the scale")
    monkeypatch.setattr(module, "OsNoise", lambda: thin.sampler(4))
    found = audit_mechanism("density-laplace", AuditPlan.quick())
    assert found.lower_bound > found.claimed_epsilon
    assert any("the claim is 1" in problem for problem in found.problems)


def test_a_replay_of_nothing_is_a_problem(hurry, monkeypatch):
    monkeypatch.setattr(module, "audit_pairs", lambda pipeline, extra: [])
    found = audit_mechanism("density-laplace", AuditPlan.quick(runs=1000))
    assert not found.replay_passed
    assert "replay: no pair was tried" in found.problems


def test_a_pipeline_that_always_raises_is_a_problem(hurry, monkeypatch):
    def refuses(name, epsilon, delta, **more):
        return replace(pipeline_of(name, epsilon, delta, **more), spread=full_disk)

    def full_disk(bounded, weights):
        raise PlanError("disk-full", "the disk is full.")

    monkeypatch.setattr(module, "pipeline_of", refuses)
    nothing = module.Bounds(0, 0, 9)
    monkeypatch.setattr(module, "queries_of", lambda *_: [])
    monkeypatch.setattr(module, "_lower_bounds", lambda *_: ((), nothing, None))
    monkeypatch.setattr(module, "_whole", lambda *_: nothing)
    found = audit_mechanism("density-laplace", AuditPlan.quick(runs=1000))
    assert (found.replay_held, found.replay_passed) == (0, False)
    assert any("nothing was released: PlanError" in problem for problem in found.problems)


def test_a_surviving_bug_ends_with_code_6(hurry, monkeypatch, command):
    monkeypatch.setattr(module, "catch", lambda mutant: None)
    arguments = ("--mechanism", "density-laplace", "--quick", "--runs", "1000", "--json")
    code, out, err = command("audit", *arguments)
    assert code == 6
    assert "planted bug not caught: box from the data" in err
    assert json.loads(out)[0]["mutants_caught"] == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--epsilon", "0"), "epsilon-range"),
        (("--epsilon", "nan"), "epsilon-range"),
        (("--delta", "1"), "delta-range"),
        (("--runs", "5"), "audit-runs"),
        (("--jobs", "0"), "audit-jobs"),
        (("--mechanism", "density-magic"), "unknown-mechanism"),
    ],
)
def test_bad_arguments_are_one_message_and_code_2(arguments, code, command):
    exit_code, out, err = command("audit", *arguments)
    assert (exit_code, out) == (2, "")
    assert err.startswith(code)


def test_quick_plans_are_smaller_and_the_whole_pair_as_bad_as_can_be():
    quick, full = AuditPlan.quick(2.0, 1e-5), AuditPlan(epsilon=2.0, delta=1e-5)
    assert (quick.epsilon, quick.delta) == (2.0, 1e-5)
    assert quick.whole_runs < full.whole_runs
    with pytest.raises(PlanError, match="audit-runs"):
        AuditPlan(whole_runs=1)
    pipeline = pipeline_of("density-laplace", 1.0, None)
    pair = worst_events(pipeline)
    assert len(pair.added) == pipeline.world.size.ell
    assert {user for user, _, _ in pair.added}.isdisjoint(user for user, _, _ in pair.table)


@pytest.mark.parametrize("name", tiers([*VISITS, *SOME_TRIPS], IN_EVERY_RUN))
def test_whole_runs_see_the_user_and_stay_below_the_claim(name):
    """At a large epsilon some runs tell the neighbours apart; the bound must not tell too much."""
    scheme = "efpa" in name or name.startswith(
        ("query", "histogram", "synthetic")
    )  # the budget has many parts
    epsilon = 100.0 if scheme else 10.0
    pipeline = pipeline_of(name, epsilon, None if REGISTRY[name].pure else 1e-6)
    few = (scheme or "best" in name) and name not in HISTOGRAMS and name not in SYNTHETIC
    with_user, without = sample_whole(pipeline, SeededNoise(9), 150 if few else 400)
    found = module.bounds(with_user, without, 1e-6)
    assert found.epsilon <= epsilon
    if "best" not in name:  # its first numbers are in noise for a hundred visits and more
        assert found.epsilon > 0.3
        assert (with_user.mean(axis=0) > without.mean(axis=0)).all()
