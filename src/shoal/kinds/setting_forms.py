"""What follows from the settings of a plan: the schema of the page's form, the table in the docs."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_origin

from shoal.setting import Described, alternatives, leaves, settings_of, wanted


def json_schema(plan: type, prefix: str = "") -> dict[str, Any]:
    """The JSON schema of a plan, tables inside; `flag` is the name of a setting in a form."""
    known = settings_of(plan, prefix)
    properties = {
        name: json_schema(each.part, f"{each.path}.") if each.part else _schema_of(each)
        for name, each in known.items()
    }
    required = [name for name, each in known.items() if each.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}
_BOUNDS = {"minimum": "least", "maximum": "most", "exclusiveMinimum": "above", "exclusiveMaximum": "below"}


def _schema_of(each: Described) -> dict[str, Any]:
    described = each.setting
    schema: dict[str, Any] = {
        "title": each.label,
        "description": described.help,
        "flag": each.flag,
        "unit": described.unit,
        "default": each.usual,
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
        default = "required" if each.required else each.default_text or ""
        meaning = each.setting.help.replace("|", "\\|")
        lines.append(f"| `{each.path}` | {wanted(each)} | {default} | {meaning} |")
    return "\n".join(lines)
