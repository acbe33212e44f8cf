"""The cities on which intervals and verdicts of densities are checked: simulated, taxis, check-ins.

Windows and filters are those of the data's index: taxis without `mfeuer`, 19 to 26 May 2008; the sample of 49
taxis, 18 to 25 May 2008; check-ins of April 2012, by day, and of 9 to 16 April 2012, by hour.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from benchmarks import real_cities
from benchmarks.city import simulated_city
from benchmarks.density_cities import BenchCity, OpenCity
from benchmarks.real_cities import RealCity, real_file, simulated
from benchmarks.table import OUT
from shoal.space.clock import Clock
from shoal.space.places import read_zones

NYC = "America/New_York"
MONTH = {"start": "2012-04-01", "end": "2012-05-01", "time_zone": NYC, "slot_minutes": 1440}
WEEK = {"start": "2012-04-09", "end": "2012-04-16", "time_zone": NYC}
CAB_WEEK = {"start": "2008-05-19", "end": "2008-05-26", "time_zone": "America/Los_Angeles"}
SAMPLE_WEEK = CAB_WEEK | {"start": "2008-05-18", "end": "2008-05-25"}


@dataclass(frozen=True, kw_only=True)
class HonestCity(BenchCity):
    """A city, and how many noise seeds it is run with."""

    seeds: int = 20
    tuned: bool = False  # constants of `best` or of the verdict were chosen with a look at it
    quick: bool = False  # also in the small run

    def event_cells(self, opened: OpenCity) -> np.ndarray | None:
        """bool [zones, slots]: cells of one-off events, or None where the city has none."""
        folder = Path(self.source().source["paths"]).parents[1]
        return _event_cells(folder, opened.setting.clock) if (folder / "events.csv").exists() else None


def _event_cells(folder: Path, clock: Clock) -> np.ndarray:
    """Read from what the simulator writes about its events; weekly ones are no one-off events."""
    zone_of = {name: i for i, name in enumerate(read_zones(folder / "zones.geojson").ids)}
    starts = np.asarray(clock.edges_us[:-1])
    zone = ZoneInfo(clock.time_zone)
    cells = np.zeros((len(zone_of), len(starts)), bool)
    for row in csv.DictReader((folder / "events.csv").open(encoding="utf-8")):
        if row["repeats"] != "once" or row["zone"] not in zone_of or row["records"] != "points":
            continue
        first, last = (
            datetime.fromisoformat(row[end]).replace(tzinfo=zone).timestamp() * 1e6
            for end in ("start", "end")
        )
        cells[zone_of[row["zone"]], (starts >= first) & (starts < last)] = True
    return cells


def _simulated(preset: str, users: int, seed: int = 1, **more) -> HonestCity:
    words = f"simulated {preset}, seed {seed}"
    return HonestCity(
        name=preset if seed == 1 else f"{preset}-{seed}",
        users=users,
        words=words,
        source=lambda: simulated(simulated_city(preset, users, seed), preset, words),
        **more,
    )


def _real(name: str, users: int, words: str, open_city, **more) -> HonestCity:
    return HonestCity(name=name, users=users, words=words, source=open_city, **more)


def hoods_of_cabs() -> RealCity:
    return replace(real_cities.sf_hoods(), window=CAB_WEEK)


def squares_of_cabs() -> RealCity:
    return replace(real_cities.sf_grid(), window=CAB_WEEK)


def sample_week() -> RealCity:
    """49 taxis over the neighbourhoods."""
    source = {"paths": str(real_file("cabspotting/sample_49cabs_7days.parquet")), "time_unit": "s"}
    return replace(real_cities.sf_hoods(), name="sf-49", users=49, source=source, window=SAMPLE_WEEK)


def check_ins(zones: str, window: dict) -> RealCity:
    """Check-ins in neighbourhoods or boroughs."""
    city = replace(real_cities.nyc_week(), window=window)
    if zones == "boroughs":
        space = {"zones": str(_boroughs()), "zone_id": "boro_name", "repair_zones": True, "holes": "allow"}
        city = replace(city, space=space)
    return city


def _boroughs() -> Path:
    """The five boroughs, joined of their neighbourhoods."""
    import geopandas

    path = OUT / "nyc-boroughs.parquet"
    if not path.exists():
        hoods = geopandas.read_parquet(real_file("geo/nyc_neighborhoods.parquet"))
        hoods["geometry"] = hoods.geometry.make_valid()
        OUT.mkdir(exist_ok=True)
        hoods.dissolve("boro_name").reset_index()[["boro_name", "geometry"]].to_parquet(path)
    return path


CITIES: tuple[HonestCity, ...] = (
    _simulated("town", 20_000, quick=True),
    _simulated("paris", 200_000, tuned=True),
    _simulated("paris", 2_000_000, seeds=5, tuned=True),
    _simulated("rough", 400_000),
    _simulated("events-city", 50_000, quick=True),
    _real("sf-hoods", 516, "taxis, 41 neighbourhoods", hoods_of_cabs, tuned=True, quick=True),
    _real("sf-grid", 516, "taxis, 500 m squares", squares_of_cabs, tuned=True),
    _real("sf-49", 49, "49 taxis, 41 neighbourhoods", sample_week, tuned=True, quick=True),
    _real("nyc-month", 1083, "check-ins, neighbourhoods", lambda: check_ins("hoods", MONTH), tuned=True),
    _real("nyc-week", 1083, "check-ins, neighbourhoods", lambda: check_ins("hoods", WEEK)),
    _real("nyc-boroughs-month", 1083, "check-ins, boroughs", lambda: check_ins("boroughs", MONTH)),
    _real("nyc-boroughs-week", 1083, "check-ins, boroughs", lambda: check_ins("boroughs", WEEK), quick=True),
)
