"""The published files of synthetic trips, read again: what they determine, and what the page draws."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kinds.kind import ViewRequest
from shoal.release.manifest import Manifest
from shoal.release.trip_files import FORMATS, TripColumns, files_of, read_synthetic
from shoal.release.verify import count_of, repeated_values, window_of

FILES = files_of(TripColumns(), FORMATS)


def problems(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Mismatches of grid, step, window or numbers of trips between manifest and trips.parquet."""
    public, noted = manifest.public, manifest.input
    published = read_synthetic(folder)
    about = published.about
    if about.grid.describe() != dict(public["grid"]):
        yield "the grid is not the one that trips.parquet states."
    if about.step_s != public["step_s"] or public["synthetic"] is not True:
        yield "the step is not the one that trips.parquet states, or it is not called synthetic."
    west, south, east, north = about.grid.box
    begin, end = window_of(public)
    trips = starts_outside = points_outside = 0
    for group in range((file := pq.ParquetFile(published.path)).num_row_groups):
        names = published.columns
        table = file.read_row_group(group, [names.point, names.time, names.x, names.y])
        first = table[names.point].to_numpy() == 0
        time = table[names.time].cast(pa.int64()).to_numpy()[first]
        x, y = table[names.x].to_numpy(), table[names.y].to_numpy()
        trips += int(first.sum())
        starts_outside += int(((time < begin) | (time >= end)).sum())
        points_outside += int((~((x >= west) & (x <= east) & (y >= south) & (y <= north))).sum())
    if not trips == about.trips == count_of(noted["synthetic_trips"]):
        yield "the number of synthetic trips is not the one in trips.parquet."
    if public["count"] not in (None, trips):
        yield "the number of trips that the owner chose is not the one in trips.parquet."
    if starts_outside or points_outside:
        yield "trips.parquet has trips that start outside the window, or points outside the box."
    yield from repeated_values(manifest)


def view(release: Path, report: Path | None, request: ViewRequest) -> dict[str, Any]:
    """Some synthetic trips, point by point, in degrees or metres and seconds."""
    published = read_synthetic(release)
    names, wanted = published.columns, range(request.first, request.first + request.count)
    trips: list[dict[str, Any]] = []
    before = 0
    file = pq.ParquetFile(published.path)
    for group in range(file.num_row_groups):
        starts = file.read_row_group(group, [names.point])[names.point].to_numpy() == 0
        here = int(starts.sum())
        if before + here > wanted.start:
            table = file.read_row_group(group, [names.time, names.x, names.y])
            number = before - 1 + np.cumsum(starts)
            time_us = table[names.time].cast("int64").to_numpy()
            x, y = table[names.x].to_numpy(), table[names.y].to_numpy()
            for trip in wanted:
                at = np.flatnonzero(number == trip)
                if at.size:
                    times = (time_us[at] / 1e6).tolist()
                    trips.append({"trip": trip, "time": times, "x": x[at].tolist(), "y": y[at].tolist()})
        before += here
        if before >= wanted.stop:
            break
    grid = published.about.grid
    return {"trips": trips, "count": published.about.trips, "box": grid.box, "planar": grid.planar}
