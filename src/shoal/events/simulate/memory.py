"""A simulated city without a folder: its geometry, and its events as batches that can be read again.

For looks at what a method would do on a population of a declared size; nothing is written and no real event
is touched.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import IO

import pyarrow as pa
import shapely

from shoal.errors import GeometryError
from shoal.events.simulate.city import prepare_simulation
from shoal.events.simulate.presets import CityPreset
from shoal.events.simulate.records import Simulation, event_blocks
from shoal.space.checks import LONLAT
from shoal.space.clock import Clock
from shoal.space.geography import Geography, voronoi_weights
from shoal.space.places import Sites, Zones

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
