"""What `shoal density run` prints: a dry run (plan, price, expected error), or the result of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.result_words import print_made, result_json

if TYPE_CHECKING:
    from shoal.kinds.density.expected import ExpectedError
    from shoal.kinds.density.prepare import PreparedDensity
    from shoal.kinds.run import RunResult
    from shoal.privacy.accounting import Loss
    from shoal.privacy.ledger import Ledger, Population

COUNTS = (10, 100, 1000)  # people in a zone and slot, to show what the noise means


def print_dry_run(prepared: PreparedDensity, ledger: Ledger, as_json: bool) -> None:
    """Everything the run would do, from public parameters and the ledger alone."""
    from shoal.cli.expected_words import print_expected
    from shoal.kinds.density.expected import expected_methods
    from shoal.kinds.dry_run import density_dry_run, expected_noise, population_of

    if as_json:
        click.echo(json.dumps(density_dry_run(prepared, ledger), indent=2))
        return
    population = population_of(prepared, ledger)
    _print_plan(prepared, expected_noise(prepared), population)
    methods = expected_methods(prepared.plan, prepared.setting)
    print_expected(prepared.plan.users, prepared.setting, prepared.method.name, methods)
    _print_end(prepared, population)


def print_result(prepared: PreparedDensity, result: RunResult, ledger: Ledger, as_json: bool) -> None:
    """Where things are, what was promised, what was spent and what is left."""
    population = ledger.state().population(prepared.plan.population)
    if as_json:
        click.echo(json.dumps(result_json(prepared, result, population), indent=2))
        return
    print_made(prepared, result, population, prepared.guarantee.unit.sentence)


def _print_plan(
    prepared: PreparedDensity, error: ExpectedError | None, population: Population | None
) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    console.print("[bold]Dry run[/bold]: no row of the events was read, nothing was spent.\n")
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, words in [*_public(prepared), *_price(prepared, population), *_error(error)]:
        table.add_row(escape(name), escape(words))
    console.print(table)


def _print_end(prepared: PreparedDensity, population: Population | None) -> None:
    from rich.console import Console
    from rich.markup import escape

    from shoal.kinds.dry_run import run_obstacles

    console = Console()
    for obstacle in run_obstacles(prepared, population):
        console.print(f"\n[red]The run would stop:[/red] {escape(obstacle)}", soft_wrap=True)
    promise = f"{prepared.guarantee.unit.sentence} {prepared.guarantee.sentence}"
    console.print(f"\n{escape(promise)}", soft_wrap=True)


def _public(prepared: PreparedDensity) -> list[tuple[str, str]]:
    from shoal.release.resources import need_summary

    plan, source, clock, geography = prepared.plan, prepared.source, prepared.clock, prepared.geography
    sites = "" if geography.sites is None else f", {geography.sites.count:,} sites"
    columns = ", ".join(f"{role}={name}" for role, name in source.columns.items())
    slots = f"{clock.slots} slots of {clock.slot_minutes} min"
    return [
        ("source", f"{len(source.paths)} {source.format} file(s), shape {source.shape}, {columns}"),
        *(("  guessed", words) for words in source.guessed),
        ("zones", f"{geography.zones.count:,} zones{sites}"),
        *(("  note", words) for words in geography.zones.notes),
        ("window", f"{clock.start} to {clock.end}, {clock.time_zone}: {slots}"),
        ("bound", _bound(prepared)),
        *(("  note", words) for words in prepared.notes()),
        ("method", f"{prepared.method.name}: {prepared.method.summary}"),
        ("written to", f"{plan.out}, and for the owner {plan.owner}"),
        ("resources", need_summary(prepared.needs(), Path(plan.out))),
    ]


def _bound(prepared: PreparedDensity) -> str:
    from shoal.kinds.density.manifest import visits_cap

    unit, ell = prepared.plan.unit, getattr(prepared.mechanism, "ell", None)
    if prepared.mechanism.takes == "visits":
        return f"all visits, once per {unit}, place and slot; every {unit} scaled down to a bounded size"
    kept = f"once per {unit} and slot" + ("" if ell is None else f", at most {ell} visits per {unit}")
    cap = visits_cap(prepared.mechanism)
    return kept + ("" if cap is None else f"; scaled up to all visits, at most {cap} per {unit}")


def _price(prepared: PreparedDensity, population: Population | None) -> list[tuple[str, str]]:
    """Every named spend, what the ledger would be charged, and what is left there."""
    from shoal.errors import LedgerError
    from shoal.kinds.density.methods import PAYS_FOR
    from shoal.privacy.ledger.names import cost_nano, show_nano

    loss = prepared.mechanism.loss()
    pure = loss.pure_epsilon_nano is not None
    parts = [
        (f"  {name}", f"{_nano(spend, pure):<11}  {PAYS_FOR.get(name, '')}")
        for name, spend in prepared.mechanism.spends()
    ]
    unit = "epsilon, pure" if pure else "rho"
    lines = [("spends", f"{unit} = {_nano(loss, pure)}: in these parts"), *parts]
    if population is None:
        return lines
    try:
        charged = f"{population.currency} = {show_nano(cost_nano(loss, population.currency))} charged, "
    except LedgerError:
        charged = ""
    left, limit = show_nano(population.left_nano), show_nano(population.limit_nano)
    budget = f"{charged}{population.currency} = {left} left of {limit}"
    budget = ". ".join([budget, *filter(None, [population.mixture])])
    return [*lines, (f'budget of "{prepared.plan.population}"', budget)]


def _nano(loss: Loss, pure: bool) -> str:
    from shoal.privacy.ledger.names import show_nano

    return show_nano(loss.pure_epsilon_nano or 0 if pure else loss.rho_nano)


def _error(error: ExpectedError | None) -> list[tuple[str, str]]:
    if error is None:
        return []
    relative = ", ".join(f"{error.mean_absolute / count:.0%} of {count:,}" for count in COUNTS)
    return [
        ("expected noise", f"{error.mean_absolute:,.1f} people per zone and slot on average: {relative}"),
        ("", f"within {error.half_interval:,.1f} in 95 of 100 cases"),
        ("", f"{error.city_slot:,.0f} (standard deviation) for a slot's total over all zones"),
        (
            "",
            "before counts are scaled up to all visits; busier zones, larger cells or slots, a larger "
            "epsilon or a smaller --ell make it smaller",
        ),
    ]
