"""A dry run in words and tables: the plan, what is public, what is spent, what error to expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.flows.density import PreparedDensity
    from shoal.flows.expected import ExpectedError


def print_dry_run(prepared: PreparedDensity, error: ExpectedError, budget: dict[str, Any] | None) -> None:
    """Everything `shoal density run` would do, from public parameters alone."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print("[bold]Dry run[/bold]: no row of the events was read, nothing was spent.\n")
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, words in [*_public(prepared), *_price(prepared, budget), *_error(error)]:
        table.add_row(name, words)
    console.print(table)
    console.print(f"\n{prepared.guarantee.unit.sentence} {prepared.guarantee.sentence}", soft_wrap=True)


def _public(prepared: PreparedDensity) -> list[tuple[str, str]]:
    plan, source, clock, geography = prepared.plan, prepared.source, prepared.clock, prepared.geography
    sites = "" if geography.sites is None else f", {geography.sites.count:,} sites"
    columns = ", ".join(f"{role}={name}" for role, name in source.columns.items())
    return [
        ("source", f"{len(source.paths)} {source.format} file(s), shape {source.shape}, {columns}"),
        *(("  guessed", words) for words in source.guessed),
        ("zones", f"{geography.zones.count:,} zones{sites}"),
        *(("  note", words) for words in geography.zones.notes),
        (
            "window",
            f"{clock.start} to {clock.end}, {clock.time_zone}: "
            f"{clock.slots} slots of {clock.slot_minutes} min",
        ),
        ("bound", f"once per {plan.unit} and slot, at most {plan.ell} visits per {plan.unit}"),
        ("method", f"{prepared.mechanism.name}"),
        ("written to", f"{plan.out}, and for the owner {plan.owner}"),
    ]


def _price(prepared: PreparedDensity, budget: dict[str, Any] | None) -> list[tuple[str, str]]:
    from shoal.privacy.ledger.amounts import show_nano

    loss, plan = prepared.mechanism.loss(), prepared.plan
    pure = "" if loss.pure_epsilon_nano is None else f" (pure epsilon = {show_nano(loss.pure_epsilon_nano)})"
    rows = [("spends", f"counts: rho = {show_nano(loss.rho_nano)}{pure}")]
    if budget is None:
        words = f'the ledger has no population "{plan.population}" yet: shoal ledger create {plan.population}'
    else:
        cost = loss.rho_nano if budget["currency"] == "rho" else loss.pure_epsilon_nano
        left, limit = show_nano(budget["left_nano"]), show_nano(budget["limit_nano"])
        words = f"{budget['currency']} = {left} left of {limit}"
        if cost is None:
            words += "; this population takes pure releases only"
        elif cost > budget["left_nano"]:
            words += "; [red]not enough for this release[/red]"
    return [*rows, (f'budget of "{plan.population}"', words)]


def _error(error: ExpectedError) -> list[tuple[str, str]]:
    return [
        ("expected error", f"{error.mean_absolute:,.1f} people per zone and slot on average"),
        ("", f"within {error.half_interval:,.1f} in 95 of 100 cases"),
        ("", f"{error.city_slot:,.0f} (standard deviation) for a slot's total over all zones"),
        ("", f"under 10 % for counts from {error.ten_percent_from:,.0f} people"),
    ]
