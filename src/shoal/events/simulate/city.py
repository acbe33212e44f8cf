"""The whole way from a preset to a folder: geometry, people, then each kind of record, block by block."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from shoal.errors import OutputError, PlanError
from shoal.events.simulate.gatherings import place_gatherings, write_gatherings
from shoal.events.simulate.geography import make_city
from shoal.events.simulate.people import make_ground
from shoal.events.simulate.presets import CityPreset
from shoal.events.simulate.records import MAKERS, Progress, Simulation, write_geometry, write_sites
from shoal.events.simulate.rhythm import hour_starts, make_rhythm
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
