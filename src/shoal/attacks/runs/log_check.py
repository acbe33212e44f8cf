"""A query log held against the owner's events: are its reconstructed counts right, and who is left out?

The survey's last step of query auditing (section 3.1.1): equipped with the data, compare it with what the
attack found. The comparison looks at the data, so whether to answer must not be decided by it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from shoal.attacks.runs.reconstruct import LogFindings, QueryLog
from shoal.attacks.runs.source import AttackSource
from shoal.errors import SourceError


@dataclass(frozen=True, kw_only=True)
class LogCheck:
    """How right the reconstruction is; None where the log has no answers."""

    share_right: float | None  # of cells whose rounded count is the true one
    share_right_of_visited: float | None  # of cells with a visit
    mean_error: float | None  # people per cell


def check_findings(source: AttackSource, found: LogFindings) -> LogCheck:
    """Reconstructed counts against the true ones."""
    if found.reconstruction is None:
        return LogCheck(share_right=None, share_right_of_visited=None, mean_error=None)
    number = _zone_numbers(source)
    counts = source.visits.counts()
    true = []
    for zone, slot in found.cells:
        if zone not in number or slot >= source.visits.slots:
            raise SourceError(
                "log-cell",
                f'the log asks for zone "{zone}" in slot {slot}, which the plan does not have.',
                "Use the ids of the plan's zones, and slots counted from 0 at the start of its window.",
            )
        true.append(counts[number[zone], slot])
    truth, rounded = np.array(true), found.reconstruction.rounded
    right, visited = rounded == truth, truth > 0
    return LogCheck(
        share_right=float(right.mean()),
        share_right_of_visited=float(right[visited].mean()) if visited.any() else None,
        mean_error=float(np.abs(found.reconstruction.fitted - truth).mean()),
    )


def people_seen_at(source: AttackSource, log: QueryLog) -> dict[str, Set[int]]:
    """For each zone that a query leaves out: who was seen there in the window."""
    number = _zone_numbers(source)
    seen: dict[str, Set[int]] = {}
    for name in {name for query in log.queries for name in query.leaves_out}:
        if name not in number:
            raise SourceError(
                "log-except",
                f'the log leaves out those of "{name}", which is no zone of the plan.',
                "Name zones in except, or attack the log without a plan.",
            )
        there = source.visits.place == number[name]
        seen[name] = frozenset(np.unique(source.visits.user[there]).tolist())
    return seen


def _zone_numbers(source: AttackSource) -> dict[str, int]:
    return {str(zone): number for number, zone in enumerate(source.geography.zones.ids)}
