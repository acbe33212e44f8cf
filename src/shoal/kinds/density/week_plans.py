"""One plan file per release of a year: the base plan with its share of rho, its window and its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.errors import PlanError
from shoal.kinds.density.methods import method_named
from shoal.kinds.density.plan import DEFAULT_METHOD, DensityPlan
from shoal.privacy.accounting import NANO
from shoal.release.staging import unwritable

FIRST_LINE = "# One release of a year: shoal density run --plan {name}\n"


def week_settings(
    base: Mapping[str, Any], *, rho_nano: int, delta: float, window: tuple[str, str]
) -> dict[str, Any]:
    """The base plan with a share of rho instead of its epsilon, and a window and a folder of its own."""
    settings = {name: value for name, value in base.items() if name not in ("epsilon", "delta")}
    settings["rho"] = rho_nano / NANO
    if not method_named(base.get("method", DEFAULT_METHOD)).pure:
        settings["delta"] = delta  # what the release is read at; the price is rho
    settings["window"] = {**base.get("window", {}), "start": window[0], "end": window[1]}
    settings["out"] = f"{base.get('out', 'release')}-{window[0]}"
    return settings


def write_week_plans(folder: Path, settings: list[dict[str, Any]]) -> list[Path]:
    """week-01.toml and so on; every plan is checked before the first is written."""
    for each in settings:
        DensityPlan.from_settings(each)
    digits = max(2, len(str(len(settings))))
    paths = [folder / f"week-{i + 1:0{digits}d}.toml" for i in range(len(settings))]
    taken = next((path for path in paths if path.exists()), None)
    if taken is not None:
        raise PlanError("plan-exists", f"{taken} exists; plans are not overwritten.", "Name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, each in zip(paths, settings, strict=True):
            text = FIRST_LINE.format(name=path.name) + to_toml(_relative(each, folder))
            path.write_text(text, "utf-8")
    except OSError as error:
        raise unwritable(folder, error) from error
    return paths


def to_toml(settings: Mapping[str, Any]) -> str:
    """Settings of a plan as TOML: plain values first, then tables.

    >>> print(to_toml({"a": 1, "b": {"c": ("x", 2.5), "d": {"e": True}}}), end="")
    a = 1
    <BLANKLINE>
    [b]
    c = ["x", 2.5]
    <BLANKLINE>
    [b.d]
    e = true
    """
    return "".join(_lines(settings, ""))


def _lines(settings: Mapping[str, Any], name: str):
    plain = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    if name and plain:
        yield f"\n[{name}]\n"
    for key, value in plain.items():
        if value is not None:
            yield f"{_key(key)} = {_value(value)}\n"
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{name}.{_key(key)}" if name else _key(key))


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'


def _relative(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Paths as seen from the folder the plan lies in."""

    def seen(path: str) -> str:
        return path if os.path.isabs(path) else os.path.relpath(path, folder)

    made = {**settings, "source": dict(settings["source"]), "space": dict(settings.get("space", {}))}
    made["source"]["paths"] = [seen(path) for path in made["source"]["paths"]]
    for part, names in ((made["space"], ("zones", "sites")), (made, ("out", "owner"))):
        for name in names:
            if isinstance(part.get(name), str):
                part[name] = seen(part[name])
    return made
