"""The methods of a density by name, their options, and the meaning of each of their spends.

METHODS can be released. COMPARATORS have no guarantee for users, or a weaker one than their epsilon suggests,
and can only be compared. The tables themselves: shoal/mechanisms/methods.py, shoal_baselines/methods.py.

>>> METHODS["laplace"].pure, "threshold" in METHODS
(True, False)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from shoal.baselines import lacks, missing
from shoal.errors import PlanError
from shoal.mechanisms import methods
from shoal.mechanisms.method import Method, Methods
from shoal.privacy.accounting import Loss
from shoal.privacy.guarantee import declared_size
from shoal.setting import Plan, rule, setting

if TYPE_CHECKING:
    from shoal.privacy.noise import Noise

__all__ = [
    "COMPARATORS",
    "METHODS",
    "DensityMechanism",
    "Method",
    "MethodOptions",
    "any_method",
    "method_named",
]

METHODS = Methods("density", methods.DENSITY, "methods:METHODS")
COMPARATORS = Methods("density", {}, "methods:COMPARATORS")
# Meaning of each named spend, for the dry run, the manifest and the owner's report, as in docs/methods.md.
PAYS_FOR = {
    "users": "the number of users, unless declared; it selects the method's constants",
    "visits": "the number of visits in the zones, to which all counts are scaled",
    "active": "the same number under a larger clip of users; used if it is clearly larger",
    "city": "the profile of the whole city over the slots",
    "regions": "profiles of regions (groups of neighbouring zones), from which the main profiles are learned",
    "zones": "coefficients of every zone for these profiles",
    "kept": "the number of sampled visits; counts are scaled up by the ratio of the two numbers",
    "counts": "the count of every zone and slot",
    "totals": "the total of every cell, by which cells with few visits are joined into clusters",
    "select": "the number of Fourier components kept for each profile",
    "coefficients": "the Fourier components that are kept, which give the profiles",
}


@dataclass(frozen=True, kw_only=True)
class MethodOptions(Plan):
    """Public options of a method, declared by the owner."""

    ell: int = setting(
        30, "Visits kept per user, where the method keeps a sample; `best` does not.", (1, 1_000_000), last=1
    )
    cap: int = setting(
        250, "Visits per user that enter the total number; not for `best`.", (1, 1_000_000), last=1
    )
    nights: bool = setting(True, "Smooth the nights, where the method can.", last=1)
    users: int | None = setting(
        None,
        "Declared order of magnitude of the population, kept to two digits and published; `best` then does "
        "not measure it. Never a count from the data.",
        (1, 10**11),
        example=200_000,
        label="People, about",
        last=1,
    )
    decimals: int = setting(1, "Decimals of the released numbers.", (0, 6), key=True, last=1)

    @rule("users")
    def _round_users(self) -> None:
        if self.users is not None:
            object.__setattr__(self, "typed", {"users": self.users})
            object.__setattr__(self, "users", declared_size(self.users))


class DensityMechanism(Protocol):
    """Frozen parameters, its loss, the named spends that add up to it, its description, one call."""

    name: str
    takes: str  # the stage: "counts" | "scalable" | "cover" | "visits"

    def loss(self) -> Loss: ...
    def spends(self) -> tuple[tuple[str, Loss], ...]: ...
    def describe(self) -> Mapping[str, Any]: ...
    def reading(self) -> tuple[str, ...]: ...
    def __call__(self, exact: Any, noise: Noise) -> Any: ...


def method_named(name: str) -> Method:
    """The method called `name`, of those that can be released."""
    if name in METHODS:
        return METHODS[name]
    if name in COMPARATORS:
        raise PlanError(
            "plan-comparison",
            f"{name} is there for comparison only: it does not protect a user as a release must.",
            f"See it with `shoal density compare --method {name}`; release with {_listed(METHODS)}.",
        )
    raise _unknown(name, METHODS)


def any_method(name: str) -> Method:
    """The method called `name`, also of those for comparison only."""
    if name in METHODS:
        return METHODS[name]
    if name in COMPARATORS:
        return COMPARATORS[name]
    raise _unknown(name, (*METHODS, *COMPARATORS))


def _unknown(name: str, known: Iterable[str]) -> PlanError:
    if lacks("density", name):
        return missing(f"the method {name}")
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    released, compared = ([each for each in names if (each in METHODS) == sound] for sound in (True, False))
    remedy = f"Did you mean {near[0]}?" if near else f"Use {_listed(released)}."
    if compared and not near:
        remedy += f" For comparison only, without a guarantee to a person: {', '.join(compared)}."
    return PlanError("plan-method", f"there is no method {name!r}.", remedy)


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
