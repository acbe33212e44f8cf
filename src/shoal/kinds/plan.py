"""What plans of every kind share: reading TOML, merging flags, checks of types and ranges, windows."""

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
from shoal.events.schema import elsewhere, written
from shoal.privacy.ledger.names import population_name
from shoal.privacy.ledger.state import is_sha256

DEFAULT_DELTA = 1e-6
REMEDIES = {
    "space": "Pass --zones FILE, or --box W,S,E,N with --cell-m METRES or --h3 RESOLUTION.",
    "source": "Name the files of events, as arguments or under [source] paths in the plan.",
    "window": "Pass --start, --end and --time-zone, such as --start 2026-03-02 --end 2026-03-09 "
    "--time-zone Europe/Paris; the window is public and never read off the events.",
    "population": "Pass --population NAME; `shoal ledger create NAME` makes one.",
    "epsilon": "Pass --epsilon 1, say: smaller is more private, larger is more accurate.",
}


@dataclass(frozen=True, kw_only=True)
class WindowPlan:
    """The window and its slots, on the local clock."""

    start: str
    end: str
    time_zone: str
    slot_minutes: int = 60


def read_plan(path: str | Path) -> dict[str, Any]:
    """Settings from a TOML file; file names in it are relative to it."""
    path, most_bytes = Path(path), 1 << 16
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise PlanError("plan-file", f"the plan {path} is not a file.", "Name a TOML file.")
        with open(path, "rb") as file:
            content = file.read(most_bytes + 1)
        # tomllib takes quadratic time and memory for a key of many parts, all of them on one line
        if len(content) > most_bytes or max(line.count(b".") for line in content.split(b"\n")) > 500:
            message = f"a plan has at most {most_bytes} bytes, and 500 dots in a line; {path} has more."
            raise PlanError("plan-file", message, "Name many files of events by a folder or a pattern.")
        settings = tomllib.loads(content.decode())
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError("plan-file", f"the plan {path} cannot be read.", "Check the path.") from error
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise PlanError("plan-file", f"the plan {path} is not valid TOML: {str(error)[:200]}.") from error
    here = path.parent
    source = part_in(settings, "source")
    if "paths" in source:
        listed = [source["paths"]] if isinstance(source["paths"], str) else source["paths"]
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise PlanError("plan-type", "source.paths must be a file name or a list of them.")
        source.setdefault("source_name", written(listed))
        source["paths"] = tuple(name if elsewhere(name) else os.path.normpath(here / name) for name in listed)
    files = ((part_in(settings, "space"), ("zones", "sites")), (settings, ("out", "owner", "given_file")))
    for part, names in files:
        for name in names:
            if isinstance(part.get(name), str):
                part[name] = os.path.normpath(here / part[name])
    if isinstance(settings.get("compose_with"), list):  # folders, or hashes of manifests
        settings["compose_with"] = [
            name if is_sha256(name) else os.path.normpath(here / str(name))
            for name in settings["compose_with"]
        ]
    return settings


