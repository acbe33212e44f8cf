"""A plan for a simulated city, so that its density is one command away."""

from __future__ import annotations

import json
from pathlib import Path

from shoal.flows.plan import DEFAULT_METHOD

PLAN_FILE = "density.toml"


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
users = {card["users"]}  # how many there are, about; declared, never counted
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
