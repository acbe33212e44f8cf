"""The published files of synthetic trips, read again: what they determine, and what the page draws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kinds.kind import ViewRequest
from shoal.kinds.trips import verdict_of_trips
from shoal.kinds.verdict import Verdict
from shoal.release.manifest import Manifest
from shoal.release.trip_files import FORMATS, TripColumns, files_of, read_synthetic
from shoal.release.verify import count_of, repeated_values
from shoal.space.clock import window_of

FILES = files_of(TripColumns(), FORMATS)
# signal -> mean relative error of a random rectangle, floor 1 % of the trips; method bridges
RANGES = {5_000: 0.26, 10_000: 0.17, 50_000: 0.057, 100_000: 0.044}
LIMITS = (0.1, 0.25, 0.6)  # of that error
SUMMARY = (
    "The number of trips that cross a random rectangle is off by about {error} of it; rare places and paths "
    "are mostly noise at any grade."
)


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


def verdict(folder: Path, manifest: Manifest) -> Verdict:
    """From the published number of trips; the errors were measured on cabs, per trip."""
    public, noted = manifest.public, manifest.input
    trips = noted.get("trips_with_noise", public["trips_declared"])
    return verdict_of(trips, public["trips_cap"], manifest.guarantee)


def verdict_of(trips: float | None, cap: int, guarantee: Mapping[str, Any]) -> Verdict:
    """A unit enters with norm 1 however many trips it has; the most that `cap` allows are assumed."""
    bound = math.sqrt(cap) if guarantee["delta"] else cap
    return verdict_of_trips(trips, bound, guarantee, RANGES, LIMITS, SUMMARY)


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
