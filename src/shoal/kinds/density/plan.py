"""The plan of a density release: every setting that shapes it, given by the owner, none read from the data.

Its methods by name: METHODS can be released. COMPARATORS have no guarantee for users, or a weaker one than
their epsilon suggests, and can only be compared. The tables themselves: shoal/mechanisms/methods.py,
shoal_baselines/methods.py.

>>> METHODS["laplace"].pure, "threshold" in METHODS
(True, False)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from math import isqrt

from shoal.baselines import lacks, missing
from shoal.errors import PlanError
from shoal.kinds.plan import DEFAULT_DELTA, PaidPlan, WindowPlan, delta_setting, epsilon_setting
from shoal.mechanisms import methods
from shoal.mechanisms.method import Method, Methods
from shoal.privacy.accounting import LARGEST_EPSILON, NANO, Budget, check_delta, nano
from shoal.privacy.guarantee import declared_size
from shoal.setting import Plan, remedy_of, rule, setting, settings_of
from shoal.space.plan import SpacePlan

METHODS = Methods("density", methods.DENSITY, "methods:METHODS")
COMPARATORS = Methods("density", {}, "methods:COMPARATORS")
DEFAULT_METHOD = "best"
# Meaning of each named spend, for the dry run, the manifest and the owner's report, as in docs/methods.md.
PAYS_FOR = {
    "users": "the number of users, unless declared; it selects the method's constants",
    "sizes": "the number of users by how many visits they have; it sets the clip of the number of visits",
    "visits": "the number of visits in the zones, to which all counts are scaled",
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


SHOWN_FIRST = ("best", "efpag", "gaussian", "laplace")
EMD_SLOTS = 12  # slots whose map distance is computed in each run: exact, and slow on many zones


@dataclass(frozen=True, kw_only=True)
class ComparePlan(Plan):
    """What is compared; `options` as they would be released with."""

    methods: tuple[str, ...] = setting(
        (),
        "Methods, repeatable.",
        flag="method",
        shown=f"{', '.join(SHOWN_FIRST)}, if installed",
        metavar="NAME,...",
        example=("best", "gaussian"),
    )
    epsilons: tuple[float, ...] = setting(
        (0.1, 0.3, 1.0),
        "Values of epsilon.",
        flag="epsilon",
        above=0,
        most=LARGEST_EPSILON,
        code="epsilon-range",
        metavar="NUMBER,...",
        example=(0.1, 1.0),
    )
    delta: float = setting(
        DEFAULT_DELTA,
        "Delta of methods that have one.",
        above=0,
        below=1,
        code="delta-range",
        example=DEFAULT_DELTA,
    )
    repetitions: int = setting(
        3, "Runs per method and epsilon.", (1, 1000), code="compare-repetitions", example=3
    )
    seed: int | None = setting(None, "Seed of the simulated city and the noise.", least=0, shown="1")
    options: MethodOptions = field(default_factory=MethodOptions)
    emd_slots: int = EMD_SLOTS

    @rule("methods")
    def _known_methods(self) -> None:
        named = tuple(dict.fromkeys(self.methods)) or tuple(name for name in SHOWN_FIRST if name in METHODS)
        for name in named:
            any_method(name)
        object.__setattr__(self, "methods", named)

    @rule("epsilons")
    def _some_epsilon(self) -> None:
        if not self.epsilons:
            raise PlanError("compare-epsilon", "a comparison needs at least one epsilon.", "Pass 0.1,0.3,1.")
        object.__setattr__(self, "epsilons", tuple(sorted(set(self.epsilons))))


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


# settings of the plan for a simulated city; None: the default, or what the card of the city says
CITY_PLAN = {
    **dict.fromkeys(("population", "epsilon", "delta", "method", "ell", "users", "out", "owner")),
    "source.paths": None,
    "space.zones": "zones.geojson",
    "space.sites": "sites.csv",
    **dict.fromkeys(("window.start", "window.end", "window.time_zone", "window.slot_minutes")),
}


@dataclass(frozen=True, kw_only=True)
class DensityPlan(MethodOptions, PaidPlan):
    """People per zone and slot: how much privacy, for whom, where, when, from what, to where."""

    epsilon: float | None = epsilon_setting(None)  # this or rho
    delta: float | None = delta_setting(None, shown="1e-6; pure methods: none")
    rho: float | None = setting(
        None,
        "The price itself (rho) instead of --epsilon; see `shoal density year`.",
        (1e-9, 100),
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
    visits_per_user: float | None = setting(
        None,
        "Visits per user and week, once per place and slot, for the expected error; declared, kept to two "
        "digits, never a figure from the data.",
        (0.1, 100_000),
        shown="13.59, as in simulated cities",
        example=900,
        remedy="Pass --visits-per-user 900 for a fleet of taxis, say.",
        label="Visits per person and week, about",
        last=1,
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

    @rule("visits_per_user")
    def _round_visits(self) -> None:
        if self.visits_per_user is not None:
            object.__setattr__(self, "visits_per_user", float(f"{self.visits_per_user:.2g}"))

    def options(self) -> MethodOptions:
        """Options of the method that the plan declares."""
        return MethodOptions(**{each.name: getattr(self, each.name) for each in fields(MethodOptions)})

    def budget(self, method: Method | None = None) -> Budget:
        """Budget of the release; another method gets the same epsilon or rho."""
        pure = (method or method_named(self.method)).pure
        if self.rho is None:
            return Budget.of(self.epsilon or 0.0, None if pure else self.delta or DEFAULT_DELTA, self.law)
        if not pure:
            return Budget(nano(self.rho), pure=False, law=self.law)
        # epsilon-DP costs epsilon^2 / 2 in rho: the largest whole epsilon within it
        return Budget(isqrt(2 * nano(self.rho) * NANO), pure=True)
