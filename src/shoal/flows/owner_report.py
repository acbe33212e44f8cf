"""The owner's folder of a density: the report and the utility figures, all computed on raw data."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.metrics.density import density_utility
from shoal.privacy.ledger import Ledger
from shoal.privacy.ledger.amounts import cost_nano, show_nano
from shoal.release.density_files import read_density
from shoal.release.folder import Committed
from shoal.release.private import private_file
from shoal.release.report.density import DensityReportInputs, write_density_report
from shoal.release.report.encode import plain

if TYPE_CHECKING:
    from shoal.flows.prepare import PreparedDensity


def write_owner_report(
    path: Path, prepared: PreparedDensity, made: Committed, exact: np.ndarray, ledger: Ledger
) -> Path:
    """report.html, utility.json and the raw counts beside it; the ledger lists that the owner saw them."""
    zones, clock = prepared.geography.zones, prepared.clock
    estimate = read_density(made.path, zones.count, clock.slots)
    utility = density_utility(
        exact,
        estimate.people,
        estimate.low,
        estimate.high,
        hour_of_day=np.floor(clock.hours_local).astype(int),
        zone_xy_m=prepared.setting.zone_xy_m,
    )
    inputs = DensityReportInputs(
        manifest=json.loads((made.path / "manifest.json").read_text("utf-8")),
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
    name = made.path.name if made.path.name.isprintable() else ascii(made.path.name)
    seen = f"owner's report with exact counts, on {name}: {prepared.what()}"
    ledger.disclose(prepared.plan.population, seen, str(path))  # before it is seen
    keep_earlier(path, made)
    write_exact(exact_file(path), exact)
    write_density_report(path, inputs)
    figures: dict = {"manifest_sha256": made.manifest_sha256}
    figures |= {name: value for name, value in asdict(utility).items() if isinstance(value, float | int)}
    write_figures(path, figures)
    return path


def write_figures(report: Path, figures: dict) -> None:
    """utility.json beside a report, readable by its owner alone; figures that do not exist are null."""
    with private_file(report.parent / "utility.json", text=True) as file:
        json.dump(plain(figures), file, indent=2, allow_nan=False)


def report_of(made: Committed, path: Path) -> Path | None:
    """The report that was drawn for this very release: at `path`, or where a later one moved it to."""
    earlier = _earlier(path, made.manifest_sha256)
    if earlier.is_file():
        return earlier
    return path if path.is_file() and _release_of(path) == made.manifest_sha256 else None


def utility_file(report: Path) -> Path:
    """The figures beside a report: utility.json, or utility-HASH.json for one that was moved."""
    return report.with_name(report.name.replace("report", "utility", 1)).with_suffix(".json")


def exact_file(report: Path) -> Path:
    """The raw counts beside a report: exact.parquet, or exact-HASH.parquet."""
    return report.with_name(report.name.replace("report", "exact", 1)).with_suffix(".parquet")


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


def keep_earlier(path: Path, made: Committed) -> None:
    """A report of another release makes room, under a name that tells whose it is."""
    release = _release_of(path)
    if path.is_file() and release and release != made.manifest_sha256:
        for file in (path, utility_file(path), exact_file(path)):
            if file.exists():
                file.rename(_earlier(file, release))


def _release_of(path: Path) -> str | None:
    try:
        return str(json.loads(utility_file(path).read_text("utf-8"))["manifest_sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _earlier(path: Path, manifest_sha256: str) -> Path:
    return path.with_stem(f"{path.stem}-{manifest_sha256[:12]}")


def budget_of(ledger: Ledger, prepared: Any) -> dict:
    """The population's budget before and after a release, for the owner's page."""
    population = ledger.state().population(prepared.plan.population)
    seeded = prepared.plan.seed is not None
    paid = 0 if seeded else cost_nano(prepared.mechanism.loss(), population.currency)
    return {
        "population": population.name,
        "currency": population.currency,
        "limit": show_nano(population.limit_nano),
        "spent_before": show_nano(population.spent_nano - paid),
        "this_release": show_nano(paid),
        "left": show_nano(population.left_nano),
    }
