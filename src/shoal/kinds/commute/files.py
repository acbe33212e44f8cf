"""Files of synthetic site events: Parquet and CSV, and the events read back from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shoal.kinds.commute.prepare import PreparedCommute
from shoal.space.projection import LONLAT, transform_xy
from shoal.space.sites import Sites
from shoal.stages.commutes import SyntheticEvents


def events_table(events: SyntheticEvents, sites: Sites) -> pa.Table:
    """Rows by person and time, in the columns of site events."""
    x, y = np.asarray(sites.x, float), np.asarray(sites.y, float)
    if sites.crs is not None:
        x, y = transform_xy(x, y, sites.crs, LONLAT)
    digits = max(7, len(str(max(events.people, 1))))
    names = pa.array([f"s{number + 1:0{digits}d}" for number in range(events.people)], pa.string())
    person = pa.array(events.person.astype(np.int32), pa.int32())
    return pa.table(
        {
            "user": pa.DictionaryArray.from_arrays(person, names),
            "time": pa.array(events.time_us, pa.timestamp("us", "UTC")),
            "site": pa.DictionaryArray.from_arrays(pa.array(events.site), pa.array(sites.ids, pa.string())),
            "lon": x[events.site],
            "lat": y[events.site],
        }
    )


def write_events(folder: Path, events: SyntheticEvents, sites: Sites) -> None:
    """events.parquet and events.csv into `folder`."""
    table = events_table(events, sites)
    for at, name in ((0, "user"), (2, "site")):
        table = table.set_column(at, name, table[name].cast(pa.string()))
    pq.write_table(table, folder / "events.parquet", compression="zstd")
    pyarrow.csv.write_csv(table, folder / "events.csv")


def published_events(folder: Path, prepared: PreparedCommute) -> SyntheticEvents:
    """Events of a release, as they were drawn."""
    table = pq.read_table(folder / "events.parquet", columns=["user", "time", "site"])
    person = table["user"].combine_chunks().dictionary_encode()
    number = {site: at for at, site in enumerate(prepared.sites.ids)}
    site = table["site"].combine_chunks().dictionary_encode()
    index = np.array([number[name] for name in site.dictionary.to_pylist()], np.int32)
    return SyntheticEvents(
        people=len(person.dictionary),
        person=person.indices.to_numpy().astype(np.int64),
        time_us=table["time"].cast(pa.int64()).to_numpy(),
        site=index[site.indices.to_numpy()] if len(index) else np.empty(0, np.int32),
    )
