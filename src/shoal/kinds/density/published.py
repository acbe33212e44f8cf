"""The published files of a density, read again: what they determine, and what the page draws."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kinds.density.totals import totals_problems
from shoal.kinds.density.verdict import published_verdict as verdict
from shoal.kinds.kind import ViewRequest
from shoal.release.density_files import FILES, TOTALS, read_counts
from shoal.release.manifest import MANIFEST, Manifest
from shoal.release.page.page import colour_end, drawn_zones, float32_base64
from shoal.release.verify import BATCH, Decimals, clock_of, count_of, published_zones, zone_problems
from shoal.space.clock import Clock, day_ticks, slot_label, slot_word
from shoal.space.places import Zones
from shoal.stages.noisy import DensityEstimate

__all__ = ["FILES", "problems", "verdict", "view"]


def problems(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Mismatches of zones, window, slots or decimals between manifest and files."""
    public = manifest.public
    zones = published_zones(folder / "zones.parquet")
    yield from zone_problems(public["zones"], zones)
    shown = published_zones(folder / "zones.geojson")
    # projected again elsewhere, coordinates may differ in their last digits
    if shown.ids != zones.ids or (shown.crs == zones.crs and shown.digest() != zones.digest()):
        yield "zones.geojson and zones.parquet hold different zones."
    table = pq.ParquetFile(folder / "density.parquet")
    slots = count_of(public["slots"])
    if table.metadata.num_rows != zones.count * slots:
        yield f"density.parquet has {table.metadata.num_rows} rows; its zones and slots need another number."
        return
    clock = yield from clock_of(public, slots)
    if clock is not None:
        decimals = count_of(public["decimals"])
        yield from _density_rows(table, zones, clock, decimals)
        if TOTALS in manifest.columns:
            yield from totals_problems(folder, zones, clock, decimals)


def _density_rows(table: pq.ParquetFile, zones: Zones, clock: Clock, decimals: int) -> Iterator[str]:
    ids, labels = pa.array(zones.ids, pa.string()), pa.array(clock.starts_local(), pa.string())
    done, digits = 0, Decimals(decimals)
    for batch in table.iter_batches(BATCH):
        row = np.arange(done, done + batch.num_rows)
        zone, slot = row // clock.slots, row % clock.slots
        done += batch.num_rows
        same = (
            batch["zone"].cast(pa.string()).equals(ids.take(pa.array(zone)))
            and np.array_equal(batch["slot"].to_numpy(), slot)
            and batch["slot_start"].cast(pa.string()).equals(labels.take(pa.array(slot)))
            and np.array_equal(batch["slot_start_utc"].cast(pa.int64()).to_numpy(), clock.starts_utc_us[slot])
        )
        if not same:
            yield "the rows of density.parquet are not those of its zones, window, time zone and slots."
            return
        people, low, high = (batch[name].to_numpy() for name in ("people", "people_low", "people_high"))
        if not (np.isfinite(people).all() and (people >= 0).all() and ((low >= 0) & (low <= high)).all()):
            yield "density.parquet holds a count or an interval that no release has."
            return
        digits.see(people, low, high)
    yield from digits.problems("density.parquet")


def view(release: Path, report: Path | None, request: ViewRequest) -> dict[str, Any]:
    """Released people of every zone and slot; with a report, the raw ones and the errors too."""
    public = Manifest.from_json((release / MANIFEST).read_text("utf-8")).public
    zones = published_zones(release / "zones.geojson")
    clock = Clock(**public["window"], time_zone=public["time_zone"], slot_minutes=int(public["slot_minutes"]))
    estimate = read_counts(release, zones.count, clock.slots)
    starts = [datetime.fromisoformat(start) for start in clock.starts_local()]
    exact = None
    if report is not None:
        from shoal.kinds.density.report import read_exact

        exact = read_exact(report, zones.count, clock.slots)
    return {
        "zones": drawn_zones(zones),
        "slots": clock.slots,
        "slotLabels": [slot_label(start) for start in starts],
        "slotWord": slot_word(starts),
        "dayTicks": day_ticks(starts),
        "released": float32_base64(estimate.people),
        "low": float32_base64(estimate.low),
        "high": float32_base64(estimate.high),
        "end": colour_end(estimate.people),
        "most": float(estimate.people.max()),
        "raw": None if exact is None else _against_raw(exact, estimate, clock),
    }


def _against_raw(exact: np.ndarray, estimate: DensityEstimate, clock: Clock) -> dict[str, Any]:
    """Raw people and the errors of the released ones, for the owner alone."""
    from shoal.metrics.density import density_utility

    hour_of_day = np.floor(clock.hours_local).astype(int)
    utility = density_utility(exact, estimate.people, estimate.low, estimate.high, hour_of_day=hour_of_day)
    hours = utility.by_hour_of_day
    return {
        "exact": float32_base64(exact),
        "mreByZone": utility.mre_by_zone,
        "maeByZone": utility.mae_by_zone,
        "hours": None if hours is None else hours.hours,
        "mreByHour": None if hours is None else hours.mean_relative_error,
        "mre": utility.mean_relative_error,
        "mae": utility.mean_absolute_error,
        "share": utility.mean_absolute_error / max(float(exact.mean()), 1e-12),
    }
