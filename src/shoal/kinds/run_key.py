"""The key of a run, from public values alone, and the private digest of the source it reads.

The key decides whether a run returns a stored release or spends budget, and anyone who sees two publications
can tell which of the two happened. So it consists of the parsed plan, the population, the run id, public maps
by their content, and the source as the plan writes it: never the matched files, their sizes or contents.
The digest of the contents is for the owner alone: it shows that files changed under a known key.

A setting that is added later enters the key only where it differs from its default, so keys stay the same.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

from shoal.events.schema import EventSource, SourcePlan, written
from shoal.kinds.source import contents_of

VERSION = 2  # of keys; the first hashed the contents of the files
DEFAULTS = {"on_bad_row": "stop"}  # of settings of a source whose None means these


def run_name(kind: str, source: SourcePlan, *public: Any) -> str:
    """SHA-256 of what was asked."""
    return _sha256([f"shoal run {VERSION}", kind, source_asked(source), *public])


def earlier_name(*understood: Any) -> str:
    """The key that the first version gave to a run; only releases of that version are found under it."""
    return _sha256(list(understood))


def as_typed(plan: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Declared sizes with all their digits, as the first version took them."""
    return asked | {name: value for name, value in getattr(plan, "typed", {}).items() if name in asked}


def source_asked(source: SourcePlan) -> dict[str, Any]:
    """The source as the plan writes it: its name, or its paths, and every setting that is not a default.

    >>> source_asked(SourcePlan(paths=("./calls/*.parquet",), on_bad_row="stop", time_unit="s"))
    {'name': 'calls/*.parquet', 'time_unit': 's'}
    """
    asked: dict[str, Any] = {"name": source.source_name or written(source.paths)}
    for each in fields(SourcePlan):
        value = getattr(source, each.name)
        default = DEFAULTS.get(each.name)
        if each.name not in ("paths", "source_name") and value not in (None, {}, default):
            asked[each.name] = value
    return asked


def source_digest(source: EventSource) -> str:
    """Private: SHA-256 over the contents of the files, or of the rows of a table, in any order."""
    return _sha256(["source", contents_of(source)])


def _sha256(named: list[Any]) -> str:
    return hashlib.sha256(json.dumps(named, sort_keys=True, default=dict).encode()).hexdigest()
