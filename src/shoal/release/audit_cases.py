"""Which registered entry audits a release: one audit case per released method and noise family.

A case is called kind-method, followed by the noise family where a method has several, and by what else
decides how its mechanism is built. A manifest names its case; evidence and the page find the audit by it.
This is plain data, so that a release loads no mechanism but its own; tests/contract/test_audit_cases.py
compares it with the registry.

>>> audit_case("density", "laplace", pure=True)[:4], audit_case("density", "laplace", pure=True).mechanism
(('density-laplace', 'density', 'laplace', 'laplace'), 'density-scaled-laplace')
>>> audit_case("synthetic", "bridges", pure=False).mechanism
'synthetic-bridges-zcdp'
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

from shoal.release.manifest import Manifest

GAUSSIAN, LAPLACE = "gaussian", "laplace"


class AuditCase(NamedTuple):
    """A released method as it is audited; `mechanism` is its name in the registry."""

    case: str
    kind: str
    method: str
    family: str
    mechanism: str


# method -> its family and its entry
DENSITY = {
    "best": (GAUSSIAN, "density-best"),
    "efpag": (GAUSSIAN, "density-efpag"),
    "efpag-basic": (GAUSSIAN, "density-efpag-basic"),
    "efpag-repaired": (GAUSSIAN, "density-efpag-repaired"),
    "efpa": (LAPLACE, "density-efpa"),
    "gaussian": (GAUSSIAN, "density-scaled"),
    "laplace": (LAPLACE, "density-scaled-laplace"),
    "fpa": (GAUSSIAN, "density-scaled-fpa"),
    "fpa-laplace": (LAPLACE, "density-scaled-fpa-laplace"),
    "scm-cap": (LAPLACE, "density-scaled-laplace"),
    "scm-full": (LAPLACE, "density-scaled-scm-full"),
}
QUERY = {
    "gaussian": (GAUSSIAN, "query-gaussian"),
    "laplace": (LAPLACE, "query-laplace"),
    "weights": (GAUSSIAN, "query-weights"),
}
# Methods that take a delta or go without.
EITHER = {
    "histogram": ("laplace", "mwem", "dawa", "prish", "dqam"),
    "synthetic": ("bridges", "markov", "ngram", "prefix", "dpt", "commute"),
}


def _cases() -> Iterator[AuditCase]:
    for kind, methods in (("density", DENSITY), ("query", QUERY)):
        for method, (family, entry) in methods.items():
            yield AuditCase(f"{kind}-{method}", kind, method, family, entry)
    yield AuditCase("histogram-boxes", "histogram", "boxes", LAPLACE, "histogram-boxes")
    # The number of trips is declared, not measured; rectangles are measured where it is large.
    yield AuditCase("histogram-boxes-declared", "histogram", "boxes", LAPLACE, "histogram-boxes-large")
    for kind, methods in EITHER.items():
        for method in methods:
            for family, ending in ((LAPLACE, ""), (GAUSSIAN, "-zcdp")):
                yield AuditCase(f"{kind}-{method}-{family}", kind, method, family, f"{kind}-{method}{ending}")
    # The unit is one trip, and second-order moves are measured where trips are many.
    for family, ending in ((LAPLACE, ""), (GAUSSIAN, "-zcdp")):
        case = f"synthetic-bridges-{family}-trip"
        yield AuditCase(case, "synthetic", "bridges", family, f"synthetic-bridges-2nd{ending}")


CASES = {each.case: each for each in _cases()}


def audit_case(
    kind: str, method: str, *, pure: bool, spends: Collection[str] = ("trips",), each_trip: bool = False
) -> AuditCase | None:
    """The case of a release; None for a method that is not part of the package.

    Args:
        spends: names of the mechanism's spends.
        each_trip: the unit is a trip, not a user.
    """
    name = f"{kind}-{method}"
    if name not in CASES:
        name = f"{name}-{LAPLACE if pure else GAUSSIAN}"
    variants = (
        f"{name}-trip" if each_trip else "",
        f"{name}-declared" if "trips" not in spends else "",
        name,
    )
    return next((CASES[each] for each in variants if each in CASES), None)


def case_of(manifest: Manifest) -> AuditCase | None:
    """The case that a manifest's method, spends and unit determine; None where nothing was spent."""
    spends, public = list(manifest.spends), manifest.public
    if not spends:
        return None
    kind = str(spends[0].get("mechanism", "")).partition("-")[0]
    return audit_case(
        kind,
        str(public.get("mechanism") if kind == "query" else public.get("method")),
        pure=all("epsilon" in spend for spend in spends),
        spends=[str(spend.get("name")) for spend in spends],
        each_trip=manifest.guarantee.get("unit") == "trip",
    )


def with_audit_case(manifest: Manifest) -> Manifest:
    """The same manifest, naming its case."""
    case = case_of(manifest)
    return manifest if case is None else replace(manifest, audit_case=case.case)


def case_problems(manifest: Manifest) -> list[str]:
    """A case that is not the one of the release; earlier releases name none."""
    case = case_of(manifest)
    if manifest.audit_case is None or (case is not None and manifest.audit_case == case.case):
        return []
    return ["the audit case is not that of its method, spends and unit."]


def entry_name(name: str) -> str:
    """The name in the registry of a case, or of an entry itself."""
    return CASES[name].mechanism if name in CASES else name
