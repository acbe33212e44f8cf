"""What a run would do, spend and leave, from public parameters and the ledger alone: the dry run of any kind.

The command prints it, the page draws it; both say the same.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import LedgerError, PlanError
from shoal.kinds.spends import spends_of
from shoal.privacy.ledger import Ledger, Population
from shoal.privacy.ledger.names import cost_nano, show_nano
from shoal.release.resources import Needs, need_problems

if TYPE_CHECKING:
    from shoal.kinds.commute.prepare import PreparedCommute
    from shoal.kinds.density.expected import ExpectedError
    from shoal.kinds.density.prepare import PreparedDensity
    from shoal.kinds.histogram.prepare import PreparedHistogram
    from shoal.kinds.query.prepare import PreparedQuery
    from shoal.kinds.synthetic.prepare import PreparedSynthetic
    from shoal.kinds.trajectories.build import PreparedTrajectories
    from shoal.privacy.accounting import Loss


def population_of(prepared: Any, ledger: Ledger) -> Population | None:
    return ledger.state().find(prepared.plan.population)


def price_of(loss: Loss, population: Population | None) -> dict[str, Any] | None:
    """What the population's budget would be charged, and what is left of it; None where there is none."""
    if population is None:
        return None
    try:
        cost = cost_nano(loss, population.currency)
    except LedgerError:  # the population takes pure releases only
        cost = None
    return {
        "currency": population.currency,
        "limit_nano": population.limit_nano,
        "left_nano": population.left_nano,
        "cost_nano": cost,
    }


def other_unit(population: Population, unit: str) -> list[str]:
    """Said where the population's spends are counted per another unit, which the ledger refuses."""
    others = [each for each in population.units if each != unit]
    return [f'"{population.name}" is counted per {others[0]}, this release per {unit}.'] if others else []


def expected_noise(prepared: PreparedDensity) -> ExpectedError | None:
    from shoal.kinds.density.expected import expected_error

    noise = getattr(prepared.mechanism, "noise_of_count", None)
    return None if noise is None else expected_error(noise, prepared.setting.zones)


def density_dry_run(prepared: PreparedDensity, ledger: Ledger) -> dict[str, Any]:
    """Of a density, with the error to expect of every method."""
    from shoal.kinds.density.expected import expected_methods
    from shoal.kinds.density.manifest import public_parameters
    from shoal.kinds.density.methods import PAYS_FOR

    population, error = population_of(prepared, ledger), expected_noise(prepared)
    return {
        "plan": asdict(prepared.plan),
        "public": public_parameters(prepared),
        "notes": prepared.notes(),
        "unit": prepared.guarantee.unit.sentence,
        "promise": prepared.guarantee.sentence,
        "guarantee": prepared.guarantee.to_manifest(),
        "spends": spends_of(prepared.mechanism, PAYS_FOR),
        "expected_error": error and asdict(error),
        "expected_methods": [asdict(each) for each in expected_methods(prepared.plan, prepared.setting)],
        "budget": price_of(prepared.mechanism.loss(), population),
        "resources": prepared.needs().to_plain(Path(prepared.plan.out)),
        "obstacles": run_obstacles(prepared, population),
    }


def run_obstacles(prepared: Any, population: Population | None) -> list[str]:
    """What would stop a run before it spends anything; a seeded one spends nothing."""
    plan = prepared.plan
    return obstacles(
        population,
        name=plan.population,
        unit=plan.unit,
        loss=prepared.mechanism.loss(),
        out=plan.out,
        needs=prepared.needs(),
        seeded=plan.seed is not None,
    )


def obstacles(
    population: Population | None,
    *,
    name: str,
    unit: str,
    loss: Loss | None,
    out: str,
    needs: Needs | None = None,
    seeded: bool = False,
) -> list[str]:
    """One sentence for each thing that would stop a release; `loss` None: nothing is spent.

    Args:
        population: What the ledger knows under `name`.
        seeded: Nothing is spent, and the files go to the owner's folder.
    """
    listed = []
    if population is None:
        listed.append(f'the ledger has no population "{name}": shoal ledger create {name} ...')
    elif loss is not None and not seeded:
        if population.currency == "epsilon" and loss.pure_epsilon_nano is None:
            listed.append(
                f'"{name}" takes pure releases only: leave out --delta, or use a method with Laplace noise.'
            )
        elif (cost := cost_nano(loss, population.currency)) > population.left_nano:
            needed, left = (
                f"{population.currency} = {show_nano(amount)}" for amount in (cost, population.left_nano)
            )
            listed.append(f'the budget of "{name}" is not enough: it needs {needed}; {left} is left.')
        listed += other_unit(population, unit)
    if not seeded and os.path.lexists(out):
        listed.append(f"{out} exists (unless it is this very release, which is returned for free).")
    return listed + (need_problems(needs, Path(out)) if needs else [])


