"""Which registered entry audits a release: one audit case per released method and noise family.

A case is called kind-method, followed by the noise family where a method has several, and by what else
decides how its mechanism is built. A manifest names its case; evidence and the page find the audit by it.
Cases are those of the methods of shoal (shoal/mechanisms/methods.py), which load no mechanism, and those of
the baselines, whether they are installed or not (shoal/baselines.py).

>>> audit_case("density", "laplace", pure=True)[:4], audit_case("density", "laplace", pure=True).mechanism
(('density-laplace', 'density', 'laplace', 'laplace'), 'density-scaled-laplace')
>>> audit_case("synthetic", "bridges", pure=False).mechanism
'synthetic-bridges-zcdp'
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from shoal import baselines
from shoal.baselines import GAUSSIAN, LAPLACE, AuditCase
from shoal.mechanisms.methods import METHODS
from shoal.release.manifest import Manifest


def _cases() -> Iterator[AuditCase]:
    for table in METHODS.values():
        for method in table.values():
            for case, entry in method.cases.items():
                yield AuditCase(case, method.kind, method.name, entry.family, entry.name)
    yield from baselines.CASES


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
