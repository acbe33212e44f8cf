"""Draws simulated records in blocks of users and writes them to parts on disk.

One function per kind of record. Each part is a Parquet file of one stretch of time, and all are open at once,
so that a user's rows are spread over the parts as in an operator's log.
"""

from __future__ import annotations

import csv
import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.events.simulate.gatherings import Gathering, points_of, with_extras
from shoal.events.simulate.geography import City
from shoal.events.simulate.people import SAMPLES, VISITS, Ground, make_people
from shoal.events.simulate.presets import CityPreset
from shoal.events.simulate.rhythm import Rhythm, count_running
from shoal.events.simulate.visits import Habit, draw_transit, draw_trips, draw_visits, loggers

PART_ROWS = 2_000_000
BLOCK_ROWS = 500_000
TRIPS_PER_WEEK = 17  # about; only sizes blocks and parts
TRIP_ROWS = 40  # a trip weighs as much as so many rows

Progress = Callable[[str, int, int], None]  # kind, users done, users in all


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """All that the makers of records share."""

    preset: CityPreset
    seed: int
    city: City
    ground: Ground
    rhythm: Rhythm
    gatherings: tuple[Gathering, ...]
    starts: np.ndarray  # UTC seconds of every local hour
    out: Path
    parts: int | None

    def to_utc(self, second: np.ndarray) -> np.ndarray:
        """Seconds since the local start, on the clock's face, to UTC seconds."""
        hour = np.minimum(second // 3600, len(self.starts) - 1)
        return self.starts[hour] + (second - hour * 3600)

    def writers(self, kind: str, schema: pa.Schema, rows: float, group_rows: int) -> PartWriters:
        """Parts for about so many rows, cut in time so that they hold about as many each."""
        parts = self.parts or int(np.clip(np.ceil(rows / PART_ROWS), 4, 64))
        busy = np.tile(np.diff(self.rhythm.hour_running, prepend=0), self.preset.weeks)
        running = np.cumsum(busy) / busy.sum()
        hours = np.searchsorted(running, np.arange(1, parts) / parts)
        cuts = self.starts[np.minimum(hours, len(self.starts) - 1)]
        return PartWriters(self.out / kind, schema, cuts, group_rows)


def write_events(simulation: Simulation, progress: Progress | None) -> int:
    """events/: user, time, site."""
    preset = simulation.preset
    habit, table = _event_habit(preset)
    schema = pa.schema([("user", pa.int64()), ("time", UTC), ("site", SITE)])

    def make(people):
        user, moment, site = _visits(simulation, people, habit, table)
        columns = [pa.array(user), utc(moment), site_array(site, simulation.city.site_ids)]
        return pa.record_batch(columns, schema=schema), moment

    return _write(simulation, "events", schema, preset.visits_mean * preset.weeks, make, progress)


def write_points(simulation: Simulation, progress: Progress | None) -> int:
    """points/: user, time, lon, lat; the same visits as events, each where the person was."""
    preset = simulation.preset
    habit, table = _event_habit(preset)

    def make(people):
        user, moment, site = _visits(simulation, people, habit, table, at_venue=True)
        x, y = points_of(user, site, simulation.ground, simulation.gatherings, simulation.seed)
        lon, lat = simulation.city.plane.to_degrees(x, y)
        columns = [pa.array(user), utc(moment), pa.array(np.round(lon, 6)), pa.array(np.round(lat, 6))]
        return pa.record_batch(columns, schema=POSITIONS), moment

    return _write(simulation, "points", POSITIONS, preset.visits_mean * preset.weeks, make, progress)


def event_blocks(simulation: Simulation) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(user, UTC second, site number) of the same events, block of users by block, nothing written."""
    habit, table = _event_habit(simulation.preset)
    rows_per_user = simulation.preset.visits_mean * simulation.preset.weeks

    def make(people):
        return _visits(simulation, people, habit, table)

    return _blocks(simulation, "events", rows_per_user, make, None)


def _event_habit(preset: CityPreset) -> tuple[Habit, np.ndarray]:
    habit = Habit(VISITS, True, preset.same_hour, 0.85, preset.events_wander)
    return habit, count_running(preset.visits_mean, preset.visits_sd, preset.visits_max)


def write_samples(simulation: Simulation, progress: Progress | None) -> int:
    """samples/: user, time, lon, lat; positions are those of the sites."""
    preset = simulation.preset
    habit = Habit(SAMPLES, False, 0.35, 0.9, preset.samples_wander)
    mean = preset.samples_per_hour * 168
    table = count_running(mean, mean * np.sqrt(np.expm1(preset.samples_spread**2)), int(40 * mean) + 40)
    lon, lat = simulation.city.site_lonlat

    def make(people):
        user, moment, site = _visits(simulation, people, habit, table)
        columns = [pa.array(user), utc(moment), pa.array(lon[site]), pa.array(lat[site])]
        return pa.record_batch(columns, schema=POSITIONS), moment

    return _write(simulation, "samples", POSITIONS, mean * preset.weeks, make, progress)


def write_trips(simulation: Simulation, progress: Progress | None) -> int:
    """trips/: user, trip, and lists of time, lon, lat; of the users who carry a logger."""
    preset, seed = simulation.preset, simulation.seed
    lists = [("time", pa.list_(UTC)), ("lon", pa.list_(pa.float64())), ("lat", pa.list_(pa.float64()))]
    schema = pa.schema([("user", pa.int64()), ("trip", pa.int64()), *lists])

    def make(people):
        carriers = loggers(people, preset.trip_share, seed)
        user, trip, first, second, x, y = draw_trips(carriers, simulation.ground, preset.weeks, seed)
        lon, lat = simulation.city.plane.to_degrees(x, y)
        points = (utc(simulation.to_utc(second)), pa.array(np.round(lon, 6)), pa.array(np.round(lat, 6)))
        offsets = pa.array(first.astype(np.int32))
        columns = [pa.array(user), pa.array(trip)]
        columns += [pa.ListArray.from_arrays(offsets, values) for values in points]
        moment = simulation.to_utc(second[first[:-1]])
        order = np.argsort(moment, kind="stable")
        return pa.record_batch(columns, schema=schema).take(pa.array(order)), moment[order]

    rows = preset.trip_share * TRIPS_PER_WEEK * preset.weeks * TRIP_ROWS
    return _write(simulation, "trips", schema, rows, make, progress, group_rows=8192)


def write_transit(simulation: Simulation, progress: Progress | None) -> int:
    """transit/: user, start time and station, end time and station; and stations.csv."""
    preset = simulation.preset
    ends = [(f"{end}_{name}", kind) for end in ("start", "end") for name, kind in PLACED]
    schema = pa.schema([("user", pa.int64()), *ends])
    ids = simulation.city.site_ids

    def make(people):
        drawn = draw_transit(people, simulation.ground, preset.weeks, simulation.seed)
        moment = simulation.to_utc(drawn[1])
        order = np.argsort(moment, kind="stable")
        user, _, a, end, b = (column[order] for column in drawn)
        start, stop = utc(moment[order]), utc(simulation.to_utc(end))
        arrays = [pa.array(user), start, site_array(a, ids), stop, site_array(b, ids)]
        return pa.record_batch(arrays, schema=schema), moment[order]

    return _write(simulation, "transit", schema, TRIPS_PER_WEEK * preset.weeks, make, progress)


MAKERS = {
    "events": write_events,
    "points": write_points,
    "trips": write_trips,
    "samples": write_samples,
    "transit": write_transit,
}


def _visits(simulation: Simulation, people, habit: Habit, table: np.ndarray, *, at_venue: bool = False):
    """Visits in order of time; those of gatherings at the venue (-1, -2, ..) or at the site nearest to it."""
    preset, seed, ground = simulation.preset, simulation.seed, simulation.ground
    rows = draw_visits(people, ground, simulation.rhythm, habit, table, preset.weeks, seed)
    user, second, site = with_extras(rows, people, ground, simulation.gatherings, preset, seed)
    if not at_venue:
        nearest = np.array([each.site for each in simulation.gatherings][::-1], np.int32)
        site = np.concatenate([np.arange(len(ground.xy), dtype=np.int32), nearest])[site]
    moment = simulation.to_utc(second)
    order = np.argsort(moment, kind="stable")
    return user[order], moment[order], site[order]


def _write(
    simulation, kind: str, schema, rows_per_user: float, make, progress, group_rows: int = 262_144
) -> int:
    """Blocks of users to parts; returns the number of rows."""
    writers = simulation.writers(kind, schema, simulation.preset.users * rows_per_user, group_rows)
    with writers:
        for batch, moment in _blocks(simulation, kind, rows_per_user, make, progress):
            writers.add(batch, moment)
    return writers.rows


def _blocks(simulation, kind: str, rows_per_user: float, make, progress: Progress | None) -> Iterator:
    """make(people) for one block of users after the other, some blocks ahead in threads, in order."""
    users = simulation.preset.users
    size = int(np.clip(BLOCK_ROWS / max(rows_per_user, 1e-9), 200, 50_000))

    def one(first: int):
        last = min(first + size, users)
        return last, make(make_people(simulation.ground, simulation.seed, first, last))

    threads = max(1, min(4, os.cpu_count() or 1))
    with ThreadPoolExecutor(threads) as pool:
        pending: deque = deque()
        for first in range(0, users, size):
            pending.append(pool.submit(one, first))
            if len(pending) > threads:
                yield _done(pending.popleft(), kind, users, progress)
        while pending:
            yield _done(pending.popleft(), kind, users, progress)


def _done(future, kind: str, users: int, progress: Progress | None):
    last, records = future.result()
    if progress is not None:
        progress(kind, last, users)
    return records


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
PLACED = (("time", UTC), ("site", SITE))  # what is known of an end of a ride
POSITIONS = pa.schema([("user", pa.int64()), ("time", UTC), ("lon", pa.float64()), ("lat", pa.float64())])


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
    features = city.zones.to_geojson()["features"]
    text = ",\n".join(json.dumps(feature, ensure_ascii=False) for feature in features)
    (folder / "zones.geojson").write_text(
        '{"type": "FeatureCollection", "features": [\n' + text + "\n]}\n", encoding="utf-8"
    )
