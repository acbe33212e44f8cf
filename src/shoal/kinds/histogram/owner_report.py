"""The owner's folder of a histogram: the report and its figures, all computed on raw trips."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.kinds.histogram.compare import (
    ComparedHistogram,
    OwnersQueries,
    compare_histograms,
    exact_answers,
    utility_of,
)
from shoal.kinds.histogram.report import HistogramReportInputs, write_histogram_report
from shoal.kinds.run import budget_of, disclose_report, keep_earlier, release_name, write_figures
from shoal.kinds.source import Progress
from shoal.privacy.ledger import Ledger
from shoal.release.folder import Committed
from shoal.release.histogram_files import read_histogram

if TYPE_CHECKING:
    from shoal.kinds.histogram.prepare import PreparedHistogram


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnersTrips:
    """What the owner may look at: the kept trips, all of them, the share of points beyond the box."""

    kept: OwnersQueries
    every: OwnersQueries
    outside_share: float | None


def owner_report(
    path: Path,
    prepared: PreparedHistogram,
    committed: Committed,
    trips: OwnersTrips,
    ledger: Ledger,
    *,
    compare: bool,
    progress: Progress,
) -> Path:
    """report.html and utility.json beside it; the ledger lists both as seen by the owner."""
    plan = prepared.plan
    disclose_report(path, prepared, committed, ledger)
    progress.stage("exact counts")
    published = read_histogram(committed.path)
    exact = exact_answers(trips.kept, trips.every, prepared.setting.given, plan.given_seed)
    utility = utility_of(exact, published.euler, published.about.get("violated_before"))
    compared: list[ComparedHistogram] = []
    if compare:
        compared = compare_histograms(prepared, trips.kept, exact, ledger, str(path), progress)
    progress.stage("draw the report")
    keep_earlier(path, committed)
    inputs = HistogramReportInputs(
        title=f"Histogram of trips: {plan.population}, {release_name(committed)}",
        published=published,
        exact_faces=exact.euler.faces,
        utility=utility,
        compared=compared,
        method=plan.method,
        budget=budget_of(ledger, prepared),
        outside_share=trips.outside_share,
    )
    write_histogram_report(path, inputs)
    figures = {
        "manifest_sha256": committed.manifest_sha256,
        **asdict(utility),
        "points_outside_share": trips.outside_share,
        "compared": [asdict(each) for each in compared],
    }
    write_figures(path, figures)
    return path
