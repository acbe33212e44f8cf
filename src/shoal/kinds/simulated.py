"""Simulated cities to try each kind of release on: nobody is in them; each has a population in the ledger.

Plans for a simulated city, so that each kind of release of it is one command away.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from shoal.kinds.kind import KINDS
from shoal.kinds.plan import read_plan
from shoal.kinds.run import Progress
from shoal.kinds.setting_forms import plan_text
from shoal.privacy.accounting import rho_for
from shoal.privacy.guarantee import declared_size
from shoal.privacy.ledger import Ledger

EPSILON, DELTA = 4.0, 1e-6  # lifetime budget of a simulated population


@dataclass(frozen=True, kw_only=True)
class SimulatedCity:
    """What is simulated for one purpose, and the kinds of release that it is made for."""

    name: str
    title: str
    preset: str
    users: int
    weeks: int
    what: str
    kinds: tuple[str, ...]

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
    from shoal.events.simulate import preset_named
    from shoal.events.simulate.city import city_identity, holds_city, simulate_city

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
        kind: read_plan(write_city_plan(folder, kind, population=city.population)) for kind in city.kinds
    }
    if city.weeks > 1:
        last = preset.start + timedelta(weeks=city.weeks - 1)
        for each in settings.values():
            each["window"]["start"] = last.isoformat()
    return settings


def write_city_plan(
    city: Path,
    kind: str = "density",
    *,
    population: str | None = None,
    out: str = "release",
    owner: str = "owner",
) -> Path:
    """The plan of a kind in the city's folder: records, public files and window as they were simulated."""
    card = json.loads((city / "city.json").read_text("utf-8"))
    window, made = card["window"], KINDS[kind]
    of_city = {
        "population": population or card["preset"],
        "users": declared_size(card["users"]),
        "source.paths": [card["sources"][made.records]["glob"]],
        "window.start": window["start"][:19],
        "window.end": window["end"][:19],
        "window.time_zone": card["time_zone"],
        "out": out,
        "owner": owner,
    }
    if "space.box" in made.city_plan:
        of_city["space.box"] = _round_box(city)
    if "space.origin" in made.city_plan:
        of_city["space.origin"] = _origin(city)
    chosen = {name: value for name, value in made.city_plan.items() if value is not None}
    path = city / f"{kind}.toml"
    command = "synthesize" if kind == "synthetic" else kind
    title = f"# {made.title} of this simulated city: shoal {command} run --plan {kind}.toml"
    path.write_text(plan_text(made.plan, title, made.city_plan, {**of_city, **chosen}), "utf-8")
    return path


def write_missing_plans(city: Path, what: Iterable[str]) -> None:
    """A plan for every kind that can be made of the city's records, where the folder has none."""
    for kind, made in KINDS.items():
        if made.records in what and not (city / f"{kind}.toml").exists():
            write_city_plan(city, kind)


def _origin(city: Path) -> list[float]:
    """A corner south-west of the city's sites, to a tenth of a degree."""
    with open(city / "sites.csv", encoding="utf-8", newline="") as file:
        sites = list(csv.DictReader(file))
    return [math.floor(min(float(site[name]) for site in sites) * 10) / 10 for name in ("lon", "lat")]


def _round_box(city: Path) -> list[float]:
    """Around the city's zones, to a hundredth of a degree."""
    from shoal.space.places import read_zones

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
            kinds=("density",),
        ),
        SimulatedCity(
            name="trips",
            title="GPS trips of a simulated town",
            preset="town",
            users=5_000,
            weeks=1,
            what="trips",
            kinds=("histogram", "synthetic"),
        ),
        SimulatedCity(
            name="walks",
            title="GPS samples of a simulated city",
            preset="abi",
            users=1_000,
            weeks=1,
            what="samples",
            kinds=("trajectories",),
        ),
    )
}
