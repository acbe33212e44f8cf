"""What follows from the settings of a plan: the page's form, the table in the docs, plans of cities."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from types import NoneType
from typing import Any, get_origin

from shoal.setting import Described, alternatives, leaves, settings_of, wanted


def json_schema(plan: type, prefix: str = "") -> dict[str, Any]:
    """The JSON schema of a plan, with its tables inside."""
    known = settings_of(plan, prefix)
    properties = {
        name: json_schema(each.part, f"{each.path}.") if each.part else _schema_of(each)
        for name, each in known.items()
    }
    required = [name for name, each in known.items() if each.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def form_fields(plan: type) -> dict[str, Described]:
    """The settings that a form offers, which are those with a label, by the name of their field in it.

    >>> from shoal.kinds.plan import WindowPlan
    >>> [*form_fields(WindowPlan)]
    ['start', 'end', 'time_zone', 'slot_minutes']
    """
    return {each.flag.replace("-", "_"): each for each in leaves(plan) if each.setting.label}


def form_schema(plan: type) -> dict[str, Any]:
    """The JSON schema of each field of a form."""
    return {name: _schema_of(each) for name, each in form_fields(plan).items()}


_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}
_BOUNDS = {"minimum": "least", "maximum": "most", "exclusiveMinimum": "above", "exclusiveMaximum": "below"}


def _schema_of(each: Described) -> dict[str, Any]:
    described = each.setting
    schema: dict[str, Any] = {
        "title": each.label,
        "description": described.help,
        "unit": described.unit,
        "default": each.usual if each.default is not MISSING else None,
        "examples": [] if described.example is None else [described.example],
        **{name: bound for name, at in _BOUNDS.items() if (bound := getattr(described, at)) is not None},
    }
    kinds = [kind for kind in alternatives(each.hint) if kind is not NoneType]
    if each.choices:
        schema["enum"] = list(each.choices)
    if described.divides is not None:
        whole = described.divides
        schema["enum"] = [number for number in range(1, whole + 1) if whole % number == 0]
    simple = [_TYPES[kind] for kind in kinds if kind in _TYPES]
    if simple:
        schema["type"] = simple[0] if len(simple) == 1 else simple
    elif any(get_origin(kind) is tuple for kind in kinds):
        schema["type"] = "array"
    return schema


def table_of(plan: type) -> str:
    """The settings of a plan as a table in Markdown."""
    lines = ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    for each in leaves(plan):
        default = str(each.default).lower() if isinstance(each.default, bool) else each.default_text
        default = "required" if each.required else default
        meaning = each.setting.help.replace("|", "\\|")
        lines.append(f"| `{each.path}` | {wanted(each)} | {default} | {meaning} |")
    return "\n".join(lines)


def plan_text(plan: type, title: str, names: Iterable[str], values: Mapping[str, Any]) -> str:
    """A plan as TOML, with what each setting is; a setting without a value has its default or its example."""
    known = {each.path: each for each in leaves(plan)}
    lines, table = [title], ""
    for name in names:
        each = known[name]
        where, _, field = name.rpartition(".")
        if where != table:
            lines += ["", f"[{where}]"]
            table = where
        value = values.get(name, each.setting.example if each.usual is None else each.usual)
        lines.append(f"{field} = {toml_value(value)}  # {each.setting.help}")
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """A value of a plan; JSON writes texts, numbers and lists of them as TOML does, but for one character.

    >>> toml_value(("é\x7f", 2.5, True))
    '["é\\\\u007f", 2.5, true]'
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
