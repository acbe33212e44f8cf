"""The whole way from a preset to a folder: geometry, people, then each kind of record, block by block."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from shoal.errors import OutputError
from shoal.events.simulate.geography import City, make_city
from shoal.events.simulate.people import Ground, make_ground, make_people
from shoal.events.simulate.presets import CityPreset
from shoal.events.simulate.rhythm import Rhythm, count_running, hour_starts, make_rhythm
from shoal.events.simulate.rng import SAMPLES, VISITS
from shoal.events.simulate.visits import Habit, draw_visits
from shoal.events.simulate.write import SITE, UTC, PartWriters, site_array, utc, write_geometry

PART_ROWS = 2_000_000
BLOCK_ROWS = 500_000

Progress = Callable[[str, int, int], None]  # kind, users done, users in all

COLUMNS = {
    "events": {"user": "user", "time": "time", "site": "site"},
    "samples": {"user": "user", "time": "time", "lon": "lon", "lat": "lat"},
    "trips": {"user": "user", "trip": "trip", "time": "time", "lon": "lon", "lat": "lat"},
    "transit": {
        "user": "user",
        "start_time": "start_time",
        "start_site": "start_site",
        "end_time": "end_time",
        "end_site": "end_site",
    },
}


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """All that the makers of records share."""

    preset: CityPreset
    seed: int
    city: City
    ground: Ground
    rhythm: Rhythm
    starts: np.ndarray  # UTC seconds of every local hour
    out: Path
    parts: int | None

    def to_utc(self, second: np.ndarray) -> np.ndarray:
        """Seconds since the local start, on the clock's face, to UTC seconds."""
        hour = np.minimum(second // 3600, len(self.starts) - 1)
        return self.starts[hour] + (second - hour * 3600)

    def writers(
        self, kind: str, schema: pa.Schema, rows: float, group_rows: int | None = None
    ) -> PartWriters:
        """Parts for about so many rows, cut in time so that they hold about as many each."""
        parts = self.parts or int(np.clip(np.ceil(rows / PART_ROWS), 4, 64))
        busy = np.tile(np.diff(self.rhythm.hour_running, prepend=0), self.preset.weeks)
        running = np.cumsum(busy) / busy.sum()
        hours = np.searchsorted(running, np.arange(1, parts) / parts)
        cuts = self.starts[np.minimum(hours, len(self.starts) - 1)]
        extra = {} if group_rows is None else {"group_rows": group_rows}
        return PartWriters(self.out / kind, schema, cuts, **extra)


def simulate_city(
    preset: CityPreset,
    out: Path,
    *,
    seed: int,
    progress: Progress | None = None,
    zones=None,
    sites=None,
    parts: int | None = None,
) -> Path:
    """Write a city into the folder `out` and return it; the same city already there is left as it is.

    `zones` and `sites` (of `shoal.space`) replace the preset's own geometry.
    """
    out = Path(out)
    identity = city_identity(preset, seed, zones, sites)
    if holds_city(out, identity):
        return out
    preset = replace(preset, zones=len(zones.ids) if zones is not None else preset.zones)
    preset = replace(preset, sites=len(sites.ids) if sites is not None else preset.sites)
    city = make_city(preset, seed, zones, sites)
    ground = make_ground(city, preset, seed)
    simulation = Simulation(
        preset=preset,
        seed=seed,
        city=city,
        ground=ground,
        rhythm=make_rhythm(city, preset, ground.crowds, seed),
        starts=hour_starts(preset),
        out=out,
        parts=parts,
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_geometry(out, city)
        rows = {kind: _MAKERS[kind](simulation, progress) for kind in preset.what}
        _write_card(simulation, identity, rows)
    except OSError as error:
        raise OutputError(
            "simulate-write", f"cannot write the city: {error.strerror or error}.", "Choose another --out."
        ) from error
    return out


def city_identity(preset: CityPreset, seed: int, zones=None, sites=None) -> dict:
    """What makes two cities the same; compared with city.json."""
    return {
        "preset": preset.name,
        "seed": seed,
        "users": preset.users,
        "weeks": preset.weeks,
        "parameters": preset.as_json(),
        "own_zones": None if zones is None else len(zones.ids),
        "own_sites": None if sites is None else len(sites.ids),
    }


def holds_city(out: Path, identity: dict) -> bool:
    """Whether the folder holds this very city; an error if it holds anything else."""
    if not out.exists():
        return False
    if not out.is_dir():
        raise OutputError("simulate-out", f"{out} is a file, not a folder.", "Choose another --out.")
    if not any(out.iterdir()):
        return False
    card = out / "city.json"
    try:
        found = json.loads(card.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    if isinstance(found, dict) and all(found.get(key) == value for key, value in identity.items()):
        return True
    raise OutputError(
        "simulate-out",
        f"the folder {out} is not empty and does not hold this city.",
        "Choose another --out, or remove the folder.",
    )


def blocks(
    simulation: Simulation, kind: str, rows_per_user: float, make, progress: Progress | None
) -> Iterator:
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
    last, made = future.result()
    if progress is not None:
        progress(kind, last, users)
    return made


def _events(simulation: Simulation, progress: Progress | None) -> int:
    preset = simulation.preset
    habit = Habit(VISITS, True, preset.same_hour, 0.85)
    table = count_running(preset.visits_mean, preset.visits_sd, preset.visits_max)
    per_user = preset.visits_mean * preset.weeks
    schema = pa.schema([("user", pa.int64()), ("time", UTC), ("site", SITE)])
    writers = simulation.writers("events", schema, preset.users * per_user)

    def make(people):
        drawn = draw_visits(
            people, simulation.ground, simulation.rhythm, habit, table, preset.weeks, simulation.seed
        )
        user, moment, site = _in_time_order(simulation, *drawn)
        columns = [pa.array(user), utc(moment), site_array(site, simulation.city.site_ids)]
        return pa.record_batch(columns, schema=schema), moment

    for batch, moment in blocks(simulation, "events", per_user, make, progress):
        writers.add(batch, moment)
    writers.close()
    return writers.rows


def _samples(simulation: Simulation, progress: Progress | None) -> int:
    preset = simulation.preset
    habit = Habit(SAMPLES, False, 0.35, 0.9)
    mean = preset.samples_per_hour * 168
    table = count_running(mean, mean * np.sqrt(np.expm1(preset.samples_spread**2)), int(40 * mean))
    schema = pa.schema([("user", pa.int64()), ("time", UTC), ("lon", pa.float64()), ("lat", pa.float64())])
    writers = simulation.writers("samples", schema, preset.users * mean * preset.weeks)
    lon, lat = simulation.city.site_lonlat

    def make(people):
        drawn = draw_visits(
            people, simulation.ground, simulation.rhythm, habit, table, preset.weeks, simulation.seed
        )
        user, moment, site = _in_time_order(simulation, *drawn)
        columns = [pa.array(user), utc(moment), pa.array(lon[site]), pa.array(lat[site])]
        return pa.record_batch(columns, schema=schema), moment

    for batch, moment in blocks(simulation, "samples", mean * preset.weeks, make, progress):
        writers.add(batch, moment)
    writers.close()
    return writers.rows


def _in_time_order(simulation: Simulation, user, second, site):
    moment = simulation.to_utc(second)
    order = np.argsort(moment, kind="stable")
    return user[order], moment[order], site[order]


def _write_card(simulation: Simulation, identity: dict, rows: dict[str, int]) -> None:
    """city.json, last: a folder with it is complete."""
    preset = simulation.preset
    zone = ZoneInfo(preset.time_zone)
    start, end = (
        datetime(day.year, day.month, day.day, tzinfo=zone).isoformat() for day in (preset.start, preset.end)
    )
    card = {
        **identity,
        "window": {"start": start, "end": end},
        "time_zone": preset.time_zone,
        "slot_minutes": 60,
        "crs": "EPSG:4326",
        "zones": {
            "file": "zones.geojson",
            "id": "zone",
            "name": "name",
            "count": len(simulation.city.zone_ids),
        },
        "sites": {
            "file": "sites.csv",
            "id": "site",
            "lon": "lon",
            "lat": "lat",
            "count": len(simulation.city.site_ids),
        },
        "sources": {
            kind: {
                "glob": f"{kind}/part-*.parquet",
                "files": len(list((simulation.out / kind).glob("part-*.parquet"))),
                "rows": count,
                "columns": COLUMNS[kind],
            }
            for kind, count in rows.items()
        },
    }
    (simulation.out / "city.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


_MAKERS = {"events": _events, "samples": _samples}
