"""Every method that can be released has an audit case, and the case audits what the release is built from."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.loops import for_each

from shoal.kinds.density.plan import METHODS as DENSITY
from shoal.kinds.density.plan import MethodOptions
from shoal.kinds.histogram.plan import METHODS as HISTOGRAM
from shoal.kinds.query import plan as query
from shoal.kinds.synthetic.plan import METHODS as SYNTHETIC
from shoal.mechanisms.method import SMALL
from shoal.mechanisms.registry import REGISTRY
from shoal.privacy.accounting import Budget
from shoal.release.manifest import CASES, Manifest, audit_case, case_of, case_problems, entry_name

GOLDEN = Path(__file__).parents[1] / "golden"

METHODS = {
    "density": DENSITY,
    "histogram": HISTOGRAM,
    "synthetic": SYNTHETIC,
    "query": query.METHODS,
}


def parts(mechanism):
    """The class of a mechanism and of the mechanism inside it."""
    return type(mechanism), type(getattr(mechanism, "counts", None))


def test_every_method_of_every_kind_has_a_case_and_no_other_has():
    listed = {(each.kind, each.method) for each in CASES.values()}
    assert listed == {(kind, method) for kind, table in METHODS.items() for method in table}


@for_each("case", CASES.values(), ids=CASES)
def test_a_case_is_a_registered_entry_of_its_kind_and_family(case):
    entry = REGISTRY[case.mechanism]
    assert entry.pure == (case.family == "laplace")
    assert case.mechanism.startswith(case.kind)
    assert entry_name(case.case) == case.mechanism


@for_each("name", DENSITY)
def test_a_density_is_audited_as_it_is_built(name):
    method = DENSITY[name]
    entry = REGISTRY[audit_case("density", name, pure=method.pure).mechanism]
    budget = Budget.of(1.0, None if method.pure else 1e-6)
    built = method.build(budget, SMALL.setting, MethodOptions(ell=SMALL.ell, cap=SMALL.cap))
    assert parts(built) == parts(entry.build(1.0, 1e-6, entry.size))
    assert tuple(spend for spend, _ in built.spends()) == entry.spends


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_release_is_built_as_its_case_is_audited(case):
    """By the same builder with the same parameters; the audit only adds what costs time, not privacy."""
    method, entry = METHODS[case.kind][case.method], REGISTRY[case.mechanism]
    assert method.cases[case.case] is entry
    assert method.make == entry.make
    assert case.family in method.families
    assert set(entry.small) <= {"k", "boxes", "rounds", "first", "calibrate", "corners_from", "updates"}


@for_each(
    ("kind", "method", "given", "case"),
    [
        ("synthetic", "bridges", {"pure": True, "each_trip": True}, "synthetic-bridges-laplace-trip"),
        ("synthetic", "bridges", {"pure": False}, "synthetic-bridges-gaussian"),
        ("histogram", "boxes", {"pure": True, "spends": ("all_trips", "boxes")}, "histogram-boxes-declared"),
        ("histogram", "boxes", {"pure": True, "each_trip": True}, "histogram-boxes"),
    ],
)
def test_units_families_and_sizes_have_cases_of_their_own(kind, method, given, case):
    assert audit_case(kind, method, **given).case == case


def test_a_method_from_elsewhere_has_no_case():
    assert audit_case("histogram", "made-up", pure=True) is None


def recorded_manifests():
    runs = json.loads((GOLDEN / "now" / "runs.json").read_text("utf-8"))
    return {name: each["manifest"] for name, each in runs.items() if each["manifest"]["spends"]}


@for_each("name", sorted(recorded_manifests()))
def test_a_manifest_names_the_case_of_its_own_method(name):
    manifest = recorded_manifests()[name]
    case = CASES[manifest["audit_case"]]
    assert case.method == manifest["public"].get("method", manifest["public"].get("mechanism"))
    assert (case.family == "laplace") == all("epsilon" in spend for spend in manifest["spends"])


BEFORE = {
    "density-best": ["visits", "active", "city", "regions", "zones"]
}  # spends, where today's are others


@for_each("path", sorted(GOLDEN.glob("v*/**/manifest.json")), ids=lambda path: path.parent.name)
def test_releases_of_before_find_their_case(path):
    manifest = Manifest.from_json(path.read_text("utf-8"))
    case = case_of(manifest)
    assert manifest.audit_case is None
    assert (case is None) == (not manifest.is_private)
    if case is not None:
        spends = [spend["name"] for spend in manifest.spends]  # without those for which a size was declared
        today = [name for name in REGISTRY[case.mechanism].spends if name in spends]
        assert spends == BEFORE.get(case.mechanism, today)
        assert case_problems(replace(manifest, audit_case=case.case)) == []
        for other in CASES.keys() - {case.case}:
            assert case_problems(replace(manifest, audit_case=other)) != []
