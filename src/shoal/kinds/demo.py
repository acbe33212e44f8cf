"""The whole way on a simulated city: simulate, open a ledger, release a density, draw the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import city_identity, holds_city, simulate_city
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.density.prepare import PreparedDensity, prepare_density
from shoal.kinds.plan import read_plan
from shoal.kinds.run import Progress, RunResult, run, utility_file
from shoal.kinds.simulated import write_city_plan
from shoal.privacy.accounting import rho_for
from shoal.privacy.ledger import Ledger, open_ledger

POPULATION = "demo-town"


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
    city = folder / "city"
    preset = replace(preset_named("town"), users=users)
    if not holds_city(city, city_identity(preset, seed, None, None)):
        progress.stage("simulate", users)
        simulate_city(preset, city, seed=seed, progress=_advancer(progress))
    plan_file = write_city_plan(city, population=POPULATION, out="../release", owner="../owner")
    book = open_ledger(folder / "ledger.sqlite")
    if POPULATION not in book.state().populations:
        book.create(POPULATION, currency="rho", limit_nano=rho_for(4.0, 1e-6), delta=1e-6, note="simulated")
    plan = DensityPlan.from_settings(read_plan(plan_file))
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
    while (stored := book.find(POPULATION, prepared.key())) and not (
        Path(stored.path).exists() and stored.source_digest == digest
    ):
        attempt += 1
        prepared = replace(prepared, plan=replace(prepared.plan, run_id=str(attempt)))
    return prepared


def _advancer(progress: Progress) -> Callable[[str, int, int], None]:
    seen = 0

    def advance(kind: str, done: int, users: int) -> None:
        nonlocal seen
        progress.advance(done - seen)
        seen = done

    return advance
