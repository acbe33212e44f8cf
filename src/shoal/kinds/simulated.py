"""Simulated cities to try each kind of release on: nobody is in them; each has a population in the ledger.

Plans for a simulated city, so that each kind of release of it is one command away.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import city_identity, holds_city, simulate_city
from shoal.kinds.density.plan import DEFAULT_METHOD
from shoal.kinds.histogram.methods import DEFAULT_METHOD as DEFAULT_HISTOGRAM
from shoal.kinds.plan import read_plan
from shoal.kinds.source import Progress
from shoal.kinds.synthetic.methods import DEFAULT_METHOD as DEFAULT_SYNTHETIC
from shoal.privacy.accounting import rho_for
from shoal.privacy.ledger import Ledger
from shoal.privacy.unit import declared_size
from shoal.space.zones import read_zones

EPSILON, DELTA = 4.0, 1e-6  # lifetime budget of a simulated population


@dataclass(frozen=True, kw_only=True)
class SimulatedCity:
    """What is simulated for one purpose; `plans`: kind of release -> its plan file."""

    name: str
    title: str
    preset: str
    users: int
    weeks: int
    what: str
    plans: dict[str, Callable[..., Path]]

    @property
    def population(self) -> str:
        return f"simulated-{self.name}"


def make_simulated(
    city: SimulatedCity, folder: Path, ledger: Ledger, progress: Progress, seed: int = 1
) -> dict[str, dict[str, Any]]:
    """Records, public files and a population; settings of a plan for each kind of release, by kind.

    Asked again, the city that is there is used again. Of two weeks the second is released: the first is what
    an adversary may know of people beforehand.
    """
    preset = replace(preset_named(city.preset), users=city.users, weeks=city.weeks, what=(city.what,))
    if not holds_city(folder, city_identity(preset, seed)):
        progress.stage("simulate", city.users)
        seen = 0

        def advance(kind: str, done: int, users: int) -> None:
            nonlocal seen
            progress.advance(done - seen)
            seen = done

        folder.parent.mkdir(parents=True, exist_ok=True)
        simulate_city(preset, folder, seed=seed, progress=advance)
    if city.population not in ledger.state().populations:
        ledger.create(
            city.population,
            currency="rho",
            limit_nano=rho_for(EPSILON, DELTA),
            delta=DELTA,
            note="simulated: nobody is in it",
        )
    settings = {
        kind: read_plan(write(folder, population=city.population)) for kind, write in city.plans.items()
    }
    if city.weeks > 1:
        last = preset.start + timedelta(weeks=city.weeks - 1)
        for each in settings.values():
            each["window"]["start"] = last.isoformat()
    return settings


PLAN_FILE = "density.toml"
TRAJECTORIES_FILE = "trajectories.toml"
HISTOGRAM_FILE = "histogram.toml"
SYNTHETIC_FILE = "synthetic.toml"


def write_city_plan(
    city: Path, *, population: str | None = None, out: str = "release", owner: str = "owner"
) -> Path:
    """density.toml in the city's folder: events, zones, sites and window as the simulator made them."""
    card = json.loads((city / "city.json").read_text("utf-8"))
    window = card["window"]
    path = city / PLAN_FILE
    path.write_text(
        f"""# A density of this simulated city: shoal density run --plan {PLAN_FILE}
population = "{population or card["preset"]}"
epsilon = 1.0
delta = 1e-6
method = "{DEFAULT_METHOD}"
ell = 30                # visits kept per user
users = {declared_size(card["users"])}  # declared: an order of magnitude, never counted
out = "{out}"
owner = "{owner}"

[source]
paths = ["{card["sources"]["events"]["glob"]}"]

[space]
zones = "zones.geojson"
sites = "sites.csv"

[window]
start = "{window["start"][:19]}"
end = "{window["end"][:19]}"
time_zone = "{card["time_zone"]}"
slot_minutes = 60
""",
        "utf-8",
    )
    return path


