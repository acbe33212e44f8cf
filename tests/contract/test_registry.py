"""Every mechanism is registered, and every entry has all it takes to audit it."""

import importlib
import inspect
import pkgutil
from fractions import Fraction

import pytest
from tests.loops import for_each

import shoal.mechanisms
import shoal_baselines.mechanisms
from shoal.auditing.lower_bounds import queries_of
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.planted.mutants import planted
from shoal.errors import PlanError
from shoal.mechanisms.registry import REGISTRY, entry_of
from shoal.privacy.accounting import NANO
from shoal.privacy.noise import SeededNoise

HEADER = ("Guarantee", "Unit", "Neighbours", "Requires", "Sensitivity", "Public", "Source")
NAMES = sorted(REGISTRY)


def mechanism_modules():
    packages = (shoal.mechanisms, shoal_baselines.mechanisms)
    walked = (pkgutil.walk_packages(each.__path__, f"{each.__name__}.") for each in packages)
    return [importlib.import_module(found.name) for each in walked for found in each]


def classes_with_a_loss():
    return {
        kind
        for module in mechanism_modules()
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__
        and callable(getattr(kind, "loss", None))
        and not getattr(kind, "_is_protocol", False)
        and not inspect.isabstract(kind)
    }


def delta_of(entry):
    return None if entry.pure else 1e-6


def tight_pipeline(name, epsilon=1.0):
    entry = REGISTRY[name]
    return pipeline_of(name, epsilon, delta_of(entry), size=entry.tight)


def test_every_class_with_a_loss_is_registered_and_unknown_names_list_the_known():
    assert classes_with_a_loss() == {entry.mechanism for entry in REGISTRY.values()}
    assert all(name.startswith(tight_pipeline(name).mechanism.name) for name in REGISTRY)
    with pytest.raises(PlanError, match="density-gaussian"):
        entry_of("density-cauchy")
    assert ">>> " in inspect.getsource(importlib.import_module("shoal.mechanisms.registry"))


@for_each("entry", REGISTRY.values())
def test_a_mechanism_is_called_with_the_stage_that_its_entry_names(entry):
    assert getattr(entry.mechanism, "takes", entry.takes) == entry.takes


@for_each("name", NAMES)
def test_header_has_every_field(name):
    text = inspect.getdoc(inspect.getmodule(REGISTRY[name].mechanism)) or ""
    words = text.split()
    assert not text.startswith(HEADER)  # the first line says what is released
    assert [field for field in HEADER if field not in words] == []
    assert REGISTRY[name].releases
    assert REGISTRY[name].guarantee


@for_each("name", NAMES)
def test_module_has_a_doctest(name):
    """They are run with all others, by test_docs.py."""
    assert ">>> " in inspect.getsource(inspect.getmodule(REGISTRY[name].mechanism))


@for_each("name", NAMES)
def test_worst_user_reaches_the_loss_of_every_spend(name):
    """Exact losses of the queries, user in or out, against what each spend claims; all of them are asked."""
    entry, pipeline = REGISTRY[name], tight_pipeline(name)
    queries = queries_of(pipeline, entry)
    assert {query.name for query in queries} == set(entry.spends) == {spend for spend, _ in pipeline.spends()}
    for spend, claim in pipeline.spends():
        loss = sum((loss_of(query, entry.pure) for query in queries if query.name == spend), Fraction(0))
        claimed = claim.pure_epsilon_nano if entry.pure else claim.rho_nano
        reached = loss / Fraction(claimed, NANO)
        assert (1 - 1e-3) * entry.reach.get(spend, 1.0) <= reached <= 1, (spend, float(reached))


def loss_of(query, pure):
    change = [int(b) - int(a) for a, b in zip(query.before, query.after, strict=True)]
    scale = Fraction(query.scale)
    if query.kind == "gaussian":
        return Fraction(sum(c * c for c in change)) / (2 * scale**2)
    if query.kind == "laplace":
        epsilon = Fraction(sum(map(abs, change))) / scale
        return epsilon if pure else epsilon**2 / 2
    if query.kind == "above":
        epsilon = 2 * Fraction(max(map(abs, change))) / scale
        return epsilon if pure else epsilon**2 / 2
    epsilon = Fraction(max(change) - min(change)) / scale
    return epsilon if pure else epsilon**2 / 8


@for_each("name", NAMES)
@for_each("epsilon", [0.1, 1.0, 4.0])
def test_guarantee_follows_from_the_parameters(name, epsilon):
    entry = REGISTRY[name]
    for size in (entry.size, entry.tight):
        loss = entry.build(epsilon, delta_of(entry), size).loss()
        assert (loss.pure_epsilon_nano is not None) == entry.pure
        assert 0.99 * epsilon < loss.epsilon(1e-6) <= epsilon


@for_each("name", NAMES)
def test_pipeline_runs_the_registered_mechanism_at_its_size(name):
    entry = REGISTRY[name]
    pipeline = pipeline_of(name, 1.0, delta_of(entry))
    world = pipeline.world
    assert type(pipeline.mechanism) is entry.mechanism
    assert (world.slots, world.size.ell, world.size.cap) == (entry.size.slots, entry.size.ell, entry.size.cap)
    assert world.size.setting.weights.shape == (entry.size.zones, entry.size.places)
    assert world.size.setting.weights.column_l1 == entry.size.lattice  # the worst column is a whole visit
    assert world.size.setting.weights.column_l2_squared == entry.size.lattice**2


PAPERS = (
    "totals charged with sqrt(ell)",
    "choice of k charged once for all clusters",
    "overlaps of chosen cells subtracted as in the paper",
    "totals scaled by the exact number of users",
    "cap on the number of visits not enforced",
    "clip after projection forgotten",
    "Euler answer measured with sensitivity 1",
    "quadtree levels uncharged",
    "best T picked on the true error",
)
STEPS = ("kernel", "bound", "spread", "estimate", "write")


@for_each("name", NAMES)
def test_mutants_are_many_and_differ_from_the_true_mechanism(name):
    mutants = planted(name)
    true = pipeline_of(name, mutants[0].epsilon, mutants[0].delta)
    assert len({mutant.name for mutant in mutants}) == len(mutants) >= 30
    for mutant in mutants:
        broken = mutant.pipeline
        changed = [
            type(broken.mechanism) is not type(true.mechanism)
            or repr(broken.mechanism) != repr(true.mechanism),
            mutant.sampler is not SeededNoise,
            any(getattr(broken, step) is not getattr(true, step) for step in STEPS),
        ]
        assert sum(changed) == 1, mutant.name  # one bug each


def test_the_bugs_that_the_papers_had_are_planted():
    planted_names = {mutant.name for name in NAMES for mutant in planted(name)}
    for words in PAPERS:
        assert any(words in name for name in planted_names), words
