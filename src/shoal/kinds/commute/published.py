"""The published files of synthetic events at sites: their columns, and what they determine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.release.manifest import Manifest
from shoal.release.verify import repeated_values, window_of

COLUMNS = {
    "user": "id of a synthetic person, s and a number",
    "time": "when the call was made, UTC (a timestamp in Parquet, ISO 8601 text in CSV)",
    "site": "id of the site, as in the public list",
    "lon": "longitude of the site (x where the list is planar)",
    "lat": "latitude of the site (y where the list is planar)",
}
FILES = {"events.parquet": COLUMNS, "events.csv": COLUMNS}


def problems(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Mismatches of window, people or sites between manifest and events."""
    public, people = manifest.public, manifest.input["synthetic_people"]
    begin, end = window_of(public)
    table = pq.read_table(folder / "events.parquet", columns=["user", "time", "site"])
    time = table["time"].cast(pa.int64()).to_numpy()
    if ((time < begin) | (time >= end)).any():
        yield "events.parquet has events outside the window."
    if len(table["user"].unique()) > people or public["count"] not in (None, people):
        yield "the number of synthetic people is not the one in events.parquet."
    if len(table["site"].unique()) > public["sites"]["count"] or public["synthetic"] is not True:
        yield "events.parquet has more sites than the manifest counts, or it is not called synthetic."
    yield from repeated_values(manifest)