def part_in(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = settings.get(name, {})
    if not isinstance(part, dict):
        raise PlanError("plan-type", f"[{name}] must be a table of settings.")
    return part


def merge(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags over a plan's settings, part by part; flags that were not given (None, empty) change nothing."""
    merged = dict(settings)
    for price, other in (("rho", "epsilon"), ("epsilon", "rho")):
        if flags.get(price) is not None:
            merged.pop(other, None)
    for name, value in flags.items():
        if isinstance(value, Mapping):
            if not isinstance(merged.get(name, {}), Mapping):
                raise PlanError("plan-type", f"[{name}] must be a table of settings.")
            base = merged.get(name, {})
            if name == "source" and value.get(
                "paths"
            ):  # the name in the plan is that of the plan's own paths
                base = {key: kept for key, kept in base.items() if key != "source_name"}
            part = merge(base, value)
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
            "plan-incomplete", f"the plan does not say its {name} ({', '.join(missing)}).", REMEDIES[name]
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
            raise PlanError("plan-type", f"{prefix}{name} has the wrong type; got {_shown(value)}.")
        _check_value(f"{prefix}{name}", value)


def _shown(value: Any) -> str:
    """A value from a plan, short; whole numbers of thousands of digits have no text."""
    try:
        return repr(value)[:80]
    except ValueError:
        return "a number of thousands of digits"


def _check_value(name: str, value: Any) -> None:
    """Numbers that a double can hold, text that can be written, names that a file can have."""
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, int) and abs(each) >> 1000:
            raise PlanError("plan-range", f"{name} has more digits than a number may have.")
        if isinstance(each, str):
            if not each.isascii() and any("\ud800" <= letter <= "\udfff" for letter in each):
                raise PlanError("plan-text", f"{name} is not text in UTF-8.", "Rename it.")
            check_file_name(name, each)


def check_file_name(name: str, value: str) -> None:
    """No NUL, and where it names files, no part above 200 bytes: we append a few letters to some."""
    files = name.rpartition(".")[2] in ("out", "owner", "paths", "zones", "sites", "given_file")
    longest = max((len(os.fsencode(part)) for part in value.split("/")), default=0) if files else 0
    if "\0" in value or longest > 200 or len(value) > 4000:
        raise PlanError(
            "plan-text",
            f"{name} is too long, or has a NUL character in it.",
            "Names of files and folders may have 200 bytes, paths 4,000.",
        )


def _fits(value: Any, hint: Any) -> bool:
    """Whether a setting has the type its field declares; parts of a plan are looked at on their own."""
    if isinstance(hint, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        kinds = [kind for kind in get_args(hint) if kind is not ...]
        ending = get_args(hint)[-1:] == (...,)
        if not isinstance(value, list | tuple) or (not ending and len(value) != len(kinds)):
            return False
        return all(_fits(each, kinds[0] if ending else kinds[k]) for k, each in enumerate(value))
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(_fits(each, get_args(hint)[1]) for each in value.values())
    if hint in (str, bool, NoneType):
        return isinstance(value, hint)
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return True


def check_supersedes(manifest_sha256: str) -> None:
    """The hash of a manifest, or nothing."""
    if manifest_sha256 and not is_sha256(manifest_sha256):
        raise PlanError(
            "plan-supersedes",
            f"a release is named by the SHA-256 hash of its manifest; got {manifest_sha256!r:.70}.",
            "`shoal ledger show NAME --json` lists the hashes of a population's releases.",
        )


def check_common(plan: Any) -> None:
    """What plans of every kind state: licence, population, what is replaced, folders, and a seed if any."""
    if not plan.licence.isprintable():
        raise PlanError(
            "plan-licence", "the licence must be one line of plain text.", "Shorten it to a name or a link."
        )
    check_supersedes(plan.supersedes)
    object.__setattr__(plan, "population", population_name(plan.population))
    if not plan.population:
        raise PlanError("plan-population", "the plan names no population.", "Pass --population NAME.")
    if getattr(plan, "seed", None) is not None:
        check_whole("seed", plan.seed, 0, 2**63 - 1, "Pass --seed 1, say; it is for tests only.")
    owner, out = os.path.realpath(plan.owner), os.path.realpath(plan.out)
    if os.path.commonpath([owner, out]) == out:
        raise PlanError(
            "plan-folders",
            "the owner's folder lies inside the release; raw figures and keys must stay out of it.",
            "Pass another --owner.",
        )


def check_whole(name: str, value: Any, least: int, most: int, remedy: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PlanError(
            "plan-range", f"{name} must be a whole number from {least} to {most}; got {value}.", remedy
        )


@dataclass(frozen=True, kw_only=True)
class StretchPlan:
    """The stretch of time that is released, on the local clock; the end is not part of it."""

    start: str
    end: str
    time_zone: str