def write_trajectories_plan(city: Path, *, population: str | None = None) -> Path:
    """trajectories.toml in the city's folder: samples, window, and a lattice from a corner of its sites."""
    card = json.loads((city / "city.json").read_text("utf-8"))
    with open(city / "sites.csv", encoding="utf-8", newline="") as file:
        sites = list(csv.DictReader(file))
    lon, lat = (math.floor(min(float(site[name]) for site in sites) * 10) / 10 for name in ("lon", "lat"))
    window = card["window"]
    path = city / TRAJECTORIES_FILE
    path.write_text(
        f"""# Records of this simulated city: shoal trajectories run --plan {TRAJECTORIES_FILE}
population = "{population or card["preset"]}"
k = 2
tau_minutes = 30        # how long the adversary tracked somebody
epoch_minutes = 30      # people are grouped anew every so often
out = "records"
owner = "records-owner"

[source]
paths = ["{card["sources"]["samples"]["glob"]}"]

[space]
origin = [{lon}, {lat}]  # corner of the lattice, south-west of the city
cell_m = 100.0

[window]
start = "{window["start"][:19]}"
end = "{window["end"][:19]}"
time_zone = "{card["time_zone"]}"
""",
        "utf-8",
    )
    return path


def write_histogram_plan(city: Path, *, population: str | None = None) -> Path:
    """histogram.toml in the city's folder: trips, window, and a round box around its zones."""
    card = json.loads((city / "city.json").read_text("utf-8"))
    box, window = _round_box(city), card["window"]
    path = city / HISTOGRAM_FILE
    path.write_text(
        f"""# Trips of this simulated city: shoal histogram run --plan {HISTOGRAM_FILE}
population = "{population or card["preset"]}"
epsilon = 0.5
method = "{DEFAULT_HISTOGRAM}"
unit = "user"           # or "trip": then who makes many trips is not protected as a person
trips_per_user = 10     # kept of each user
trips_cap = 40          # of each user in the number of all trips, which answers are scaled up to
out = "histogram"
owner = "histogram-owner"

[source]
paths = ["{card["sources"]["trips"]["glob"]}"]

[space]
box = {box}  # west, south, east, north
cells = 128
zones = "zones.geojson" # recipients may ask by their names

[window]
start = "{window["start"][:19]}"
end = "{window["end"][:19]}"
time_zone = "{card["time_zone"]}"
""",
        "utf-8",
    )
    return path


def write_synthetic_plan(city: Path, *, population: str | None = None) -> Path:
    """synthetic.toml in the city's folder: trips, window, and a round box around its zones."""
    card = json.loads((city / "city.json").read_text("utf-8"))
    box, window = _round_box(city), card["window"]
    path = city / SYNTHETIC_FILE
    path.write_text(
        f"""# Synthetic trips of this simulated city: shoal synthesize run --plan {SYNTHETIC_FILE}
population = "{population or card["preset"]}"
epsilon = 1.0
delta = 1e-6            # without one, much less is kept of users with many trips
method = "{DEFAULT_SYNTHETIC}"
unit = "user"           # or "trip": then who makes many trips is not protected as a person
trips_cap = 40          # of each user in the number of trips
step_s = 60             # of time, in seconds
out = "synthetic"
owner = "synthetic-owner"

[source]
paths = ["{card["sources"]["trips"]["glob"]}"]

[space]
box = {box}  # west, south, east, north
cell_m = 420

[window]
start = "{window["start"][:19]}"
end = "{window["end"][:19]}"
time_zone = "{card["time_zone"]}"
""",
        "utf-8",
    )
    return path


def _round_box(city: Path) -> list[float]:
    """Around the city's zones, to a hundredth of a degree."""
    west, south, east, north = read_zones(city / "zones.geojson", holes="allow").to_lonlat().bounds
    box = [math.floor(west * 100) / 100, math.floor(south * 100) / 100]
    return [*box, math.ceil(east * 100) / 100, math.ceil(north * 100) / 100]


CITIES = {
    each.name: each
    for each in (
        SimulatedCity(
            name="town",
            title="Phone events of a simulated town",
            preset="town",
            users=20_000,
            weeks=2,
            what="events",
            plans={"density": write_city_plan},
        ),
        SimulatedCity(
            name="trips",
            title="GPS trips of a simulated town",
            preset="town",
            users=5_000,
            weeks=1,
            what="trips",
            plans={"histogram": write_histogram_plan, "synthetic": write_synthetic_plan},
        ),
        SimulatedCity(
            name="walks",
            title="GPS samples of a simulated city",
            preset="abi",
            users=1_000,
            weeks=1,
            what="samples",
            plans={"trajectories": write_trajectories_plan},
        ),
    )
}
