"""Real geography and real movement for benchmarks: what can be had of each, and how to open it.

    paris-iris     992 IRIS zones and Orange's 1,355 mast positions; simulated users who live on them
    sf-hoods       536 taxis, one week of hours, the 41 neighbourhoods of San Francisco
    sf-grid        the same taxis on 500 m squares of the centre
    nyc-month      1,083 check-in users, four weeks of days, 195 neighbourhoods
    nyc-week       the same, one week of hours: nearly empty, to see what methods do with almost nothing

Files come from the folder SHOAL_DATA (default ../shared/data beside the project). What is derived from them
is kept in benchmarks/out, which git ignores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.table import OUT

ROOT = Path(__file__).parents[1]
PARIS_USERS = 1_992_846
QUICK_USERS = 200_000


@dataclass(frozen=True, kw_only=True)
class RealCity:
    """What `open_source`, `open_geography` and `Clock` take, and what to expect of it."""

    name: str
    words: str
    users: int  # order of magnitude, public
    source: dict  # of shoal.events.source.open_source
    space: dict  # of shoal.space.plan.SpacePlan
    window: dict  # of shoal.space.clock.Clock

    def open(self, run_key: bytes = bytes(16)):
        """(setting, counting): the public side, and the events counted under any bound one asks for."""
        from shoal.engine.engine import DuckEngine
        from shoal.events.readers import PlacedEvents
        from shoal.events.source import open_source
        from shoal.kinds.density.build import Counting
        from shoal.kinds.run import Silent
        from shoal.space.clock import Clock
        from shoal.space.geography import open_geography, setting_of
        from shoal.space.plan import SpacePlan

        source, clock = open_source(**self.source), Clock(**self.window)
        geography = open_geography(
            SpacePlan(**self.space), has_sites=source.shape.has_sites, planar=source.planar
        )
        setting = setting_of(geography, clock)
        window_us = (int(clock.edges_us[0]), int(clock.edges_us[-1]))

        def events() -> PlacedEvents:
            return PlacedEvents(source=source, geography=geography, window_us=window_us)

        return setting, Counting(DuckEngine(), events, setting, run_key=run_key, progress=Silent())


def paris_iris(users: int = PARIS_USERS, seed: int = 1) -> RealCity:
    """The zones and masts of the Paris case study; its people are closed data, so they are simulated."""
    from shoal.events.simulate import preset_named
    from shoal.events.simulate.city import city_identity, holds_city, simulate_city
    from shoal.space.places import read_sites, read_zones

    zones = read_zones(real_file("geo/paris_iris.parquet"), id_column="iris_code", name_column="iris_name")
    sites = read_sites(_orange_sites())
    preset = replace(preset_named("paris"), users=users)
    folder = OUT / f"city-paris-iris-{users}-{seed}"
    if not holds_city(folder, city_identity(preset, seed, zones, sites)):
        print(f"simulating {users:,} users on the zones and masts of Paris ...", flush=True)
        simulate_city(preset, folder, seed=seed, zones=zones, sites=sites)
    return simulated(folder, "paris-iris", "real IRIS zones and Orange masts, simulated users")


def simulated(folder: Path, name: str, words: str) -> RealCity:
    """Any folder that the simulator wrote."""
    import json

    card = json.loads((folder / "city.json").read_text("utf-8"))
    source = next(iter(card["sources"].values()))  # events at sites, or points
    sites = {"sites": str(folder / "sites.csv")} if "site" in source["columns"] else {}
    return RealCity(
        name=name,
        words=words,
        users=card["users"],
        source={"paths": str(folder / source["glob"])},
        space={"zones": str(folder / "zones.geojson"), **sites},
        window={
            "start": card["window"]["start"][:19],
            "end": card["window"]["end"][:19],
            "time_zone": card["time_zone"],
        },
    )


def sf_hoods() -> RealCity:
    """Taxis over the neighbourhoods: few users, all on the move, seen in 122 hours of the week each."""
    space = {
        "zones": str(real_file("geo/sf_neighborhoods.parquet")),
        "zone_id": "name",
        "repair_zones": True,
        "holes": "allow",
    }
    return _cabs("sf-hoods", "536 taxis, 41 neighbourhoods, one week of hours", space)


def sf_grid(cell_m: float = 500.0) -> RealCity:
    """Taxis over squares of the centre, about the box of Pyrgelis et al. 2017."""
    space = {"box": (-122.4558, 37.7402, -122.3642, 37.7938), "cell_m": cell_m}
    return _cabs("sf-grid", f"536 taxis, {cell_m:g} m squares of the centre, one week of hours", space)


def _cabs(name: str, words: str, space: dict) -> RealCity:
    return RealCity(
        name=name,
        words=words,
        users=536,
        source={"paths": str(_cab_fixes()), "time_unit": "s"},
        space=space,
        window={"start": "2008-06-02", "end": "2008-06-09", "time_zone": "America/Los_Angeles"},
    )


def nyc_month() -> RealCity:
    """Four weeks of days in the densest stretch of the check-ins: two people per zone and day."""
    return _checkins("nyc-month", "1,083 check-in users, 195 neighbourhoods, 28 days", "2012-05-07", 1440)


def nyc_week() -> RealCity:
    """One week of hours of the check-ins: a visit per zone every six hours, so hardly anything."""
    return _checkins("nyc-week", "1,083 check-in users, 195 neighbourhoods, one week", "2012-04-16", 60)


def _checkins(name: str, words: str, end: str, slot_minutes: int) -> RealCity:
    return RealCity(
        name=name,
        words=words,
        users=1083,
        source={"paths": str(real_file("checkins/foursquare_nyc_1083users.parquet")), "time_unit": "s"},
        space={
            "zones": str(real_file("geo/nyc_neighborhoods.parquet")),
            "zone_id": "ntacode",
            "zone_name": "ntaname",
            "repair_zones": True,
            "holes": "allow",
        },
        window={
            "start": "2012-04-09",
            "end": end,
            "time_zone": "America/New_York",
            "slot_minutes": slot_minutes,
        },
    )


REAL: dict[str, Callable[[], RealCity]] = {
    "paris-iris": paris_iris,
    "sf-hoods": sf_hoods,
    "sf-grid": sf_grid,
    "nyc-month": nyc_month,
    "nyc-week": nyc_week,
}


def data_folder() -> Path:
    return Path(os.environ.get("SHOAL_DATA", ROOT.parent / "shared" / "data"))


def has_data() -> bool:
    return (data_folder() / "geo").is_dir()


def real_file(name: str) -> Path:
    """A file of the real data, or an end with what to do."""
    path = data_folder() / name
    if not path.exists():
        raise SystemExit(f"{name} is not in {data_folder()}: set SHOAL_DATA to the folder of the real data.")
    return path


def _orange_sites() -> Path:
    """Distinct positions of Orange's masts as site,lon,lat; the source has no ids."""
    import pyarrow.parquet as pq

    path = OUT / "paris-orange-sites.csv"
    if not path.exists():
        rows = pq.read_table(real_file("geo/paris_mobile_sites_2018_01.parquet")).to_pylist()
        places = sorted({(row["lon"], row["lat"]) for row in rows if row["operator"] == "Orange"})
        lines = [f"O{i:04d},{lon!r},{lat!r}" for i, (lon, lat) in enumerate(places)]
        OUT.mkdir(exist_ok=True)
        path.write_text("\n".join(["site,lon,lat", *lines]) + "\n", "utf-8")
    return path


def _cab_fixes() -> Path:
    """All fixes but those of the cab `mfeuer` and 78 outliers, as is usual with this data."""
    import duckdb

    path = OUT / "sf-cab-fixes.parquet"
    if not path.exists():
        parts = [str(real_file(f"cabspotting/cabspotting_part{i}.parquet")) for i in (0, 1)]
        OUT.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial")
        duckdb.read_parquet(parts).filter(
            "user_id <> 'mfeuer' AND lat_e5 BETWEEN 3700000 AND 3850000 "
            "AND lon_e5 BETWEEN -12320000 AND -12100000"
        ).project("user_id, timestamp, lat_e5, lon_e5").write_parquet(str(partial))
        partial.replace(path)
    return path
