"""The owner's own look at the rows before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.events.checks import RowReport, check_rows
from shoal.events.schema import EventSource
from shoal.flows.progress import Progress


def checked_rows(
    source: EventSource, tell: Progress, *, sites: Sequence[str] | None = None, with_flag: bool = False
) -> RowReport:
    """Every row read once; stops on bad ones, unless the source says that they are dropped."""
    tell.stage("check rows", 1.0)
    done = 0.0

    def advance(share: float) -> None:
        nonlocal done
        tell.advance(share - done)
        done = share

    report = check_rows(source, sites=sites, with_flag=with_flag, progress=advance)
    if source.on_bad_row == "stop":
        report.raise_if_bad()
    return report
