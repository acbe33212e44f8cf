"""What a run would do, spend and leave, from public parameters and the ledger alone: the dry run of any kind.

The command prints it, the page draws it; both say the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shoal.errors import LedgerError
from shoal.privacy.ledger import Ledger, Population
from shoal.privacy.ledger.amounts import cost_nano, show_nano

if TYPE_CHECKING:
    from shoal.flows.commute_prepare import PreparedCommute
    from shoal.flows.expected import ExpectedError
    from shoal.flows.histogram_prepare import PreparedHistogram
    from shoal.flows.prepare import PreparedDensity
    from shoal.flows.synthetic_prepare import PreparedSynthetic
    from shoal.flows.trajectories import PreparedTrajectories
    from shoal.privacy.accounting import Loss


def population_of(prepared: Any, ledger: Ledger) -> Population | None:
    return ledger.state().populations.get(prepared.plan.population)


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


def expected_noise(prepared: PreparedDensity) -> ExpectedError | None:
    from shoal.flows.expected import expected_error

    if prepared.method.noise is None:
        return None
    return expected_error(prepared.method.noise(prepared.mechanism), prepared.setting.zones)


def density_dry_run(prepared: PreparedDensity, ledger: Ledger) -> dict[str, Any]:
    """Of a density, with the error to expect of every method."""
    from shoal.flows.density_manifest import public_parameters, spends_of
    from shoal.flows.expected import expected_methods

    population, error = population_of(prepared, ledger), expected_noise(prepared)
    return {
        "plan": asdict(prepared.plan),
        "public": public_parameters(prepared),
        "notes": prepared.notes(),
        "unit": prepared.guarantee.unit.sentence,
        "promise": prepared.guarantee.sentence,
        "guarantee": prepared.guarantee.to_manifest(),
        "spends": spends_of(prepared.mechanism),
        "expected_error": error and asdict(error),
        "expected_methods": [asdict(each) for each in expected_methods(prepared.plan, prepared.setting)],
        "budget": price_of(prepared.mechanism.loss(), population),
        "obstacles": density_obstacles(prepared, population),
    }


def density_obstacles(prepared: PreparedDensity, population: Population | None) -> list[str]:
    """What would stop the run before it spends anything."""
    loss, plan = prepared.mechanism.loss(), prepared.plan
    found = []
    if population is None:
        found.append(
            f'the ledger has no population "{plan.population}": shoal ledger create {plan.population} ...'
        )
    else:
        if population.currency == "epsilon" and loss.pure_epsilon_nano is None:
            found.append(f'"{plan.population}" takes pure releases only: use --method laplace.')
        elif cost_nano(loss, population.currency) > population.left_nano:
            found.append(f'the budget left of "{plan.population}" is not enough for this release.')
    if plan.seed is None and os.path.lexists(plan.out):
        found.append(f"{plan.out} exists (unless it is this very release, which is returned for free).")
    return found


def histogram_dry_run(prepared: PreparedHistogram, ledger: Ledger) -> dict[str, Any]:
    from shoal.flows.expected_trips import expected_rectangles
    from shoal.flows.histogram_manifest import public_parameters, spends_of

    expected = expected_rectangles(prepared)
    told = _trips_dry_run(prepared, ledger, public_parameters(prepared), spends_of(prepared.mechanism))
    return {**told, "expected_share": expected}


def synthetic_dry_run(prepared: PreparedSynthetic | PreparedCommute, ledger: Ledger) -> dict[str, Any]:
    from shoal.flows.commute_prepare import PreparedCommute
    from shoal.flows.expected_trips import expected_ranges
    from shoal.flows.synthetic_manifest import public_parameters
    from shoal.flows.synthetic_methods import PAYS_FOR
    from shoal.flows.trip_prepare import spends_of

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
        "obstacles": trip_obstacles(prepared, population),
    }


def trip_obstacles(prepared: Any, population: Population | None) -> list[str]:
    """What would stop a run on trips before it spends anything."""
    plan = prepared.plan
    found = []
    if population is None:
        found.append(f'there is no population "{plan.population}"; `shoal ledger create` makes one.')
    elif plan.seed is None:
        cost = cost_nano(prepared.mechanism.loss(), population.currency)
        if cost > population.left_nano:
            left = f"{population.currency} = {show_nano(population.left_nano)}"
            found.append(f"it needs {population.currency} = {show_nano(cost)}; {left} is left.")
    if plan.seed is None and os.path.lexists(plan.out):
        found.append(f"{plan.out} is there already; choose another --out.")
    return found


def trajectories_dry_run(prepared: PreparedTrajectories, ledger: Ledger | None = None) -> dict[str, Any]:
    """Of records: no price, for nothing is spent and no epsilon is promised."""
    plan, (tau, epoch) = prepared.plan, prepared.plan.minutes()
    told: dict[str, Any] = {
        "dry_run": True,
        "k": plan.k,
        "tau_minutes": tau,
        "epoch_minutes": epoch,
        "lattice": prepared.opened.lattice.to_manifest(),
        "notes": prepared.notes(),
    }
    if ledger is None:
        return told
    state, obstacles = ledger.state(), []
    if plan.population not in state.populations:
        obstacles.append(f'there is no population "{plan.population}"; `shoal ledger create` makes one.')
    if os.path.lexists(plan.out):
        obstacles.append(f"{plan.out} is there already; choose another --out.")
    promise = f"{plan.k} records fit whatever was seen of a {plan.unit} in any {tau} minutes."
    return {**told, "promise": promise, "spends": [], "obstacles": obstacles}


DRY_RUNS: dict[str, Callable[..., dict[str, Any]]] = {
    "density": density_dry_run,
    "histogram": histogram_dry_run,
    "synthetic": synthetic_dry_run,
    "trajectories": trajectories_dry_run,
}
