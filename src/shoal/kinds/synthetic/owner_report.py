"""The owner's folder of synthetic trips: the report and its figures, all computed on real trips."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.attacks.models.known_trips import KnownTrips
from shoal.attacks.models.nearest_record import OwnRecords, own_records
from shoal.kinds.run import budget_of, disclose_report, keep_earlier, release_name, write_figures
from shoal.kinds.source import Progress
from shoal.kinds.synthetic.report import SyntheticReportInputs, write_synthetic_report
from shoal.metrics.synthetic import synthetic_utility
from shoal.privacy.ledger import Ledger
from shoal.release.folder import Committed
from shoal.space.cell_paths import CellPaths
from shoal.stages.trips import ExactPaths

if TYPE_CHECKING:
    from shoal.kinds.commute.prepare import PreparedCommute
    from shoal.kinds.synthetic.prepare import PreparedSynthetic


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnersPaths:
    """What the owner may look at: real trips, the published ones, and two shares of the points."""

    real: ExactPaths
    synthetic: CellPaths
    outside_share: float | None  # beyond the box
    slow_share: float | None  # of steps between two points, longer than the step of time
    of_all: float = 1.0  # the share of the units whose trips are looked at here


def owner_report(
    path: Path,
    prepared: PreparedSynthetic,
    committed: Committed,
    paths: OwnersPaths,
    ledger: Ledger,
    *,
    progress: Progress,
) -> Path:
    """report.html and utility.json beside it; the ledger lists both as seen by the owner."""
    disclose_report(path, prepared, committed, ledger, "real figures")
    progress.stage("compare with real")
    figures = asdict(synthetic_utility(paths.real, paths.synthetic))
    progress.stage("nearest trips")
    near = own_records(paths.synthetic, KnownTrips.of(paths.real, paths.real.unit))
    counts = {"Synthetic trips": paths.synthetic.count, "Real trips": paths.real.count}
    more = {
        "real_trips": paths.real.count,
        "share_of_real_units_looked_at": paths.of_all,
        "synthetic_trips": paths.synthetic.count,
        "points_outside_share": paths.outside_share,
        "steps_longer_than_step_s_share": paths.slow_share,
        "nearest": nearest_figures(near),
    }
    progress.stage("draw the report")
    keep_earlier(path, committed)
    inputs = SyntheticReportInputs(
        title=f"Synthetic trips: {prepared.plan.population}, {release_name(committed)}",
        manifest=manifest_of(committed),
        counts=counts,
        synthetic=paths.synthetic,
        real=paths.real,
        figures=figures,
        nearest=near,
        budget=budget_of(ledger, prepared),
        outside_share=paths.outside_share,
        slow_share=paths.slow_share,
    )
    write_synthetic_report(path, inputs)
    write_figures(path, {"manifest_sha256": committed.manifest_sha256, **more, **figures})
    return path


def nearest_figures(near: OwnRecords) -> dict[str, float | int]:
    """Synthetic trips to real ones, and real ones to those of others, for utility.json."""
    return {
        "trips_asked": near.synthetic.distance_m.size,
        **{
            f"{name}_{side}": getattr(getattr(near, side), name)
            for name in ("copies", "median_m", "ratio")
            for side in ("synthetic", "real")
        },
    }


def events_report(
    path: Path,
    prepared: PreparedCommute,
    committed: Committed,
    figures: Mapping[str, float],
    ledger: Ledger,
) -> Path:
    """The same of synthetic site events."""
    disclose_report(path, prepared, committed, ledger, "real figures")
    keep_earlier(path, committed)
    manifest = manifest_of(committed)
    inputs = SyntheticReportInputs(
        title=f"Synthetic site events: {prepared.plan.population}, {release_name(committed)}",
        manifest=manifest,
        counts={"Synthetic people": manifest["input"]["synthetic_people"]},
        figures=figures,
        budget=budget_of(ledger, prepared),
    )
    write_synthetic_report(path, inputs)
    write_figures(path, {"manifest_sha256": committed.manifest_sha256, **figures})
    return path


def manifest_of(committed: Committed) -> dict:
    return json.loads((committed.path / "manifest.json").read_text("utf-8"))
