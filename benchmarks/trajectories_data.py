"""Data sets of the trajectory benchmarks as samples on a lattice: simulated cities, taxis, check-ins."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.table import OUT
from shoal.events.simulate import preset_named
from shoal.events.simulate.city import city_identity, holds_city, simulate_city
from shoal.kinds.plan import read_plan
from shoal.kinds.simulated import write_city_plan
from shoal.kinds.trajectories.blocks import open_samples
from shoal.kinds.trajectories.plan import TrajectoryPlan
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import LatticeSamples

ROOT = Path(__file__).parents[1]
WORDS = {
    "abi": "simulated, preset abi",
    "abi-wandering": "the same, three records of ten served by a neighbouring site instead of one of ten",
    "cabs": "San Francisco taxis, real, seven days from 19 May 2008",
    "checkins": "Foursquare check-ins in New York, real, ten months",
}


def samples_of(data: str, users: int | None, days: int) -> tuple[LatticeSamples, Lattice]:
    """Samples of the first `days` days; `users` is the size of a simulated city."""
    if data.startswith("abi"):
        return _simulated(data, users, days)
    return _cabs(days) if data == "cabs" else _checkins(days)


def real_folder() -> Path:
    return Path(os.environ.get("SHOAL_DATA", ROOT.parent / "shared" / "data"))


def _simulated(data: str, users: int | None, days: int) -> tuple[LatticeSamples, Lattice]:
    preset = preset_named("abi")
    preset = replace(preset, users=users or preset.users, weeks=-(-days // 7))
    if data == "abi-wandering":
        preset = replace(preset, samples_wander=0.3)
    folder = OUT / f"city-{data}-{preset.users}-{preset.weeks}w"
    if not holds_city(folder, city_identity(preset, 1, None, None)):
        print(f"simulating {preset.users:,} users of {data} ...", flush=True)
        simulate_city(preset, folder, seed=1)
    settings = read_plan(write_city_plan(folder, "trajectories"))
    settings["window"]["end"] = f"{preset.start.replace(day=preset.start.day + days).isoformat()}T00:00:00"
    samples, _, lattice = open_samples(TrajectoryPlan.from_settings(settings))
    return samples, lattice


def _cabs(days: int) -> tuple[LatticeSamples, Lattice]:
    """536 taxis; one cab with 103 fixes and 78 outliers are left out."""
    parts = sorted((real_folder() / "cabspotting").glob("cabspotting_part*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    start = datetime(2008, 5, 19, tzinfo=ZoneInfo("America/Los_Angeles")).astimezone(UTC)
    lattice = Lattice(start=start, steps=days * 1440, origin=(-123.2, 37.0))
    lon, lat = (table[name].to_numpy() / 1e5 for name in ("lon_e5", "lat_e5"))
    cab = table["user_id"].cast(pa.string()).combine_chunks()
    known = (lat >= 37) & (lat <= 38.5) & (lon >= -123.2) & (lon <= -121)
    known &= ~np.asarray(pa.compute.equal(cab, "mfeuer"))
    return _placed(cab, table["timestamp"].to_numpy(), lon, lat, known, lattice), lattice


def _checkins(days: int) -> tuple[LatticeSamples, Lattice]:
    table = pq.read_table(real_folder() / "checkins" / "foursquare_nyc_1083users.parquet")
    start = datetime(2012, 4, 3, tzinfo=ZoneInfo("America/New_York")).astimezone(UTC)
    lattice = Lattice(start=start, steps=days * 1440, origin=(-74.3, 40.5))
    lon, lat = table["lon"].to_numpy(), table["lat"].to_numpy()
    user = table["user_id"].cast(pa.string()).combine_chunks()
    return _placed(user, table["timestamp"].to_numpy(), lon, lat, np.ones(len(lon), bool), lattice), lattice


def _placed(name, seconds, lon, lat, known, lattice: Lattice) -> LatticeSamples:
    step = lattice.step_of(seconds.astype(np.int64) * 1_000_000)
    inside = known & (step >= 0) & (step < lattice.steps)
    coded = name.filter(pa.array(inside)).dictionary_encode()
    x, y = lattice.cell_of(lon[inside], lat[inside])
    user = coded.indices.to_numpy(zero_copy_only=False)
    return LatticeSamples.of(user, step[inside], x, y, users=len(coded.dictionary), steps=lattice.steps)
