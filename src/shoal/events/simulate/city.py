"""The whole way from a preset to a folder: geometry, people, then each kind of record, block by block."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from shoal.errors import OutputError
from shoal.events.simulate.geography import make_city
from shoal.events.simulate.people import make_ground
from shoal.events.simulate.presets import CityPreset
from shoal.events.simulate.records import MAKERS, Progress, Simulation
from shoal.events.simulate.rhythm import hour_starts, make_rhythm
from shoal.events.simulate.write import write_geometry, write_sites

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
        if "transit" in preset.what:
            write_sites(out / "stations.csv", city)
        rows = {kind: MAKERS[kind](simulation, progress) for kind in preset.what}
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
