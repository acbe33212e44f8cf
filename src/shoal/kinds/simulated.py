"""Simulated cities to try each kind of release on: nobody is in them; each has a population in the ledger.

Plans for a simulated city, so that each kind of release of it is one command away; and the demo, the whole
way on one: simulate, open a ledger, release a density, draw the report.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.kinds.kind import KINDS, Kind
from shoal.kinds.plan import read_plan
from shoal.kinds.setting_forms import plan_text
from shoal.privacy.guarantee import declared_size
from shoal.privacy.ledger import Ledger, open_ledger, pots_within

if TYPE_CHECKING:
    from shoal.events.simulate.presets import CityPreset
    from shoal.kinds.density.prepare import PreparedDensity
    from shoal.kinds.run import Progress, RunResult

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

    A second call uses the city that is there. Where the city has two weeks, the second is released; the first
    is what an adversary may know of people beforehand.
    """
    from shoal.events.simulate import preset_named

    preset = replace(preset_named(city.preset), users=city.users, weeks=city.weeks, what=(city.what,))
    _simulate(preset, folder, seed, progress)
    _open_population(ledger, city.population, "simulated: nobody is in it")
    settings = {
        kind: read_plan(write_city_plan(folder, kind, population=city.population)) for kind in city.kinds
    }
    if city.weeks > 1:
        last = preset.start + timedelta(weeks=city.weeks - 1)
        for each in settings.values():
            each["window"]["start"] = last.isoformat()
    return settings


def _simulate(preset: CityPreset, folder: Path, seed: int, progress: Progress) -> None:
    """The city into `folder`, unless it is there already."""
    from shoal.events.simulate.city import city_identity, holds_city, simulate_city

    if not holds_city(folder, city_identity(preset, seed)):
        folder.parent.mkdir(parents=True, exist_ok=True)
        simulate_city(preset, folder, seed=seed, progress=record_by_record(progress))


def record_by_record(progress: Progress) -> Callable[[str, int, int], None]:
    """Reports how many users have records of a kind; each kind is a stage."""
    done_before: dict[str, int] = {}

    def advance(kind: str, done: int, users: int) -> None:
        if kind not in done_before:
            progress.stage(f"simulate {kind}", users)
        progress.advance(done - done_before.get(kind, 0))
        done_before[kind] = done

    return advance


def _open_population(ledger: Ledger, name: str, note: str) -> None:
    if name not in ledger.state().populations:
        ledger.create(name, pots=pots_within(EPSILON, DELTA), delta=DELTA, note=note)


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
    window, row = card["window"], KINDS[kind]
    records = _records_of(row, card["sources"])
    of_city = {
        "population": population or card["preset"],
        "users": declared_size(card["users"]),
        "source.paths": [card["sources"][records]["glob"]],
        "window.start": window["start"][:19],
        "window.end": window["end"][:19],
        "window.time_zone": card["time_zone"],
        "out": out,
        "owner": owner,
    }
    if "space.box" in row.city_plan:
        of_city["space.box"] = _round_box(city)
    if "space.origin" in row.city_plan:
        of_city["space.origin"] = _origin(city)
    names = [name for name in row.city_plan if records != "points" or name != "space.sites"]
    chosen = {name: row.city_plan[name] for name in names if row.city_plan[name] is not None}
    path = city / f"{kind}.toml"
    command = "synthesize" if kind == "synthetic" else kind
    title = f"# {row.title} of this simulated city: shoal {command} run --plan {kind}.toml"
    path.write_text(plan_text(row.plan, title, names, {**of_city, **chosen}), "utf-8")
    return path


def write_missing_plans(city: Path, what: Iterable[str]) -> None:
    """A plan for every kind that can be made of the city's records, where the folder has none."""
    for kind, row in KINDS.items():
        if _records_of(row, what) in what and not (city / f"{kind}.toml").exists():
            write_city_plan(city, kind)


def _records_of(row: Kind, what: Iterable[str]) -> str:
    """The kind of record that a plan reads: a density takes points where people are not seen at sites."""
    return "points" if row.records == "events" and "events" not in what else row.records


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


DEMO = "demo-town"


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demo made and where."""

    city: Path
    ledger: Path
    prepared: PreparedDensity
    result: RunResult
    report: Path
    utility: dict


def run_demo(folder: Path, *, users: int, seed: int, progress: Progress) -> Demo:
    """Everything into `folder`; asked again, what is there already is used again and nothing is spent."""
    from shoal.events.simulate import preset_named
    from shoal.kinds.density.prepare import prepare_density
    from shoal.kinds.owner import utility_file
    from shoal.kinds.run import run

    city = folder / "city"
    _simulate(replace(preset_named("town"), users=users), city, seed, progress)
    plan_file = write_city_plan(city, population=DEMO, out="../release", owner="../owner")
    book = open_ledger(folder / "ledger.sqlite")
    _open_population(book, DEMO, "simulated")
    plan = KINDS["density"].plan.from_settings(read_plan(plan_file))
    prepared = _unreleased_or_present(prepare_density(plan), book)
    result = run(prepared, book, progress=progress)
    assert result.report is not None  # the city is the one that the release was made from
    utility = json.loads(utility_file(result.report).read_text("utf-8"))
    return Demo(
        city=city,
        ledger=folder / "ledger.sqlite",
        prepared=prepared,
        result=result,
        report=result.report,
        utility=utility,
    )


def _unreleased_or_present(prepared: PreparedDensity, book: Ledger) -> PreparedDensity:
    """Where the demo's release or its city is gone, make another one under a new run id; it spends again."""
    attempt, digest = 1, prepared.source_digest()
    while (stored := book.find(DEMO, prepared.key())) and not (
        Path(stored.path).exists() and stored.source_digest == digest
    ):
        attempt += 1
        prepared = replace(prepared, plan=replace(prepared.plan, run_id=str(attempt)))
    return prepared
