"""Parts of a simulated city on disk: several Parquet files, each a stretch of time, all open at once.

Rows go to the part of their time, so a user's rows are spread over the parts as in an operator's log.
"""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from shoal.events.simulate.geography import City


class PartWriters:
    """Parquet parts, cut at given times; rows are buffered until a row group is full."""

    def __init__(self, folder: Path, schema: pa.Schema, cuts: np.ndarray, group_rows: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.cuts = cuts
        self.rows = 0
        self.group_rows = group_rows
        texts = [column.name for column in schema if pa.types.is_dictionary(column.type)]
        self.writers = [
            pq.ParquetWriter(
                folder / f"part-{i:04d}.parquet",
                schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=texts or False,  # pyright: ignore[reportArgumentType]
            )
            for i in range(len(cuts) + 1)
        ]
        self.waiting: list[list[pa.RecordBatch]] = [[] for _ in self.writers]

    def add(self, batch: pa.RecordBatch, moment: np.ndarray) -> None:
        """Rows of a batch, sorted by `moment`, each to its part."""
        edges = np.concatenate([[0], np.searchsorted(moment, self.cuts), [len(moment)]])
        for part, (low, high) in enumerate(pairwise(edges)):
            if high > low:
                self.waiting[part].append(batch.slice(low, high - low))
                if sum(len(piece) for piece in self.waiting[part]) >= self.group_rows:
                    self._flush(part)
        self.rows += len(moment)

    def _flush(self, part: int) -> None:
        if self.waiting[part]:
            table = pa.Table.from_batches(self.waiting[part])
            self.writers[part].write_table(table, row_group_size=len(table))
            self.waiting[part] = []

    def __enter__(self) -> PartWriters:
        return self

    def __exit__(self, *failure) -> None:
        for part, writer in enumerate(self.writers):
            self._flush(part)
            writer.close()


def site_array(index: np.ndarray, site_ids: np.ndarray) -> pa.DictionaryArray:
    """Site ids as a dictionary column."""
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), pa.array(site_ids.tolist()))


def utc(seconds: np.ndarray) -> pa.Array:
    """Seconds since 1970 as a UTC timestamp column."""
    return pa.array(seconds.astype("datetime64[s]")).cast(pa.timestamp("s", tz="UTC")).cast(UTC)


UTC = pa.timestamp("us", tz="UTC")
SITE = pa.dictionary(pa.int32(), pa.string())


def write_sites(path: Path, city: City) -> None:
    """site, lon, lat as CSV."""
    lon, lat = city.site_lonlat
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["site", "lon", "lat"])
        rows.writerows(zip(city.site_ids.tolist(), lon.tolist(), lat.tolist(), strict=True))


def write_geometry(folder: Path, city: City) -> None:
    """sites.csv and zones.geojson."""
    write_sites(folder / "sites.csv", city)
    features = [
        {
            "type": "Feature",
            "properties": {"zone": str(zone), "name": str(name)},
            "geometry": json.loads(shapely.to_geojson(shape)),
        }
        for zone, name, shape in zip(city.zone_ids, city.zone_names, city.zones, strict=True)
    ]
    text = ",\n".join(json.dumps(feature, ensure_ascii=False) for feature in features)
    (folder / "zones.geojson").write_text(
        '{"type": "FeatureCollection", "features": [\n' + text + "\n]}\n", encoding="utf-8"
    )
