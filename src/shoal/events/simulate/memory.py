"""A simulated city without a folder: its geometry, its events as batches that can be read again, and diaries.

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

import numpy as np
import pyarrow as pa
import shapely
from numba import njit

from shoal.errors import GeometryError, PlanError
from shoal.events.simulate.city import prepare_simulation
from shoal.events.simulate.people import make_people
from shoal.events.simulate.presets import CityPreset
from shoal.events.simulate.records import Simulation, event_blocks
from shoal.events.simulate.rhythm import WEEK_MINUTES, empty_week, plan_week
from shoal.events.simulate.visits import _place
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


def simulate_positions(
    preset: CityPreset, *, seed: int, slot_minutes: int = 30
) -> tuple[np.ndarray, np.ndarray]:
    """Whole diaries of a week, as no operator sees them: where everybody is in every slot.

    Returns int32 [users, slots], the site nearest to each user in the middle of each slot of the first week,
    and float64 [sites, 2], where the sites lie, in metres. For attacks on counts that assume each user to be
    somewhere in each slot.

    >>> from shoal.events.simulate import preset_named
    >>> town = replace(preset_named("town"), users=5, zones=8, sites=12)
    >>> positions, site_xy_m = simulate_positions(town, seed=1)
    >>> positions.shape, site_xy_m.shape
    ((5, 336), (12, 2))
    """
    if slot_minutes < 1 or 1440 % slot_minutes:
        raise PlanError("slot-minutes", f"slot_minutes must divide 1440; got {slot_minutes}.")
    simulation = prepare_simulation(replace(preset, weeks=1), Path(), seed)
    people = make_people(simulation.ground, seed, 0, preset.users)
    positions = np.empty((preset.users, WEEK_MINUTES // slot_minutes), np.int32)
    _fill_positions(positions, simulation.ground, people, seed, slot_minutes)
    return positions, simulation.city.xy


@njit(cache=True, nogil=True)
def _fill_positions(positions, ground, people, seed, slot_minutes):
    state = np.empty(1, np.uint64)
    stays = empty_week()
    for i in range(positions.shape[0]):
        plan_week(stays, state, ground, people, i, seed, 0)
        for slot in range(positions.shape[1]):
            middle = int((slot + 0.5) * slot_minutes * 60)
            positions[i, slot] = _place(stays, ground, middle)[0]
