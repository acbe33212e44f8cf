"""The plan of a density release: all that shapes it, given by the owner, none of it read off the data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isqrt

from shoal.errors import PlanError
from shoal.kinds.density.methods import Method, MethodOptions, method_named
from shoal.kinds.plan import DEFAULT_DELTA, ReleasePlan, WindowPlan, delta_setting, epsilon_setting
from shoal.privacy.accounting import NANO, Budget, check_delta, nano
from shoal.setting import remedy_of, rule, setting, settings_of
from shoal.space.plan import SpacePlan

DEFAULT_METHOD = "best"
# settings of the plan for a simulated city; None: the default, or what the card of the city says
CITY_PLAN = {
    **dict.fromkeys(("population", "epsilon", "delta", "method", "ell", "users", "out", "owner")),
    "source.paths": None,
    "space.zones": "zones.geojson",
    "space.sites": "sites.csv",
    **dict.fromkeys(("window.start", "window.end", "window.time_zone", "window.slot_minutes")),
}


@dataclass(frozen=True, kw_only=True)
class DensityPlan(MethodOptions, ReleasePlan):
    """People per zone and slot: how much privacy, for whom, where, when, from what, to where."""

    epsilon: float | None = epsilon_setting(None)  # this or rho
    delta: float | None = delta_setting(None, shown="1e-6; pure methods: none")
    rho: float | None = setting(
        None,
        "The price itself (rho of zCDP) instead of --epsilon; see `shoal density year`.",
        least=1e-9,
        most=100,
        code="rho-range",
        key=True,
        later=True,
        remedy="Pass --rho 0.0005, say: `shoal density year` shows a week's share.",
    )
    method: str = setting(
        DEFAULT_METHOD,
        "Method of the release; the dry run compares those there are, also pure ones.",
        metavar="NAME",
        key=True,
        label="Method",
    )
    space: SpacePlan = setting(dict, "The zones and sites.")
    window: WindowPlan = setting(
        "The window and its slots.",
        remedy="Pass --start, --end and --time-zone, such as --start 2026-03-02 --end 2026-03-09 "
        "--time-zone Europe/Paris; the window is public and never read off the events.",
    )

    @rule("epsilon", "rho")
    def _check_price(self) -> None:
        if self.epsilon is None and self.rho is None:
            remedy = remedy_of(settings_of(DensityPlan)["epsilon"])
            raise PlanError("plan-incomplete", "the plan does not state its epsilon.", remedy)
        if self.epsilon is not None and self.rho is not None:
            raise PlanError(
                "plan-price", "a plan states its epsilon or its rho; got both.", "Leave one of them out."
            )

    @rule("method")
    def _check_method(self) -> None:
        method_named(self.method)

    @rule("delta", "method")
    def _set_delta(self) -> None:
        """The delta the plan is read at: None where the method is pure."""
        delta = self.delta
        if not method_named(self.method).pure:
            object.__setattr__(self, "delta", check_delta(DEFAULT_DELTA if delta is None else delta))
        elif delta:
            raise PlanError(
                "plan-delta",
                f"the {self.method} method is pure: it has no delta.",
                "Leave delta out of the plan or pass --delta 0, or use a method that has one: gaussian, say.",
            )
        else:
            object.__setattr__(self, "delta", None)

    @rule("unit", "source")
    def _check_unit(self) -> None:
        if self.unit != "user" and "user" not in self.source.columns:
            raise PlanError(
                "plan-unit",
                f"visits are bounded per value of one column; the column of {self.unit} ids is not stated.",
                f"Pass --column user=NAME with the column of {self.unit} ids, not the one of persons.",
            )

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
