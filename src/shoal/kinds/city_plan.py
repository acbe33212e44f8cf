"""Plans for a simulated city, so that each kind of release of it is one command away."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

from shoal.kinds.density.plan import DEFAULT_METHOD
from shoal.kinds.histogram.methods import DEFAULT_METHOD as DEFAULT_HISTOGRAM
from shoal.kinds.synthetic.methods import DEFAULT_METHOD as DEFAULT_SYNTHETIC
from shoal.privacy.unit import declared_size
from shoal.space.zones import read_zones

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
