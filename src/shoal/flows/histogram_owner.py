"""The owner's folder of a histogram: the report and its figures, all computed on raw trips."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.flows.progress import Progress
from shoal.privacy.ledger import Ledger
from shoal.release.folder import Committed
from shoal.stages.trips import GridTrips

if TYPE_CHECKING:
    from shoal.flows.histogram_prepare import PreparedHistogram


def owner_report(
    path: Path,
    prepared: PreparedHistogram,
    made: Committed,
    kept: GridTrips,
    every: GridTrips,
    ledger: Ledger,
    *,
    compare: bool,
    progress: Progress,
) -> Path:
    return path
