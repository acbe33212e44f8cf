"""The kinds of releases that the end-to-end replay drives: how each is prepared and run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from shoal.auditing.end_to_end.driver import Adapter
from shoal.kinds import KINDS
from shoal.kinds.query.ask import Ask
from shoal.kinds.query.prepare import QueryPlan, prepare_query
from shoal.kinds.run import run


def _prepare(kind: str, settings: Mapping[str, Any]) -> Any:
    return KINDS[kind].prepare(KINDS[kind].plan.from_settings(dict(settings)))


def _query(settings: Mapping[str, Any]) -> Any:
    density = dict(settings)
    asks = tuple(Ask.of(each, number) for number, each in enumerate(density.pop("asks"), 1))
    flags = {name: density.pop(name) for name in ("epsilon", "out", "updates")}
    flags["mechanism"] = density.pop("method")
    return prepare_query(QueryPlan.from_settings(density, flags, asks))


ADAPTERS = {
    kind: Adapter(_query if kind == "query" else partial(_prepare, kind), run, KINDS[kind].build)
    for kind in KINDS
    if KINDS[kind].is_private
}
