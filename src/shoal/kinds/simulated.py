"""Simulated cities to try each kind of release on: nobody is in them; each has a population in the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import city_identity, holds_city, simulate_city
from shoal.kinds.city_plan import (
    write_city_plan,
    write_histogram_plan,
    write_synthetic_plan,
    write_trajectories_plan,
)
from shoal.kinds.plan import read_plan
from shoal.kinds.progress import Progress
from shoal.privacy.accounting import rho_for
from shoal.privacy.ledger import Ledger

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
