"""Events drawn in memory are the events that would be written, and lie over a given window and zones."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import can_simulate, simulate_city, simulate_in_memory, whole_weeks
from shoal.space.checks import LONLAT
from shoal.space.clock import Clock
from shoal.space.geography import AreaWeights, Geography
from shoal.space.grid import square_grid

TOWN = replace(preset_named("town"), users=60)
WEEK = Clock.week("2026-03-02", "Europe/Paris")


def rows(events):
    return sorted(
        row
        for batch in events
        for row in zip(*(batch.column(name).to_pylist() for name in ("user", "time_us", "site")), strict=True)
    )


def test_the_same_events_as_in_a_folder(tmp_path):
    simulate_city(TOWN, tmp_path / "town", seed=5)
    geography, events = simulate_in_memory(TOWN, WEEK, seed=5)
    table = pq.read_table(tmp_path / "town" / "events")
    number = {site: i for i, site in enumerate(geography.site_ids)}
    written = sorted(
        (user, int(time.timestamp() * 10**6), number[site])
        for user, time, site in zip(*(table[c].to_pylist() for c in ("user", "time", "site")), strict=True)
    )
    assert rows(events) == written
    assert rows(events) == written  # read again


def test_large_cities_are_read_again_from_a_file(monkeypatch):
    monkeypatch.setattr("shoal.events.simulate.city.KEPT_ROWS", 10)
    _, events = simulate_in_memory(TOWN, WEEK, seed=5)
    next(iter(events))  # a reader that stops early leaves nothing half-drawn behind
    assert rows(events) == rows(events)
    assert events._file is not None
    assert events._kept is None
    monkeypatch.undo()
    assert rows(simulate_in_memory(TOWN, WEEK, seed=5)[1]) == rows(events)


def test_given_zones_without_sites_are_their_own_places_on_the_globe():
    zones = square_grid((2.25, 48.81, 2.42, 48.91), 4000, crs=LONLAT)
    given = Geography(zones, None, AreaWeights.identity(zones.count))
    clock = Clock(start="2026-03-04", end="2026-03-11", time_zone="UTC")
    geography, events = simulate_in_memory(TOWN, clock, seed=5, geography=given)
    assert geography is given
    sites = np.concatenate([batch.column("site").to_numpy() for batch in events])
    moments = np.concatenate([batch.column("time_us").to_numpy() for batch in events])
    assert set(sites.tolist()) <= set(range(zones.count))
    assert len(set(sites.tolist())) > 3
    assert (clock.slot_of(moments) >= 0).mean() > 0.3  # two weeks were drawn for one of them
    assert whole_weeks(clock)[1] == 2
    planar = square_grid((0, 0, 4000, 4000), 1000, crs=None)
    assert not can_simulate(Geography(planar, None, AreaWeights.identity(planar.count)))
    globe = square_grid((2.25, 48.81, 2.42, 48.91), 4000, crs=LONLAT)
    assert can_simulate(Geography(globe, None, AreaWeights.identity(globe.count)))
