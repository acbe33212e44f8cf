"""Pieces of a release of synthetic site events: count, write, compare. The general flow orders them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shoal.engine.commute import CommuteKernel, sum_commutes
from shoal.engine.duck import DuckEngine
from shoal.engine.protocol import Engine, Progress
from shoal.metrics.commute import SiteEvents, commute_figures
from shoal.space.commute_setting import CommuteSetting
from shoal.space.projection import LONLAT, transform_xy
from shoal.space.sites import Sites
from shoal.stages.commutes import ExactCommutes, SyntheticEvents

COLUMNS = {
    "user": "a made-up person, s and a number; no user of the source",
    "time": "when the call was made, UTC (a timestamp in Parquet, ISO 8601 text in CSV)",
    "site": "id of the site, as in the public list",
    "lon": "longitude of the site (x where the list is planar)",
    "lat": "latitude of the site (y where the list is planar)",
}
FILES = {"events.parquet": COLUMNS, "events.csv": COLUMNS}


def exact_commutes(
    events: Iterable[pa.RecordBatch],
    setting: CommuteSetting,
    run_key: bytes,
    engine: Engine | None = None,
    *,
    norm: int = 1,
    progress: Progress | None = None,
) -> ExactCommutes:
    """The stage a `SyntheticCommute` takes, of placed events (user, time_us, site); `norm` as its own."""
    kernel = CommuteKernel(setting=setting, norm=norm, run_key=run_key)
    return sum_commutes(engine or DuckEngine(), events, kernel, progress)


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


def real_events(batches: Iterable[pa.RecordBatch]) -> SiteEvents:
    """All placed events in memory, users as numbers: for the owner's figures only."""
    parts = list(batches)
    if not parts:
        nothing = np.empty(0, np.int64)
        return SiteEvents(user=nothing, time_us=nothing, site=nothing)
    table = pa.Table.from_batches(parts).combine_chunks()
    user = table["user"].combine_chunks().dictionary_encode()
    return SiteEvents(
        user=user.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        time_us=table["time_us"].to_numpy(),
        site=table["site"].to_numpy(),
    )


def commute_utility(
    real: SiteEvents, synthetic: SyntheticEvents, setting: CommuteSetting
) -> dict[str, float]:
    """Errors of the synthetic events; both sides go through the same functions. For the owner's eyes."""
    drawn = SiteEvents(user=synthetic.person, time_us=synthetic.time_us, site=synthetic.site)
    return commute_figures(real, drawn, setting)
