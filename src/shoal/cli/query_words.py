"""What `shoal query` prints: a dry run (queries, price, expected error), or the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.result_words import near, print_changed

if TYPE_CHECKING:
    from shoal.kinds.query.build import QueryResult
    from shoal.kinds.query.prepare import PreparedQuery
    from shoal.privacy.ledger import Ledger, Population

SHOWN = 20  # queries in a table on the screen; all are in the file
NOT_A_RELEASE = "This asked the events, not a published release: reading one of those is free."


def print_dry_run(prepared: PreparedQuery, ledger: Ledger, as_json: bool) -> None:
    """What the run would cost and how large its noise is, from public things and the ledger alone."""
    from shoal.kinds.dry_run import query_dry_run
    from shoal.release.resources import need_summary

    summary = query_dry_run(prepared, ledger)
    if as_json:
        click.echo(json.dumps(summary, indent=2))
        return
    population = ledger.state().find(prepared.plan.place.population)
    click.echo("Dry run: no row of the events was read, nothing was spent.\n")
    rows = [
        (each["query"], f"{each['zones']:,}", f"{each['slots']:,}", f"{each['most']:g}", _error(each["half"]))
        for each in summary["queries"]
    ]
    _table(("query", "zones", "slots", "one user changes", "95 % interval"), rows)
    for words in summary["notes"]:
        click.echo(f"note     {words}")
    click.echo(f"spends   {_price(prepared, population)}")
    click.echo(f"needs    {need_summary(prepared.needs(), Path(prepared.out))}")
    for obstacle in summary["obstacles"]:
        click.echo(f"The run would stop: {obstacle}")
    click.echo(f"{prepared.guarantee.unit.sentence} {prepared.guarantee.sentence}")


def print_answers(prepared: PreparedQuery, result: QueryResult, ledger: Ledger, as_json: bool) -> None:
    """The answers, where they lie, what was spent and what is left."""
    population = ledger.state().population(prepared.plan.place.population)
    if as_json:
        shown = {
            "folder": str(result.folder),
            "reused": result.reused,
            "source_changed": result.source_changed,
            "answers": result.answers,
            "guarantee": prepared.guarantee.to_manifest(),
            "budget_left_nano": population.left_nano,
            "budget_currency": population.currency,
        }
        click.echo(json.dumps(shown, indent=2))
        return
    if result.reused:
        click.echo("This was asked before: here are the stored answers, and nothing was spent.")
        if prepared.plan.out and result.folder != Path(prepared.plan.out).resolve():
            click.echo(f"{prepared.plan.out} was not written; --run-id NAME asks anew, and spends.")
    print_changed(result)
    rows = [
        (
            row["query"],
            f"{row['visits']:,.{prepared.plan.place.decimals}f}",
            f"{row['visits_low']:,.0f} to {row['visits_high']:,.0f}",
            row["how"],
        )
        for row in result.answers
    ]
    _table(("query", "visits", "95 % interval", "how"), rows)
    click.echo(f"answers  {near(result.folder)}")
    spent = "nothing" if result.reused else _cost(prepared, population)
    click.echo(f"budget   {spent} spent; {_left(population)}")
    click.echo(f"{prepared.guarantee.unit.sentence}\n{prepared.guarantee.sentence}\n{NOT_A_RELEASE}")


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if 0 < number < len(header) else "left")
    for row in rows[:SHOWN]:
        table.add_row(*map(escape, row))
    Console().print(table)
    if len(rows) > SHOWN:
        click.echo(f"... and {len(rows) - SHOWN:,} more")
    click.echo("")


def _error(half: float | None) -> str:
    return "known after the run" if half is None else f"+- {half:,.1f} visits"


def _price(prepared: PreparedQuery, population: Population | None) -> str:
    from shoal.privacy.ledger.names import show_nano

    parts = ", ".join(f"{name} {show_nano(loss.rho_nano)}" for name, loss in prepared.mechanism.spends())
    whole = f"rho = {show_nano(prepared.mechanism.loss().rho_nano)} ({parts})"
    return whole if population is None else f"{whole}; {_left(population)}"


def _cost(prepared: PreparedQuery, population: Population) -> str:
    from shoal.privacy.ledger.names import cost_nano, show_nano

    cost = cost_nano(prepared.mechanism.loss(), population.currency)
    return f"{population.currency} = {show_nano(cost)}"


def _left(population: Population) -> str:
    from shoal.privacy.ledger.names import show_nano

    left, limit = show_nano(population.left_nano), show_nano(population.limit_nano)
    has = f'"{population.name}" has {population.currency} = {left} left of {limit}'
    return ". ".join([has, *filter(None, [population.mixture])])
