"""`shoal trajectories compare`: other ways to hide records, with the same metrics and attacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shoal.cli.options import as_settings, names, with_options
from shoal.cli.progress import Bars
from shoal.cli.source_options import source_options
from shoal.events.schema import SourcePlan

EXAMPLE = """\b
Examples:
  shoal trajectories compare --plan trajectories.toml
  shoal trajectories compare samples/ --start 2026-03-02 --end 2026-03-09 --time-zone Africa/Abidjan \\
      --origin -4.4,5.1 --methods raw,grid-k,km2,kte --k 2 --users 3000
"""
SPACE = ("origin", "cell_m", "sites", "site_id", "site_lon", "site_lat", "sites_crs")
HEADINGS = ("method", "kept", "suppressed", "km", "minutes", "density off", "seconds")
ATTACKS = ("method", "1", "2", "3", "4", "4 at 1 km", "below k", "learned", "by chance")


def _origin(context: click.Context, parameter: click.Parameter, value: str | None):
    if value is None:
        return None
    try:
        first, second = (float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter("give two numbers: longitude,latitude.") from None
    return [first, second]


PLACE_OPTIONS = (
    click.option("--start", help="First day (or local time) of the window."),
    click.option("--end", help="Day (or local time) after the window."),
    click.option("--origin", callback=_origin, metavar="LON,LAT", help="South-west of the area, public."),
    click.option("--cell-m", type=float, help="Side of a cell of the lattice.  [default: 100]"),
    click.option("--step-minutes", type=int, help="Step of the lattice.  [default: 1]"),
    click.option("--sites", help="Sites, where records name them: CSV or Parquet with site, lon, lat."),
    click.option("--site-id", help="Column with the sites' ids."),
    click.option("--site-lon", help="Column with the sites' longitudes."),
    click.option("--site-lat", help="Column with the sites' latitudes."),
    click.option("--sites-crs", help="Coordinate system of the sites where the file does not say."),
)


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of a trajectory release; flags win over it.")
@source_options(required=False)
@with_options(PLACE_OPTIONS)
@click.option("--population", help="Whose records these are: its ledger notes the look.")
@click.option("--k", type=int, help="People to hide among.  [default: 2]")
@click.option("--tau-minutes", type=int, help="How long an adversary tracks a person.  [default: 30]")
@click.option("--epoch-minutes", type=int, help="Epoch of the release.  [default: tau]")
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
def compare(plan: str | None, source_options: SourcePlan, **flags: Any) -> None:
    """Hide a sample of the people by several methods and attack each: what it costs, what it stops.

    Reads raw records and scores against them: for the owner's eyes only. Nothing is released or spent.
    """
    from shoal.kinds.plan import merge, read_plan
    from shoal.kinds.trajectories.compare import compare_source

    own = {name: flags.pop(name) for name in ("methods", "users", "seed", "out", "as_json")}
    settings = merge(read_plan(plan) if plan else {}, as_settings(source_options, flags, SPACE))
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
