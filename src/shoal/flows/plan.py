"""The plan of a density release: all that shapes it, given by the owner, none of it read off the data."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from shoal.errors import PlanError
from shoal.events.schema import SourcePlan
from shoal.privacy.accounting import check_delta, check_epsilon
from shoal.privacy.unit import Unit
from shoal.space.geography import SpacePlan

METHODS = ("gaussian", "laplace")
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
    epsilon: float
    delta: float | None = None  # None: the method's default; Laplace is pure and takes none
    method: str = "gaussian"
    ell: int = 30  # visits kept per user
    unit: str = "user"
    decimals: int = 1
    out: str = "release"
    owner: str = "owner"
    run_id: str = ""  # another id makes another release of the same plan, and spends again
    seed: int | None = None  # tests and experiments only; not publishable
    licence: str = ""

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        Unit(self.unit)
        if self.unit != "user" and "user" not in self.source.columns:
            raise PlanError(
                "plan-unit",
                f"visits are bounded per value of one column; the column of {self.unit} ids is not said.",
                f"Pass --column user=NAME with the column of {self.unit} ids, not the one of persons.",
            )
        if self.method not in METHODS:
            raise PlanError(
                "plan-method", f"there is no method {self.method!r}.", f"Use {' or '.join(METHODS)}."
            )
        if self.method == "laplace" and self.delta:
            raise PlanError(
                "plan-delta",
                "the Laplace method is pure: it has no delta.",
                "Leave --delta out, or use gaussian.",
            )
        if self.method == "gaussian":
            object.__setattr__(
                self, "delta", check_delta(DEFAULT_DELTA if self.delta is None else self.delta)
            )
        else:
            object.__setattr__(self, "delta", None)
        _check_whole("ell", self.ell, 1, 1_000_000, "Pass --ell 30, say: the visits kept per user.")
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

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> DensityPlan:
        """A plan from nested settings, as a TOML file or flags give them; unknown names are refused."""
        values = dict(settings)
        _check_settings(cls, values, "")
        for name in ("source", "window", "population", "epsilon"):
            if name not in values:
                raise PlanError("plan-incomplete", f"the plan does not say its {name}.", _HOW[name])
        values["source"] = _part(SourcePlan, values["source"], "source")
        values["window"] = _part(WindowPlan, values["window"], "window")
        values["space"] = _part(SpacePlan, values.get("space", {}), "space")
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
        source["paths"] = tuple(os.path.normpath(here / name) for name in listed)
    for part, names in ((settings.get("space", {}), ("zones", "sites")), (settings, ("out", "owner"))):
        for name in names:
            if isinstance(part.get(name), str):
                part[name] = os.path.normpath(here / part[name])
    return settings


def merge(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags over a plan's settings, part by part; flags that were not given (None, empty) change nothing."""
    merged = dict(settings)
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


def _part(kind: type, values: Any, name: str) -> Any:
    if not isinstance(values, Mapping):
        raise PlanError("plan-type", f"[{name}] must be a table of settings.")
    _check_settings(kind, values, f"{name}.")
    try:
        return kind(**values)
    except TypeError:
        missing = [f.name for f in fields(kind) if f.name not in values and f.default is f.default_factory]
        raise PlanError(
            "plan-incomplete", f"the plan does not say its {name} ({', '.join(missing)}).", _HOW[name]
        ) from None


def _check_settings(kind: type, values: Mapping[str, Any], prefix: str) -> None:
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
