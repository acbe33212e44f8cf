"""The plan of a density release: all that shapes it, given by the owner, none of it read off the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isqrt
from typing import Any

from shoal.errors import PlanError
from shoal.events.schema import SourcePlan
from shoal.kinds.density.methods import Method, MethodOptions, method_named
from shoal.kinds.plan import (
    DEFAULT_DELTA,
    REMEDIES,
    WindowPlan,
    check_common,
    check_settings,
    check_whole,
    part_of,
)
from shoal.privacy.accounting import NANO, Budget, check_delta, check_epsilon, nano
from shoal.privacy.guarantee import Unit, declared_size
from shoal.space.plan import SpacePlan

DEFAULT_METHOD = "best"
# the plan for a simulated city; `shoal simulate` fills in what its card says
CITY_PLAN = """# A density of this simulated city: shoal density run --plan density.toml
population = "{population}"
epsilon = 1.0
delta = 1e-6
method = "{method}"
ell = 30                # visits kept per user
users = {users}  # declared: an order of magnitude, never counted
out = "{out}"
owner = "{owner}"

[source]
paths = ["{paths}"]

[space]
zones = "zones.geojson"
sites = "sites.csv"

[window]
start = "{start}"
end = "{end}"
time_zone = "{time_zone}"
slot_minutes = 60
"""


@dataclass(frozen=True, kw_only=True)
class DensityPlan:
    """People per zone and slot: how much privacy, for whom, where, when, from what, to where."""

    population: str
    source: SourcePlan
    space: SpacePlan
    window: WindowPlan
    epsilon: float | None = None  # this or rho
    delta: float | None = None  # None: the method's default; pure methods take none
    rho: float | None = None  # the price itself, instead of epsilon: a week's share of a year, say
    method: str = DEFAULT_METHOD
    ell: int = 30  # visits kept per user
    cap: int = 250  # visits per user that enter the number of visits, where the method releases it
    nights: bool = True  # smooth the nights, where the method can
    users: int | None = None  # declared order of magnitude of the population; kept to two digits
    unit: str = "user"
    decimals: int = 1
    out: str = "release"
    owner: str = "owner"
    run_id: str = ""  # another id makes another release of the same plan, and spends again
    supersedes: str = ""  # manifest hash of an earlier release that this one replaces
    seed: int | None = None  # tests and experiments only; not publishable
    licence: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", self._priced())
        Unit(self.unit)
        if self.unit != "user" and "user" not in self.source.columns:
            raise PlanError(
                "plan-unit",
                f"visits are bounded per value of one column; the column of {self.unit} ids is not said.",
                f"Pass --column user=NAME with the column of {self.unit} ids, not the one of persons.",
            )
        check_whole("ell", self.ell, 1, 1_000_000, "Pass --ell 30, say: the visits kept per user.")
        check_whole("cap", self.cap, 1, 1_000_000, "Pass --cap 250, say: visits per user in the total.")
        if self.users is not None:
            check_whole("users", self.users, 1, 10**11, "Pass --users 200000, say: an order of magnitude.")
            object.__setattr__(self, "typed", {"users": self.users})
            object.__setattr__(self, "users", declared_size(self.users))
        check_whole("decimals", self.decimals, 0, 6, "Pass --decimals 1, say.")
        check_common(self)

    def _priced(self) -> float | None:
        """Checks epsilon or rho; the delta the plan is read at, None where the method is pure."""
        method = method_named(self.method)
        if (self.epsilon is None) == (self.rho is None):
            both = "both" if self.rho is not None else "neither"
            raise PlanError(
                "plan-price", f"a plan says its epsilon or its rho; got {both}.", "Pass --epsilon 1, say."
            )
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        else:
            check_rho(self.rho)
        if not method.pure:
            return check_delta(DEFAULT_DELTA if self.delta is None else self.delta)
        if self.delta:
            raise PlanError(
                "plan-delta",
                f"the {self.method} method is pure: it has no delta.",
                "Leave delta out of the plan or pass --delta 0, or use a method that has one: gaussian, say.",
            )
        return None

    def options(self) -> MethodOptions:
        """What the plan declares about its method."""
        return MethodOptions(**{each.name: getattr(self, each.name) for each in fields(MethodOptions)})

    def budget(self, method: Method | None = None) -> Budget:
        """What the release may spend; by another method, the same epsilon or rho."""
        pure = (method or method_named(self.method)).pure
        if self.rho is None:
            return Budget.of(self.epsilon or 0.0, None if pure else self.delta or DEFAULT_DELTA)
        if not pure:
            return Budget(nano(self.rho), pure=False)
        # epsilon-DP costs epsilon^2 / 2 in rho: the largest whole epsilon within it
        return Budget(isqrt(2 * nano(self.rho) * NANO), pure=True)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> DensityPlan:
        """A plan from nested settings, as a TOML file or flags give them; unknown names are refused."""
        values = dict(settings)
        check_settings(cls, values, "")
        for name in ("source", "window", "population"):
            if name not in values:
                raise PlanError("plan-incomplete", f"the plan does not say its {name}.", REMEDIES[name])
        if "epsilon" not in values and "rho" not in values:
            raise PlanError("plan-incomplete", "the plan does not say its epsilon.", REMEDIES["epsilon"])
        values["source"] = part_of(SourcePlan, values["source"], "source")
        values["window"] = part_of(WindowPlan, values["window"], "window")
        values["space"] = part_of(SpacePlan, values.get("space", {}), "space")
        try:
            return cls(**values)
        except TypeError as error:
            raise PlanError("plan-type", f"a value of the plan has the wrong type ({error}).") from error


def check_rho(rho: float | None) -> int:
    """A price in 1e-9; above 100 it protects nobody."""
    if isinstance(rho, bool) or not isinstance(rho, int | float) or not 1e-9 <= rho <= 100:
        raise PlanError(
            "rho-range",
            f"rho must be a number from 1e-9 to 100; got {rho}.",
            "Pass --rho 0.0005, say: `shoal density year` shows a week's share.",
        )
    return nano(rho)
