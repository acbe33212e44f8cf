"""The published files of a density: their columns, what they determine, and what the page draws.

Every zone and slot, also the zeros, as Parquet and CSV, and the zones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shoal.errors import SourceError
from shoal.kinds.density.totals import COVARIANCE, SUMS, TOTALS, read_covariance, totals_problems
from shoal.kinds.density.verdict import published_verdict
from shoal.kinds.kind import ViewRequest
from shoal.kinds.verdict import Verdict
from shoal.release.manifest import MANIFEST, Manifest
from shoal.release.page.page import colour_end, drawn_zones, float32_base64
from shoal.release.readme import as_cell
from shoal.release.verify import BATCH, Decimals, clock_of, count_of, published_zones, zone_problems
from shoal.space.clock import Clock, day_ticks, slot_label, slot_word
from shoal.space.places import Zones, write_zones
from shoal.stages.noisy import DensityEstimate

COLUMNS = {
    "zone": "id of the zone, as in zones.geojson",
    "slot": "number of the slot in the window, from 0",
    "slot_start": "start of the slot on the local clock, with its offset from UTC (ISO 8601 text)",
    "slot_start_utc": "the same moment in UTC (a timestamp in Parquet)",
    "people": "people observed in the zone during the slot, with noise, not negative; see README.md",
    "people_low": "lower end of the 95 % interval, not below zero",
    "people_high": "upper end of the 95 % interval",
}
FILES = {
    "density.parquet": COLUMNS,
    "density.csv": COLUMNS,
    **SUMS,
    "zones.geojson": {"zone": "id of the zone", "name": "its name", "geometry": "its polygon"},
    "zones.parquet": {"zone": "id of the zone", "name": "its name", "geometry": "its polygon (GeoParquet)"},
}


def density_table(estimate: DensityEstimate, zones: Zones, clock: Clock) -> pa.Table:
    """One row per zone and slot, zone by zone: the rows depend on public things alone."""
    count, slots = estimate.people.shape
    starts = clock.starts_local()
    zone_of = np.repeat(np.arange(count, dtype=np.int32), slots)
    slot_of = np.tile(np.arange(slots, dtype=np.int32), count)
    return pa.table(
        {
            "zone": pa.DictionaryArray.from_arrays(pa.array(zone_of), pa.array(zones.ids, pa.string())),
            "slot": slot_of,
            "slot_start": pa.DictionaryArray.from_arrays(pa.array(slot_of), pa.array(starts, pa.string())),
            "slot_start_utc": pa.array(clock.starts_utc_us[slot_of], pa.timestamp("us", "UTC")),
            "people": estimate.people.ravel(),
            "people_low": estimate.low.ravel(),
            "people_high": estimate.high.ravel(),
        }
    )


def write_public(folder: Path, zones: Zones) -> None:
    """The files of the release that contain only the public map."""
    write_zones(zones, folder / "zones.geojson")
    write_zones(zones, folder / "zones.parquet")


def write_density(folder: Path, estimate: DensityEstimate, zones: Zones, clock: Clock) -> None:
    """The noisy files of the release into `folder`."""
    table = density_table(estimate, zones, clock)
    pq.write_table(table, folder / "density.parquet", compression="zstd")
    cells = pa.DictionaryArray.from_arrays(
        table["zone"].combine_chunks().indices, pa.array([as_cell(zone) for zone in zones.ids], pa.string())
    )
    plain = table.set_column(0, "zone", cells.cast(pa.string()))
    plain = plain.set_column(2, "slot_start", plain["slot_start"].cast(pa.string()))
    pyarrow.csv.write_csv(plain, folder / "density.csv")


MOST_PEOPLE = 10**12  # that a manifest states of a peak


def peaks_of(estimate: DensityEstimate, zones: Zones, clock: Clock) -> dict[str, Any]:
    """The peaks of an estimate, as manifests state them; empty where none were looked for."""
    if estimate.least_peak is None:
        return {}
    starts = [*clock.starts_local(), clock.end.isoformat(timespec="minutes")]
    peaks = [
        {
            "zone": zones.ids[peak.zone],
            "from": starts[peak.start],
            "to": starts[peak.stop],
            "days": peak.days,
            "people": round(min(peak.size, MOST_PEOPLE)),
            "deviation": round(min(peak.deviation, MOST_PEOPLE)),
        }
        for peak in estimate.peaks
    ]
    return {
        "peaks": {"found": peaks, "found_from": int(float(f"{min(estimate.least_peak, MOST_PEOPLE):.2g}"))}
    }


def read_density(folder: Path, zones: int, slots: int) -> DensityEstimate:
    """The released arrays back from the folder."""
    path, names = folder / "density.parquet", ["people", "people_low", "people_high"]
    try:
        if pq.read_metadata(path).num_rows != zones * slots:
            raise ValueError("other zones or slots")
        table = pq.read_table(path, columns=names)
        people, low, high = (
            np.asarray(table[name].to_numpy(), np.float64).reshape(zones, slots) for name in names
        )
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError, MemoryError):
        raise SourceError(
            "not-a-density",
            f"{path} is not the table of this release.",
            "Check the folder with `shoal verify`.",
        ) from None
    return DensityEstimate(people=people, low=low, high=high)


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
            people = read_density(folder, zones.count, clock.slots).people
            yield from totals_problems(folder, people, zones, clock, decimals)


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


def verdict(folder: Path, manifest: Manifest) -> Verdict:
    """The grade of the published counts."""
    size = manifest.public["zones"]["count"], manifest.public["slots"]
    covariance = read_covariance(folder / COVARIANCE, *size)
    return published_verdict(read_density(folder, *size), manifest, covariance)


def view(release: Path, report: Path | None, request: ViewRequest) -> dict[str, Any]:
    """Released people of every zone and slot; with a report, the raw ones and the errors too."""
    public = Manifest.from_json((release / MANIFEST).read_text("utf-8")).public
    zones = published_zones(release / "zones.geojson")
    clock = Clock(**public["window"], time_zone=public["time_zone"], slot_minutes=int(public["slot_minutes"]))
    estimate = read_density(release, zones.count, clock.slots)
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
