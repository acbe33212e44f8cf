"""The key of a run: what names a release, so that the same plan finds it again and pays once."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from shoal.events.schema import SourcePlan, written
from shoal.setting import settings_of

VERSION = 2  # of keys; the first hashed the contents of the files


def run_name(kind: str, source: SourcePlan, *public: Any) -> str:
    """SHA-256 of the values that identify a run."""
    return digest_of([f"shoal run {VERSION}", kind, source_parts(source), *public])


def earlier_name(*understood: Any) -> str:
    """The key that the first version gave to a run; only releases of that version are found under it."""
    return digest_of(list(understood))


def key_of(plan: Any, unread: str = "") -> dict[str, Any]:
    """The settings of a plan that name its run, under names that survive renaming.

    `unread`: without the settings that only other methods read.
    """
    values = {each: getattr(plan, name) for name, each in settings_of(type(plan)).items() if each.setting.key}
    return {
        each.name if each.setting.key is True else str(each.setting.key): value
        for each, value in values.items()
        if not (each.setting.later and value == each.default) and each.setting.only != (unread or None)
    }


def as_typed(plan: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Declared sizes with all their digits, as the first version took them."""
    return settings | {name: value for name, value in getattr(plan, "typed", {}).items() if name in settings}


def source_parts(source: SourcePlan) -> dict[str, Any]:
    """The source as the plan writes it: its name, or its paths, and every setting that is not a default.

    >>> source_parts(SourcePlan(paths=("./calls/*.parquet",), on_bad_row="stop", time_unit="s"))
    {'name': 'calls/*.parquet', 'time_unit': 's'}
    """
    entered: dict[str, Any] = {"name": source.source_name or written(source.paths)}
    for each in settings_of(SourcePlan).values():
        value = getattr(source, each.name)
        if each.name not in ("paths", "source_name") and value not in (None, {}, each.usual):
            entered[each.name] = value
    return entered


def digest_of(named: list[Any]) -> str:
    return hashlib.sha256(json.dumps(named, sort_keys=True, default=dict).encode()).hexdigest()
