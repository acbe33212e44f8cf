"""`shoal trajectories compare`: other ways to hide records, with the same metrics and attacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shoal.cli.options import names, with_options
from shoal.cli.progress import Bars
from shoal.cli.run import plan_options, run_settings
from shoal.kinds.trajectories.plan import TrajectoryPlan

EXAMPLE = """\b
Examples:
  shoal trajectories compare --plan trajectories.toml
  shoal trajectories compare samples/ --start 2026-03-02 --end 2026-03-09 --time-zone Africa/Abidjan \\
      --origin -4.4,5.1 --methods raw,grid-k,km2,kte --k 2 --users 3000
"""
HEADINGS = ("method", "kept", "suppressed", "km", "minutes", "density off", "seconds")
ATTACKS = ("method", "1", "2", "3", "4", "4 at 1 km", "below k", "learned", "by chance")


SHARED = ("space", "window", "step_minutes", "k", "tau_minutes", "epoch_minutes")


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of a trajectory release; flags win over it.")
@with_options(plan_options(TrajectoryPlan, SHARED))
@click.option("--population", help="Whose records these are: its ledger notes the look.")
@click.option(
    "--methods",
    multiple=True,
    callback=names,
    metavar="NAME,...",
    help="raw, grid, grid-k, h3, h3-k, km1, km2, nwa, full-length, published, kte.  [default: all]",
)
@click.option(
    "--users", type=click.IntRange(min=2), default=3000, show_default=True, help="A sample of the people."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of sample and attacks."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("owner/trajectories"),
    show_default=True,
    help="Owner's folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(plan: str | None, **flags: Any) -> None:
    """Hide a sample of the people by several methods and attack each: what it costs, what it stops.

    Reads raw records and scores against them: for the owner's eyes only. Nothing is released or spent.
    """
    from shoal.kinds.trajectories.compare import compare_source

    own = {name: flags.pop(name) for name in ("methods", "users", "seed", "out", "as_json")}
    settings = run_settings(TrajectoryPlan, plan, flags)
    with Bars(quiet=own["as_json"]) as bars:
        told, path = compare_source(
            settings,
            own["out"],
            methods=own["methods"],
            users=own["users"],
            seed=own["seed"],
            progress=bars,
        )
    if own["as_json"]:
        click.echo(json.dumps({**told, "file": str(path)}, indent=2))
        return
    print_table(told)
    click.echo(f"\nfigures  {path}   (owner's eyes only)")


def print_table(told: dict[str, Any]) -> None:
    """What each method promises, what it costs, what the attacks find."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)  # nothing is cut off in a file
    rows = [row for row in told["rows"] if "refused" not in row]
    console.print(
        f"[bold]{told['users']:,} of {told['of_users']:,} people, {told['samples']:,} samples; "
        f"k = {told['k']}, tau = {told['tau_minutes']} min[/bold]",
        highlight=False,
    )
    console.print(_grid(HEADINGS, [_cost(row) for row in rows]))
    console.print(COST_WORDS, style="dim", soft_wrap=True)
    console.print(_grid(ATTACKS, [_attack(row) for row in rows]))
    console.print(ATTACK_WORDS.format(k=told["k"], tau=told["tau_minutes"]), style="dim", soft_wrap=True)
    for row in told["rows"]:
        lie = "" if row["truthful"] else " [red]Not truthful.[/red]"
        words = f"{row['words']}. Promise: {row['promise']}."
        console.print(f"[bold]{row['method']}[/bold]  {escape(words)}{lie}", soft_wrap=True, highlight=False)
        if "refused" in row:
            console.print(f"  [yellow]refused[/yellow] {escape(row['refused'])}", soft_wrap=True)


COST_WORDS = (
    "kept: the promise, counted anew on the boxes. suppressed: samples in no box of their own record. km, "
    "minutes: quartiles of Dx + Dy and Dt of the others' boxes. density off: share of people in the wrong "
    "square of the map, hour by hour.\n"
)
ATTACK_WORDS = (
    "1 to 4: people linked to their record by so many of their samples, exactly known; 4 at 1 km: known to "
    "1 km and 1 hour. below k: windows of {tau} min, of all, that fewer than {k} records fit. learned: of a "
    "person's other samples, those held by the record that fits such a window best; by chance: by a record "
    "picked blindly.\n"
)


def _grid(headings: tuple[str, ...], rows: list[list[str]]):
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _cost(row: dict[str, Any]) -> list[str]:
    broken = row["broken"]
    kept = "-" if broken is None else "yes" if broken == 0 else f"no: {broken:,}"
    return [
        row["method"],
        kept,
        _share(row["suppressed"]),
        _quartiles(row["space_m"], 1000, ".1f"),
        _quartiles(row["time_min"], 1, ".0f"),
        _share(row["density"]["total_variation"]),
        f"{row['seconds']:.1f}",
    ]


def _attack(row: dict[str, Any]) -> list[str]:
    exact = [_share(each["linked"]) for each in row["unicity"]["exact"]]
    coarse = _share(row["unicity"]["coarse"][-1]["linked"])
    window = row["window"]
    below = "-" if row["below_k"] is None else f"{row['below_k']:.2%}"
    return [row["method"], *exact, coarse, below, _share(window["learned"]), _share(window["by_chance"])]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _quartiles(spread: dict[str, float | None], unit: float, form: str) -> str:
    values = [spread[name] for name in ("q1", "median", "q3")]
    return " / ".join("-" if value is None else format(value / unit, form) for value in values)
