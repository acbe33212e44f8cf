"""The owner's folder of a density: the report and the utility figures, all computed on raw data."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shoal.metrics.density import density_utility
from shoal.privacy.ledger import Ledger
from shoal.privacy.ledger.amounts import show_nano
from shoal.release.density_files import read_density
from shoal.release.folder import Committed
from shoal.release.report.density import DensityReportInputs, write_density_report

if TYPE_CHECKING:
    from shoal.flows.density import PreparedDensity


def write_owner_report(
    path: Path, prepared: PreparedDensity, made: Committed, exact: np.ndarray, ledger: Ledger
) -> Path:
    """report.html and utility.json beside it; the ledger lists both as seen by the owner."""
    zones, clock = prepared.geography.zones, prepared.clock
    estimate = read_density(made.path, zones.count, clock.slots)
    inputs = DensityReportInputs(
        manifest=json.loads((made.path / "manifest.json").read_text("utf-8")),
        zones=zones,
        slot_starts=clock.starts_local(),
        exact=exact,
        released=estimate.people,
        low=estimate.low,
        high=estimate.high,
        budget=_budget(ledger, prepared),
        title=f"Density of {prepared.plan.population}",
    )
    write_density_report(path, inputs)
    hours = np.floor(clock.hours_local).astype(int)
    utility = density_utility(exact, estimate.people, estimate.low, estimate.high, hour_of_day=hours)
    figures: dict = {"manifest_sha256": made.manifest_sha256}
    figures |= {name: value for name, value in asdict(utility).items() if isinstance(value, float | int)}
    with open(
        os.open(path.parent / "utility.json", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w"
    ) as file:
        json.dump(figures, file, indent=2)
    ledger.disclose(prepared.plan.population, "owner's report with exact counts", str(path))
    return path


def report_is_of(made: Committed, path: Path) -> bool:
    """Whether the report at `path` was drawn for this very release."""
    try:
        figures = json.loads((path.parent / "utility.json").read_text("utf-8"))
        return path.is_file() and figures["manifest_sha256"] == made.manifest_sha256
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _budget(ledger: Ledger, prepared: PreparedDensity) -> dict:
    population = ledger.state().population(prepared.plan.population)
    loss = prepared.mechanism.loss()
    cost = loss.rho_nano if population.currency == "rho" else loss.pure_epsilon_nano or 0
    paid = 0 if prepared.plan.seed is not None else cost
    return {
        "population": population.name,
        "currency": population.currency,
        "limit": show_nano(population.limit_nano),
        "spent_before": show_nano(population.spent_nano - paid),
        "this_release": show_nano(paid),
        "left": show_nano(population.left_nano),
    }
