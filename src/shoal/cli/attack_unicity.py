"""`shoal attack unicity`: how many people a few known points single out."""

from __future__ import annotations

import json
from typing import Any

import click

from shoal.cli.attack_options import OUTPUT_OPTIONS
from shoal.cli.options import MAP_OPTIONS, as_settings, numbers, with_options
from shoal.cli.progress import Bars
from shoal.cli.source_options import source_options
from shoal.events.schema import SourcePlan

EXAMPLE = """\b
Examples:
  shoal simulate town --users 6000 --out town
  shoal attack unicity --plan town/density.toml
  shoal attack unicity --plan town/density.toml --points 2,4 --side-m 0,1000,5000 --slots-merged 1,6,24
"""


def _whole(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter("give whole numbers separated by commas, such as 1,2,4.") from None


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of a density; flags win over it.")
@source_options(required=False)
@with_options(MAP_OPTIONS)
@click.option(
    "--points",
    default="1,2,3,4",
    callback=_whole,
    metavar="NUMBER,...",
    show_default=True,
    help="Points of a person that are known.",
)
@click.option(
    "--side-m",
    "sides_m",
    default="0",
    callback=numbers,
    metavar="METRES,...",
    show_default=True,
    help="Zones merged by squares of this side; 0: as they are.",
)
@click.option(
    "--slots-merged",
    default="1",
    callback=_whole,
    metavar="NUMBER,...",
    show_default=True,
    help="Slots taken as one.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of the known points.")
@with_options(OUTPUT_OPTIONS)
def unicity(plan: str | None, source_options: SourcePlan, **flags: Any) -> None:
    """Count the people whom a few of their own points tell apart from everybody else.

    A point is a zone and a slot a person was in; known points are drawn at random. The events may be raw, or
    released trajectories. Computed from what is read: for the owner's eyes only. Nothing is spent.
    """
    from shoal.attacks.runs.source import note_look, write_findings
    from shoal.attacks.runs.unicity import UnicityPlan, attack_unicity, unicity_told
    from shoal.kinds.plan import merge, read_plan

    own = {name: flags.pop(name) for name in ("points", "sides_m", "slots_merged", "seed")}
    out, as_json = flags.pop("out"), flags.pop("as_json")
    settings = merge(read_plan(plan) if plan else {}, as_settings(source_options, flags))
    asked = UnicityPlan(**own)
    with Bars(quiet=as_json) as bars:
        note_look(settings, "unicity", out)
        source, found = attack_unicity(settings, asked, bars)
    told = unicity_told(source, found)
    rows = told["rows"]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    paths = write_findings(out, "unicity", told, columns)
    if as_json:
        click.echo(json.dumps({**told, "files": [str(path) for path in paths]}, indent=2))
        return
    _print(told)
    click.echo(f"\nfigures  {paths[0]}   (owner's eyes only)")


def _print(told: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    points = sorted({row["points"] for row in told["rows"]})
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("space", "minutes", *(f"{p} point{'s' if p > 1 else ''}" for p in points)):
        table.add_column(name, justify="left" if name == "space" else "right")
    shares = {(row["side_m"], row["minutes"], row["points"]): row["share"] for row in told["rows"]}
    for side_m, minutes in dict.fromkeys((row["side_m"], row["minutes"]) for row in told["rows"]):
        cells = [shares[side_m, minutes, p] for p in points]
        shown = ["" if share is None else f"{share:.1%}" for share in cells]
        table.add_row("zones" if not side_m else f"{side_m:g} m", str(minutes), *shown)
    console.print(f"[bold]Unique among {told['users']:,} people[/bold]", highlight=False)
    console.print(table)
    for line in told["summary"]:
        console.print(line, soft_wrap=True, highlight=False)
