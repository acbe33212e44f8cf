"""Where methods are compared: a simulated city shaped like the declared population, or the owner's events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from shoal.engine.duck import DuckEngine
from shoal.engine.protocol import Engine
from shoal.errors import GeometryError, PlanError
from shoal.events.simulate import preset_named
from shoal.events.simulate.memory import can_simulate, simulate_in_memory, whole_weeks
from shoal.kinds.counting import Counting
from shoal.kinds.density.build import DensityBuild
from shoal.kinds.density.prepare import PreparedDensity
from shoal.kinds.plan import WindowPlan, part_of
from shoal.kinds.progress import Progress, Silent
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import OsNoise, SeededNoise
from shoal.space.clock import Clock
from shoal.space.geography import Geography, SpacePlan, open_geography
from shoal.space.setting import setting_of
from shoal.space.zones import Zones

MOST_USERS = 200_000  # where the owner declares none: larger cities take minutes
OWN_GROUND = "paris"  # whose people are put on given zones
NOT_PRIVATE = (
    "These figures were computed on private data. Choosing a method or a parameter by them is not covered by "
    "any promise: later manifests of this population say tuned_on_private_data: recorded."
)


@dataclass(frozen=True, kw_only=True)
class World:
    """Counts to compare on, and what to say of them."""

    counting: Counting
    zones: Zones
    private: bool
    subtitle: str
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    users: int | None = field(default=None)


def simulated_world(
    settings: Mapping[str, Any],
    *,
    city: str | None = None,
    users: int | None = None,
    seed: int = 1,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> World:
    """A simulated city on the plan's zones, sites and window where it has them; no event file is opened."""
    tell = progress or Silent()
    said: list[str] = []
    geography = _given_ground(settings, said)
    preset = preset_named(city or ("town" if geography is None else OWN_GROUND))
    if users is None:
        users = min(preset.users, MOST_USERS)
        said.append(f"The population is not declared; {users:,} users were simulated. Say --users N.")
    preset = replace(preset, users=users)
    window = settings.get("window")
    clock = (
        Clock(**asdict(part_of(WindowPlan, window, "window")))
        if window
        else Clock.week(preset.start, preset.time_zone)
    )
    geography, events = simulate_in_memory(preset, clock, seed=seed, geography=geography)
    said.append(
        f"Each user makes about {preset.visits_mean:g} visits a week (standard deviation "
        f"{preset.visits_sd:g}): what the simulated city `{preset.name}` is set to. Your people may differ."
    )
    counting = Counting(
        engine or DuckEngine(),
        lambda: events,
        setting_of(geography, clock),
        run_key=SeededNoise(seed).run_key(),
        progress=tell,
        rows=round(users * preset.visits_mean * whole_weeks(clock)[1]),
    )
    sites = "" if geography.sites is None else f", {geography.sites.count:,} sites"
    ground = f"{geography.zones.count:,} zones{sites}, {clock.slots} slots"
    return World(
        counting=counting,
        zones=geography.zones,
        private=False,
        subtitle=f"Simulated city: {users:,} users, {ground}",
        assumptions=tuple(said),
        users=users,
    )


def private_world(
    prepared: PreparedDensity,
    ledger: Ledger,
    where: str,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> World:
    """The owner's own events; the ledger lists the look and the choice before anything is counted."""
    population = prepared.plan.population
    making = DensityBuild(prepared, progress, engine=engine)
    ledger.state().population(population)
    making.check()
    ledger.look(population, "comparison of density methods with exact counts", where)
    zones, clock = prepared.geography.zones, prepared.clock
    return World(
        counting=making.counts_under(OsNoise().run_key()),
        zones=zones,
        private=True,
        subtitle=f"{population}: {zones.count:,} zones, {clock.slots} slots",
        warnings=(NOT_PRIVATE,),
    )


def _given_ground(settings: Mapping[str, Any], said: list[str]) -> Geography | None:
    """The plan's zones and sites, where it has them and a city can lie on them."""
    if not settings.get("space"):
        return None
    space = part_of(SpacePlan, settings["space"], "space")
    try:
        geography = open_geography(space, has_sites=space.sites is not None, planar=False)
    except (PlanError, GeometryError) as error:
        if error.code not in ("plan-planar", "crs-missing"):
            raise
        geography = None
    if geography is None or not can_simulate(geography):
        said.append(
            "The zones of the plan have no place on the globe, or too many places, for the simulator: a city "
            "of its own was used instead."
        )
        return None
    return geography
