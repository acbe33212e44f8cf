"""The owner's folder of a density: the report and the utility figures, all computed on raw data."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kinds.density.report import DensityReportInputs, write_density_report
from shoal.kinds.run import budget_of, disclose_report, exact_file, keep_earlier, write_figures
from shoal.metrics.density import density_utility
from shoal.privacy.ledger import Ledger
from shoal.release.density_files import read_density
from shoal.release.folder import Committed
from shoal.release.staging import private_file

if TYPE_CHECKING:
    from shoal.kinds.density.prepare import PreparedDensity


def write_owner_report(
    path: Path, prepared: PreparedDensity, committed: Committed, exact: np.ndarray, ledger: Ledger
) -> Path:
    """report.html, utility.json and the raw counts beside it; the ledger lists that the owner saw them."""
    zones, clock = prepared.geography.zones, prepared.clock
    estimate = read_density(committed.path, zones.count, clock.slots)
    utility = density_utility(
        exact,
        estimate.people,
        estimate.low,
        estimate.high,
        hour_of_day=np.floor(clock.hours_local).astype(int),
        zone_xy_m=prepared.setting.zone_xy_m,
    )
    inputs = DensityReportInputs(
        manifest=json.loads((committed.path / "manifest.json").read_text("utf-8")),
        zones=zones,
        slot_starts=clock.starts_local(),
        exact=exact,
        released=estimate.people,
        low=estimate.low,
        high=estimate.high,
        budget=budget_of(ledger, prepared),
        title=f"Density of {prepared.plan.population}",
        utility=utility,
    )
    disclose_report(path, prepared, committed, ledger)
    keep_earlier(path, committed)
    write_exact(exact_file(path), exact)
    write_density_report(path, inputs)
    figures: dict = {"manifest_sha256": committed.manifest_sha256}
    figures |= {name: value for name, value in asdict(utility).items() if isinstance(value, float | int)}
    write_figures(path, figures)
    return path


def write_exact(path: Path, exact: np.ndarray) -> None:
    """Raw people of every zone and slot, zone by zone; readable by the owner alone."""
    with private_file(path) as file:
        table = pa.table({"exact_people": np.asarray(exact, dtype=np.float64).ravel()})
        pq.write_table(table, file, compression="zstd")


def read_exact(report: Path, zones: int, slots: int) -> np.ndarray | None:
    """The raw counts that a report was drawn of, [zones, slots]; None where they were not kept."""
    path = exact_file(report)
    if not path.is_file():
        return None
    values = pq.read_table(path)["exact_people"].to_numpy()
    return values.reshape(zones, slots) if values.size == zones * slots else None
