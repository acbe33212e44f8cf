"""Every mechanism by its name, with what the audit needs to know about it: of shoal and of shoal-baselines.

Three checks walk this dict: replay, lower bounds and planted bugs (shoal/auditing). A class in this folder
that has a `loss()` and is missing here fails `tests/contract/test_registry.py`. A mechanism that a release is
made by is built as the method builds it (methods.py).

>>> entry = REGISTRY["density-laplace"]
>>> entry.build(1.0, None, entry.tight).loss().pure_epsilon_nano
1000000000
>>> entry.worst                                          # one visit: slot 0 at place 0
((0, 0),)
"""

from __future__ import annotations

from shoal.baselines import part
from shoal.errors import PlanError
from shoal.mechanisms.method import Entry
from shoal.mechanisms.methods import METHODS, PARTS

__all__ = ["REGISTRY", "Entry", "entry_of", "taking"]


def _entries() -> dict[str, Entry]:
    tables = [*METHODS.values(), *part("methods:METHODS", {}).values()]
    released = (entry for table in tables for method in table.values() for entry in method.cases.values())
    return {entry.name: entry for entry in (*PARTS, *part("methods:PARTS", ()), *released)}


REGISTRY: dict[str, Entry] = _entries()


def entry_of(name: str) -> Entry:
    """The entry called `name`."""
    if name not in REGISTRY:
        known = ", ".join(sorted(REGISTRY))
        raise PlanError("unknown-mechanism", f'no mechanism is called "{name}".', f"Known: {known}.")
    return REGISTRY[name]


def taking(*stages: str) -> dict[str, Entry]:
    """The entries of mechanisms that are called with one of these stages."""
    return {name: entry for name, entry in REGISTRY.items() if entry.takes in stages}
