"""The plan of a density release: all that shapes it, given by the owner, none of it read off the data."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isqrt
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from shoal.errors import PlanError
from shoal.events.schema import SourcePlan, elsewhere
from shoal.flows.methods import Method, MethodOptions, method_named
from shoal.privacy.accounting import NANO, check_delta, check_epsilon, nano
from shoal.privacy.budget import Budget
from shoal.privacy.unit import Unit
from shoal.space.geography import SpacePlan

DEFAULT_METHOD = "best"
DEFAULT_DELTA = 1e-6


@dataclass(frozen=True, kw_only=True)
class WindowPlan:
    """The window and its slots, on the local clock."""

    start: str
    end: str
    time_zone: str
    slot_minutes: int = 60


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
    users: int | None = None  # order of magnitude of the population, as the owner would tell anyone
    unit: str = "user"
    decimals: int = 1
    out: str = "release"
    owner: str = "owner"
    run_id: str = ""  # another id makes another release of the same plan, and spends again
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
        _check_whole("ell", self.ell, 1, 1_000_000, "Pass --ell 30, say: the visits kept per user.")
        _check_whole("cap", self.cap, 1, 1_000_000, "Pass --cap 250, say: visits per user in the total.")
        if self.users is not None:
            _check_whole("users", self.users, 1, 10**11, "Pass --users 200000, say: an order of magnitude.")
        _check_whole("decimals", self.decimals, 0, 6, "Pass --decimals 1, say.")
        if not self.licence.isprintable():
            raise PlanError(
                "plan-licence",
                "the licence must be one line of plain text.",
                "Shorten it to a name or a link.",
            )
        owner, out = os.path.realpath(self.owner), os.path.realpath(self.out)
        if os.path.commonpath([owner, out]) == out:
            raise PlanError(
                "plan-folders",
                "the owner's folder lies inside the release; raw figures must stay out of it.",
                "Pass another --owner.",
            )
        if not self.population.strip():
            raise PlanError("plan-population", "the plan names no population.", "Pass --population NAME.")

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
                raise PlanError("plan-incomplete", f"the plan does not say its {name}.", _HOW[name])
        if "epsilon" not in values and "rho" not in values:
            raise PlanError("plan-incomplete", "the plan does not say its epsilon.", _HOW["epsilon"])
        values["source"] = part_of(SourcePlan, values["source"], "source")
        values["window"] = part_of(WindowPlan, values["window"], "window")
        values["space"] = part_of(SpacePlan, values.get("space", {}), "space")
        try:
            return cls(**values)
        except TypeError as error:
            raise PlanError("plan-type", f"a value of the plan has the wrong type ({error}).") from error


def read_plan(path: str | Path) -> dict[str, Any]:
    """Settings from a TOML file; file names in it are relative to it."""
    path = Path(path)
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError("plan-file", f"the plan {path} cannot be read.", "Check the path.") from error
    except tomllib.TOMLDecodeError as error:
        raise PlanError("plan-file", f"the plan {path} is not valid TOML: {error}.") from error
    here = path.parent
    source = settings.get("source", {})
    if "paths" in source:
        listed = [source["paths"]] if isinstance(source["paths"], str) else source["paths"]
        source["paths"] = tuple(name if elsewhere(name) else os.path.normpath(here / name) for name in listed)
    files = ((settings.get("space", {}), ("zones", "sites")), (settings, ("out", "owner", "given_file")))
    for part, names in files:
        for name in names:
            if isinstance(part.get(name), str):
                part[name] = os.path.normpath(here / part[name])
    return settings


def merge(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags over a plan's settings, part by part; flags that were not given (None, empty) change nothing."""
    merged = dict(settings)
    for price, other in (("rho", "epsilon"), ("epsilon", "rho")):
        if flags.get(price) is not None:
            merged.pop(other, None)
    for name, value in flags.items():
        if isinstance(value, Mapping):
            if not isinstance(merged.get(name, {}), Mapping):
                raise PlanError("plan-type", f"[{name}] must be a table of settings; got {merged[name]!r}.")
            part = merge(merged.get(name, {}), value)
            if part:
                merged[name] = part
        elif value is not None and value != ():
            merged[name] = value
    return merged


def part_of(kind: type, values: Any, name: str) -> Any:
    """One part of a plan, such as its window, from its settings."""
    if not isinstance(values, Mapping):
        raise PlanError("plan-type", f"[{name}] must be a table of settings.")
    check_settings(kind, values, f"{name}.")
    try:
        return kind(**values)
    except TypeError:
        missing = [f.name for f in fields(kind) if f.name not in values and f.default is f.default_factory]
        raise PlanError(
            "plan-incomplete", f"the plan does not say its {name} ({', '.join(missing)}).", _HOW[name]
        ) from None


def check_settings(kind: type, values: Mapping[str, Any], prefix: str) -> None:
    known = [f.name for f in fields(kind)]
    hints = get_type_hints(kind)
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {prefix}{near[0]}?" if near else f"Known: {', '.join(known)}."
            raise PlanError("plan-name", f"the plan has no setting {prefix}{name}.", hint)
        if not _fits(value, hints[name]):
            raise PlanError("plan-type", f"{prefix}{name} has the wrong type; got {value!r}.")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a setting has the type its field declares; parts of a plan are looked at on their own."""
    if isinstance(hint, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, list | tuple)
    if hint in (str, bool, NoneType):
        return isinstance(value, hint)
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return True


def check_rho(rho: float | None) -> int:
    """A price in 1e-9; above 100 it protects nobody."""
    if isinstance(rho, bool) or not isinstance(rho, int | float) or not 1e-9 <= rho <= 100:
        raise PlanError(
            "rho-range",
            f"rho must be a number from 1e-9 to 100; got {rho}.",
            "Pass --rho 0.0005, say: `shoal density year` shows a week's share.",
        )
    return nano(rho)


def _check_whole(name: str, value: Any, least: int, most: int, remedy: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PlanError(
            "plan-range", f"{name} must be a whole number from {least} to {most}; got {value}.", remedy
        )


_HOW = {
    "space": "Pass --zones FILE, or --box W,S,E,N with --cell-m METRES or --h3 RESOLUTION.",
    "source": "Name the files of events, as arguments or under [source] paths in the plan.",
    "window": "Pass --start, --end and --time-zone, such as --start 2026-03-02 --end 2026-03-09 "
    "--time-zone Europe/Paris; the window is public and never read off the events.",
    "population": "Pass --population NAME; `shoal ledger create NAME` makes one.",
    "epsilon": "Pass --epsilon 1, say: smaller is more private, larger is more accurate.",
}
