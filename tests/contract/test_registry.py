"""Every mechanism is registered, and every entry has all it takes to audit it."""

import doctest
import importlib
import inspect
import pkgutil
from fractions import Fraction

import numpy as np
import pytest

import shoal.mechanisms
from shoal.audit.mutants import planted
from shoal.audit.pipelines import PIPELINES, pipeline_of
from shoal.errors import PlanError
from shoal.mechanisms.registry import REGISTRY, AuditSize, entry_of
from shoal.privacy.accounting import NANO

HEADER = ("Guarantee", "Unit", "Neighbours", "Requires", "Sensitivity", "Public", "Source")
NAMES = sorted(REGISTRY)


def mechanism_modules():
    names = [found.name for found in pkgutil.iter_modules(shoal.mechanisms.__path__)]
    return [importlib.import_module(f"shoal.mechanisms.{name}") for name in names]


def classes_with_a_loss():
    return {
        kind
        for module in mechanism_modules()
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__
        and callable(getattr(kind, "loss", None))
        and not getattr(kind, "_is_protocol", False)
    }


def delta_of(entry):
    return 1e-6 if entry.has_mu else None


def test_every_class_with_a_loss_is_registered_under_its_name():
    assert classes_with_a_loss() == {entry.mechanism for entry in REGISTRY.values()}
    assert all(entry.mechanism.name == name for name, entry in REGISTRY.items())


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(PlanError, match="density-gaussian"):
        entry_of("density-cauchy")


@pytest.mark.parametrize("name", NAMES)
def test_header_has_every_field(name):
    text = inspect.getdoc(inspect.getmodule(REGISTRY[name].mechanism)) or ""
    words = text.split()
    assert not text.startswith(HEADER)  # the first line says what is released
    assert [field for field in HEADER if field not in words] == []
    assert REGISTRY[name].releases
    assert REGISTRY[name].guarantee


@pytest.mark.parametrize("name", NAMES)
def test_module_has_a_doctest_and_it_passes(name):
    results = doctest.testmod(inspect.getmodule(REGISTRY[name].mechanism))
    assert results.attempted > 0
    assert results.failed == 0


def test_the_registry_s_own_doctest_passes():
    results = doctest.testmod(importlib.import_module("shoal.mechanisms.registry"))
    assert (results.attempted > 0, results.failed) == (True, 0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["size", "replica"])
def test_worst_pair_reaches_the_sensitivity_and_the_loss(name, which):
    entry = REGISTRY[name]
    size = getattr(entry, which)
    mechanism = entry.build(1.0, delta_of(entry), size)
    before, after = entry.worst_pair(size)
    change = [int(b) - int(a) for a, b in zip(before.units.ravel(), after.units.ravel(), strict=True)]
    norm = sum(map(abs, change)) if entry.norm == "l1" else sum(c * c for c in change)
    assert norm == entry.sensitivity(mechanism) == entry.distance(before, after)
    if entry.norm == "l1":
        loss, claim = Fraction(norm) / Fraction(mechanism.scale), mechanism.loss().pure_epsilon_nano
    else:
        loss, claim = Fraction(norm) / (2 * Fraction(mechanism.sigma) ** 2), mechanism.loss().rho_nano
    assert 0 <= Fraction(claim, NANO) - loss < Fraction(1, NANO)  # reached, up to the last unit of 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_worst_pair_is_of_one_user(name):
    entry = REGISTRY[name]
    before, after = entry.worst_pair(entry.size)
    change = (after.units - before.units) / entry.size.lattice
    assert (np.count_nonzero(change, axis=0) <= 1).all()  # one zone per slot
    assert set(np.unique(change)) <= {0.0, 1.0}
    assert np.count_nonzero(change.sum(axis=0)) == entry.size.ell


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_guarantee_follows_from_the_parameters(name, epsilon):
    entry = REGISTRY[name]
    for size in (entry.size, entry.replica, AuditSize(zones=2, slots=5, ell=3)):
        loss = entry.build(epsilon, delta_of(entry), size).loss()
        assert 0.999 * epsilon < loss.epsilon(1e-6) <= epsilon


@pytest.mark.parametrize("name", NAMES)
def test_side_by_side_runs_keep_the_noise_of_one_run(name):
    entry = REGISTRY[name]
    one = entry.build(1.0, delta_of(entry), entry.replica)
    many = entry.build(1.0, delta_of(entry), entry.replica.side_by_side(1000))
    assert getattr(one, "scale", None) == getattr(many, "scale", None)
    assert getattr(one, "sigma", None) == getattr(many, "sigma", None)
    assert one.loss() == many.loss()


def test_every_mechanism_has_a_pipeline_and_no_other():
    assert set(PIPELINES) == set(REGISTRY)


@pytest.mark.parametrize("name", NAMES)
def test_pipeline_runs_the_registered_mechanism_at_its_size(name):
    entry = REGISTRY[name]
    pipeline = pipeline_of(name, 1.0, delta_of(entry))
    assert type(pipeline.mechanism) is entry.mechanism
    assert pipeline.world.slots == entry.size.slots
    assert pipeline.world.ell == entry.size.ell
    assert pipeline.world.weights.shape[0] == entry.size.zones
    assert pipeline.world.weights.column_l1 == entry.size.lattice  # the worst column is a whole visit
    assert pipeline.world.weights.column_l2_squared == entry.size.lattice**2


@pytest.mark.parametrize("name", NAMES)
def test_mutants_are_many_and_differ_from_the_true_mechanism(name):
    mutants = planted(name)
    true = pipeline_of(name, mutants[0].epsilon, mutants[0].delta)
    assert len({mutant.name for mutant in mutants}) == len(mutants) >= 50
    for mutant in mutants:
        changed = [
            type(mutant.pipeline.mechanism) is not type(true.mechanism),
            mutant.sampler is not type(mutant).sampler,
            any(
                getattr(mutant.pipeline, step) is not getattr(true, step)
                for step in ("kernel", "bound", "spread", "estimate", "write")
            ),
        ]
        assert sum(changed) == 1, mutant.name  # one bug each
