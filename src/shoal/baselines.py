"""The package shoal-baselines, where it is installed: the only file of shoal that imports it.

It holds the published methods that comparisons need and nobody should pick for a release. Their names and
audit cases stand here too, so that a release made by one of them is verified without the package.

>>> missing("the method efpag").remedy
'Install it beside shoal: pip install shoal-baselines'
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from shoal.errors import PlanError

PACKAGE = "shoal_baselines"
GAUSSIAN, LAPLACE = "gaussian", "laplace"


class AuditCase(NamedTuple):
    """A released method as it is audited; `mechanism` is its name in the registry."""

    case: str
    kind: str
    method: str
    family: str
    mechanism: str


def _density(method: str, family: str, mechanism: str = "") -> AuditCase:
    name = f"density-{method}"
    return AuditCase(name, "density", method, family, mechanism or name)


def _either(kind: str, method: str) -> tuple[AuditCase, ...]:
    """Both cases of a method with a pure and a zCDP variant."""
    name = f"{kind}-{method}"
    return (
        AuditCase(f"{name}-{LAPLACE}", kind, method, LAPLACE, name),
        AuditCase(f"{name}-{GAUSSIAN}", kind, method, GAUSSIAN, f"{name}-zcdp"),
    )


CASES = (
    _density("efpag", GAUSSIAN),
    _density("efpag-basic", GAUSSIAN),
    _density("efpag-repaired", GAUSSIAN),
    _density("efpa", LAPLACE),
    _density("fpa", GAUSSIAN, "density-scaled-fpa"),
    _density("fpa-laplace", LAPLACE, "density-scaled-fpa-laplace"),
    _density("scm-cap", LAPLACE, "density-scaled-laplace"),
    _density("scm-full", LAPLACE, "density-scaled-scm-full"),
    *(case for name in ("dqam", "prish", "mwem", "dawa", "laplace") for case in _either("histogram", name)),
    *(case for name in ("markov", "ngram", "prefix", "dpt") for case in _either("synthetic", name)),
)
# For comparison only: no release can be made of them.
COMPARATORS = {
    "density": (
        *("published", "published-efpa", "published-later"),
        *("scm-event", "scm-zone", "spotme", "threshold"),
    ),
    "synthetic": ("tgm", "tgm-counts", "tgm-np"),
    "trajectories": (
        *("raw", "grid", "grid-k", "h3", "h3-k", "km1", "km2", "nwa", "full-length"),
        "published",
    ),
}


def is_baseline(kind: str, name: str) -> bool:
    """Whether a method of a kind, or one to compare it with, is part of the package."""
    released = any((case.kind, case.method) == (kind, name) for case in CASES)
    return released or name in COMPARATORS.get(kind, ())


def lacks(kind: str, name: str) -> bool:
    """Whether a method is one of the package, and the package is not installed."""
    return is_baseline(kind, name) and part("methods:METHODS") is None


def part(place: str, otherwise: Any = None) -> Any:
    """The object at "module:name" of the package; `otherwise` where the package is not installed."""
    try:
        import_module(PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        return otherwise
    module, _, name = place.partition(":")
    return getattr(import_module(f"{PACKAGE}.{module}"), name)


def needed(place: str, what: str) -> Any:
    """The same; raises an error if the package is not installed."""
    value = part(place)
    if value is None:
        raise missing(what)
    return value


def missing(what: str) -> PlanError:
    """The error of a command that asks for something of the package where it is not installed."""
    return PlanError(
        "baselines-missing",
        f"{what} needs the package shoal-baselines, which is not installed.",
        "Install it beside shoal: pip install shoal-baselines",
    )
