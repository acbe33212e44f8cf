"""The files of a density release: every zone and slot, also the zeros, as Parquet and CSV, and the zones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shoal.errors import SourceError
from shoal.release.readme import as_cell
from shoal.space.clock import Clock
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
TOTALS, COVARIANCE = "totals.parquet", "covariance.parquet"
SUMS = {  # of methods that state an interval of sums
    TOTALS: {
        "sum": "zone-day, zone-week (seven days from the first), city-slot, city-day or city",
        "zone": "id of the zone; none: all zones",
        "first_slot": "number of the first slot",
        "last_slot": "number of the last slot, included",
        "slot_start": "start of the first slot on the local clock, with its offset from UTC (ISO 8601 text)",
        "people": "visits: people observed in a zone during a slot, added up",
        "people_low": "lower end of the 95 % interval of this sum, not below zero",
        "people_high": "upper end of the 95 % interval of this sum",
    },
    COVARIANCE: {
        "part": "part of the covariance of all counts, for intervals of other sums: `shoal density total`",
        "zone": "number of the zone in zones.geojson, from 0; none: not of a zone",
        "slot": "number of the slot; none: not of a slot",
        "column": "number of the coefficient, or of the other zone",
        "value": "a variance, factor or correlation; for centre, a count before negative ones were removed",
    },
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


def read_counts(folder: Path, zones: int, slots: int) -> DensityEstimate:
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