def histogram_dry_run(prepared: PreparedHistogram, ledger: Ledger) -> dict[str, Any]:
    from shoal.kinds.expected_trips import expected_rectangles
    from shoal.kinds.histogram.manifest import public_parameters
    from shoal.kinds.histogram.methods import PAYS_FOR

    expected = expected_rectangles(prepared)
    spends = spends_of(prepared.mechanism, PAYS_FOR)
    told = _trips_dry_run(prepared, ledger, public_parameters(prepared), spends)
    return {**told, "expected_share": expected}


def synthetic_dry_run(prepared: PreparedSynthetic | PreparedCommute, ledger: Ledger) -> dict[str, Any]:
    from shoal.kinds.commute.prepare import PreparedCommute
    from shoal.kinds.expected_trips import expected_ranges
    from shoal.kinds.synthetic.manifest import public_parameters
    from shoal.kinds.synthetic.methods import PAYS_FOR

    if isinstance(prepared, PreparedCommute):
        return _trips_dry_run(prepared, ledger, prepared.public(), prepared.spends())
    spends = spends_of(prepared.mechanism, PAYS_FOR)
    told = _trips_dry_run(prepared, ledger, public_parameters(prepared), spends)
    return {**told, "expected_share": expected_ranges(prepared)}


def _trips_dry_run(
    prepared: Any, ledger: Ledger, public: dict[str, Any], spends: list[dict]
) -> dict[str, Any]:
    population = population_of(prepared, ledger)
    return {
        "dry_run": True,
        "plan": asdict(prepared.plan),
        "public": public,
        "unit": prepared.unit_sentence,
        "promise": prepared.guarantee.sentence,
        "guarantee": prepared.guarantee.to_manifest(),
        "spends": spends,
        "notes": prepared.notes(),
        "budget": price_of(prepared.mechanism.loss(), population),
        "resources": prepared.needs().to_plain(Path(prepared.plan.out)),
        "obstacles": run_obstacles(prepared, population),
    }


def trajectories_dry_run(prepared: PreparedTrajectories, ledger: Ledger) -> dict[str, Any]:
    """Of records: no price, for nothing is spent and no epsilon is promised."""
    from shoal.kinds.trajectories.compose import check_named, earlier_releases

    plan, (tau, epoch) = prepared.plan, prepared.plan.minutes()
    population = population_of(prepared, ledger)
    stops = obstacles(population, name=plan.population, unit=plan.unit, loss=None, out=plan.out)
    earlier = [] if population is None else earlier_releases(ledger, prepared, Path(plan.owner))
    try:
        check_named(earlier, plan.population)
    except PlanError as error:
        stops.append(f"{error.message} Name them with --compose-with, or choose another window.")
    overlapping = [each for each in earlier if each.overlaps]
    promise = f"{plan.k} records fit whatever was seen of a {plan.unit} in any {tau} minutes."
    if overlapping:
        promise = "None of k records: the measured result of linking with earlier releases takes its place."
    return {
        "dry_run": True,
        "k": plan.k,
        "tau_minutes": tau,
        "epoch_minutes": epoch,
        "lattice": prepared.opened.lattice.to_manifest(),
        "notes": prepared.notes(),
        "promise": promise,
        "spends": [],
        "obstacles": stops,
        "to_compose": [each.sha256 for each in overlapping if each.named is None],
    }


def query_dry_run(prepared: PreparedQuery, ledger: Ledger) -> dict[str, Any]:
    """Of queries: how far one user moves each answer, and how large its noise is."""
    from shoal.kinds.query.build import PAYS_FOR
    from shoal.kinds.query.prepare import expected_answers

    plan, needs = prepared.plan.place, prepared.needs()
    errors = expected_answers(prepared.mechanism)
    return {
        "queries": [
            {"query": each.name, "zones": len(each.zones), "slots": len(each.slots), **vars(error)}
            for each, error in zip(prepared.questions.each, errors, strict=True)
        ],
        "mechanism": prepared.mechanism.name,
        "guarantee": prepared.guarantee.to_manifest(),
        "spends": spends_of(prepared.mechanism, PAYS_FOR),
        "notes": prepared.notes(),
        "resources": needs.to_plain(Path(prepared.out)),
        "obstacles": obstacles(
            ledger.state().find(plan.population),
            name=plan.population,
            unit=plan.unit,
            loss=prepared.mechanism.loss(),
            out=prepared.out,
            needs=needs,
        ),
    }
