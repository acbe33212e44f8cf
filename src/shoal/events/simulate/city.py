"""The whole way from a preset to a folder: geometry, people, then each kind of record, block by block.

Or without a folder: the geometry, and events as batches that can be read again, for looks at what a method
would do on a population of a declared size. No real event is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import IO
from zoneinfo import ZoneInfo

import pyarrow as pa
import shapely

from shoal.errors import GeometryError, OutputError, PlanError
from shoal.events.simulate.gatherings import place_gatherings, write_gatherings
from shoal.events.simulate.geography import make_city
from shoal.events.simulate.people import make_ground
from shoal.events.simulate.presets import CityPreset
from shoal.events.simulate.records import (
    MAKERS,
    Progress,
    Simulation,
    event_blocks,
    write_geometry,
    write_sites,
)
from shoal.events.simulate.rhythm import hour_starts, make_rhythm
from shoal.space.checks import LONLAT
from shoal.space.clock import Clock
from shoal.space.geography import Geography, voronoi_weights
from shoal.space.places import Sites, Zones

COLUMNS = {
    "events": ("user", "time", "site"),
    "points": ("user", "time", "lon", "lat"),
    "samples": ("user", "time", "lon", "lat"),
    "trips": ("user", "trip", "time", "lon", "lat"),
    "transit": ("user", "start_time", "start_site", "end_time", "end_site"),
}


def simulate_city(
    preset: CityPreset,
    out: Path,
    *,
    seed: int,
    progress: Progress | None = None,
    zones: Zones | None = None,
    sites: Sites | None = None,
    parts: int | None = None,
) -> Path:
    """Write a city into the folder `out` and return it; the same city already there is left as it is.

    `zones` and `sites` replace the preset's own geometry; `parts` is the number of files of each kind.
    """
    out = Path(out)
    identity = city_identity(preset, seed, zones, sites)
    if holds_city(out, identity):
        return out
    if parts is not None and parts < 1:
        raise PlanError("simulate-range", f"parts must be at least 1; got {parts}.")
    work = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        work.mkdir(parents=True)
        simulation = prepare_simulation(preset, work, seed, zones, sites, parts)
        write_geometry(work, simulation.city)
        if simulation.gatherings:
            write_gatherings(work / "events.csv", simulation.gatherings, simulation.city, preset)
        if "transit" in preset.what:
            write_sites(work / "stations.csv", simulation.city)
        rows = {kind: MAKERS[kind](simulation, progress) for kind in preset.what}
        _write_card(simulation, identity, rows)
        work.replace(out)
    except OSError as error:
        raise OutputError(
            "simulate-write",
            f"cannot write the city to {out}: {error.strerror or error}.",
            "Choose another --out, or free some space.",
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out


def prepare_simulation(
    preset: CityPreset,
    work: Path,
    seed: int,
    zones: Zones | None = None,
    sites: Sites | None = None,
    parts: int | None = None,
) -> Simulation:
    """Geometry, attraction and rhythm of a city; no record is drawn yet."""
    preset = replace(
        preset, zones=zones.count if zones else preset.zones, sites=sites.count if sites else preset.sites
    )
    city = make_city(preset, seed, zones, sites)
    ground = make_ground(city, preset, seed)
    return Simulation(
        preset=preset,
        seed=seed,
        city=city,
        ground=ground,
        rhythm=make_rhythm(city, preset, ground.crowds, seed),
        gatherings=place_gatherings(city, ground, preset, seed),
        starts=hour_starts(preset),
        out=work,
        parts=parts,
    )


def city_identity(
    preset: CityPreset, seed: int, zones: Zones | None = None, sites: Sites | None = None
) -> dict:
    """What makes two cities the same; compared with city.json."""
    return {
        "preset": preset.name,
        "seed": seed,
        "users": preset.users,
        "weeks": preset.weeks,
        "parameters": preset.as_json(),
        "own_zones": None if zones is None else zones.digest(),
        "own_sites": None if sites is None else sites.digest(),
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
        stored = json.loads(card.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = {}
    if isinstance(stored, dict) and all(stored.get(key) == value for key, value in identity.items()):
        return True
    raise OutputError(
        "simulate-out",
        f"the folder {out} is not empty and does not hold this city.",
        "Choose another --out, or remove the folder.",
    )


_ZONES_CARD = {"file": "zones.geojson", "id": "zone", "name": "name"}
_SITES_CARD = {"file": "sites.csv", "id": "site", "lon": "lon", "lat": "lat"}


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
        "zones": {**_ZONES_CARD, "count": simulation.city.zones.count},
        "sites": {**_SITES_CARD, "count": len(simulation.city.site_ids)},
        "sources": {
            kind: {
                "glob": f"{kind}/part-*.parquet",
                "files": len(list((simulation.out / kind).glob("part-*.parquet"))),
                "rows": count,
                "columns": {role: role for role in COLUMNS[kind]},  # every column is named as its role
            }
            for kind, count in rows.items()
        },
    }
    (simulation.out / "city.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


KEPT_ROWS = 8_000_000  # up to here events stay in memory (20 bytes each), else in a temporary file
SCHEMA = pa.schema([("user", pa.int64()), ("time_us", pa.int64()), ("site", pa.int32())])


@dataclass(kw_only=True)
class SimulatedEvents:
    """Batches user, time_us, site of a simulated city; drawn once, the same ones each time they are read."""

    simulation: Simulation = field(repr=False)
    _kept: list[pa.RecordBatch] | None = field(default=None, repr=False)
    _file: IO[bytes] | None = field(default=None, repr=False)  # gone when the object is

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        preset = self.simulation.preset
        if self._kept is not None:
            yield from self._kept
        elif self._file is not None:
            with pa.memory_map(self._file.name) as mapped, pa.ipc.open_stream(mapped) as stream:
                yield from stream
        elif preset.users * preset.visits_mean * preset.weeks <= KEPT_ROWS:
            batches = []
            for batch in self._draw():
                batches.append(batch)
                yield batch
            self._kept = batches
        else:
            file = tempfile.NamedTemporaryFile(prefix="shoal-simulated-")  # noqa: SIM115 (kept open)
            with pa.ipc.new_stream(file, SCHEMA) as writer:
                for batch in self._draw():
                    writer.write_batch(batch)
                    yield batch
            file.flush()
            self._file = file

    def _draw(self) -> Iterator[pa.RecordBatch]:
        for user, second, site in event_blocks(self.simulation):
            columns = [pa.array(user), pa.array(second * 1_000_000), pa.array(site, pa.int32())]
            yield pa.record_batch(columns, schema=SCHEMA)


def simulate_in_memory(
    preset: CityPreset, clock: Clock, *, seed: int, geography: Geography | None = None
) -> tuple[Geography, SimulatedEvents]:
    """Events over the clock's window: on the preset's own zones and sites, or on given ones.

    Where a geography has no sites, people are seen at the middle of its zones.
    """
    first, weeks = whole_weeks(clock)
    preset = replace(preset, start=first, weeks=weeks, time_zone=clock.time_zone)
    zones = None if geography is None else geography.zones.to_lonlat()
    sites = None if zones is None or geography is None else geography.sites or _middles(zones)
    simulation = prepare_simulation(preset, Path(), seed, zones, sites)
    if geography is None:
        city, own = simulation.city, simulation.city.zones
        given = Sites(tuple(map(str, city.site_ids)), *city.site_lonlat, LONLAT)
        geography = Geography(own, given, voronoi_weights(given, own))
    return geography, SimulatedEvents(simulation=simulation)


def whole_weeks(clock: Clock) -> tuple[date, int]:
    """The Monday on or before the window, and how many weeks reach over it.

    >>> whole_weeks(Clock(start="2026-03-04", end="2026-03-11", time_zone="Europe/Paris"))
    (datetime.date(2026, 3, 2), 2)
    """
    first = clock.start.date() - timedelta(days=clock.start.weekday())
    last = (clock.end - timedelta(microseconds=1)).date()
    return first, (last - first).days // 7 + 1


def _middles(zones: Zones) -> Sites:
    """A point inside each zone, so that a zone is its own site."""
    points = shapely.get_coordinates(shapely.point_on_surface(zones.geometry))
    return Sites(zones.ids, points[:, 0], points[:, 1], LONLAT)


def can_simulate(geography: Geography) -> bool:
    """Whether the simulator can lie over these zones: it needs their place on the globe."""
    try:
        geography.zones.to_lonlat()
    except GeometryError:
        return False
    sites = geography.sites
    return geography.places <= 6000 and (sites is None or sites.crs is not None)
