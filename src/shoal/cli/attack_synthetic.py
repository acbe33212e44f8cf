"""`shoal attack synthetic`: whether synthetic trips give away whose trips they were made from."""

from __future__ import annotations

import json
from typing import Any

import click

from shoal.cli.attack_options import OUTPUT_OPTIONS
from shoal.cli.options import names, numbers, settings_from, with_options
from shoal.cli.progress import Bars
from shoal.cli.source_options import source_options, trip_options
from shoal.cli.synthesize import MAP_OPTIONS, TRIP_BOUNDS
from shoal.events.schema import SourcePlan

SPACE = ("box", "cells", "cell_m", "planar")
EXAMPLE = """\b
Examples:
  shoal simulate town --users 4000 --what trips --out town
  shoal attack synthetic --plan town/synthetic.toml
  shoal attack synthetic --plan town/synthetic.toml --unit trip --defence raw,tgm,tgm-np,bridges,prefix
  shoal attack synthetic --plan town/synthetic.toml --defence bridges --epsilon 0.5,2 --worlds 30
"""


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of synthetic trips; flags win over it.")
@source_options(required=False)
@trip_options
@with_options(TRIP_BOUNDS)
@with_options(MAP_OPTIONS)
@click.option(
    "--defence",
    "defences",
    multiple=True,
    default=("raw,tgm,bridges",),
    callback=names,
    metavar="NAME,...",
    help="raw, tgm, tgm-counts, tgm-np, or methods of synthesize.  [default: raw,tgm,bridges]",
)
@click.option(
    "--epsilon",
    "epsilons",
    default="1",
    callback=numbers,
    metavar="NUMBER,...",
    show_default=True,
    help="What the methods are set at.",
)
@click.option("--delta", type=float, help="Delta of mechanisms, 0 for none.  [default: the plan's]")
@click.option("--group", type=int, help="Users, or trips, in a release.  [default: a quarter, at most 2500]")
@click.option("--worlds", type=int, default=12, show_default=True, help="Releases that are attacked.")
@click.option(
    "--targets", type=int, default=100, show_default=True, help="Attacked in usual, and in unusual places."
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of groups and noise.")
@with_options(OUTPUT_OPTIONS)
def synthetic(plan: str | None, source_options: SourcePlan, trip_rule: Any, **flags: Any) -> None:
    """Tell from synthetic trips whose trips they were made from, and whether they copy them.

    Groups are drawn from the trips and a release is made of each, with seeded noise; the adversary knows the
    trips of a target and other people. The figures come from raw trips: for the owner's eyes only. Nothing is
    spent.
    """
    from shoal.attacks.runs.source import note_look, write_findings
    from shoal.attacks.runs.synthetic import (
        SyntheticAttackPlan,
        attack_synthetic,
        roc_columns,
        synthetic_told,
    )

    own = {name: flags.pop(name) for name in ("defences", "epsilons", "delta", "group", "worlds", "targets")}
    seed, out, as_json = (flags.pop(name) for name in ("seed", "out", "as_json"))
    settings = settings_from(plan, source_options, trip_rule, flags, SPACE)
    own["delta"] = settings.get("delta") if own["delta"] is None else own["delta"] or None
    asked = SyntheticAttackPlan(**own, seed=seed)
    with Bars(quiet=as_json) as bars:
        note_look(settings, "synthetic", out)
        result = attack_synthetic(settings, asked, bars)
    told = synthetic_told(result)
    paths = write_findings(out, "synthetic", told, roc_columns(result))
    if as_json:
        click.echo(json.dumps({**told, "files": [str(path) for path in paths]}, indent=2))
        return
    _print(told)
    click.echo(f"\nfigures  {paths[0]}   (owner's eyes only)\ncurves   {paths[1]}")


def _print(told: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    statistics = list(dict.fromkeys(row["statistic"] for row in told["membership"]))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("release", "set at", "targets", *statistics, "at most"):
        table.add_column(name, justify="left" if name in ("release", "targets") else "right")
    groups: dict[tuple, dict[str, dict[str, Any]]] = {}
    for row in told["membership"]:
        groups.setdefault((row["release"], row["set_at"], row["targets"]), {})[row["statistic"]] = row
    for (release, at, targets), rows in groups.items():
        cells = [
            f"{rows[s]['auc']:.3f}\n{rows[s]['auc_low']:.2f}-{rows[s]['auc_high']:.2f}" for s in statistics
        ]
        most = rows[statistics[0]]["auc_at_most"]
        shown = "" if most is None else f"{most:.3f}"
        table.add_row(release, "" if at is None else f"{at:g}", targets, *cells, shown)
    console.print(f"[bold]In or out: AUC of four adversaries, releases of {told['group']:,} {told['unit']}s")
    console.print(table)
    console.print(
        "AUC: share of pairs, one in and one out, told apart; 0.5 is chance. Below it: 95 % of AUCs when "
        "worlds and targets are drawn again. alone: with a cell that no known other person visits. at most: "
        "what the guarantee allows any adversary.\n",
        style="dim",
        soft_wrap=True,
    )
    console.print(_nearest_table(told["nearest"]))
    console.print(
        "nearest seen: synthetic trips whose nearest real trip is one they were made from, and where that "
        "share lies by chance. copies: the same cells in the same order as a real trip, 5 cells or more.\n",
        style="dim",
        soft_wrap=True,
    )
    for line in told["summary"]:
        console.print(escape(line), soft_wrap=True, highlight=False)


def _nearest_table(rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("release", "set at", "nearest seen", "by chance", "copies seen", "copies held out"):
        table.add_column(name, justify="left" if name == "release" else "right")
    for name in ("median m, seen", "held out"):
        table.add_column(name, justify="right")
    for row in rows:
        at = "" if row["set_at"] is None else f"{row['set_at']:g}"
        if row["nearer_seen"] is None:
            table.add_row(row["release"], at, "no trip of 5 cells")
            continue
        table.add_row(
            row["release"],
            at,
            f"{row['nearer_seen']:.1%}",
            f"{row['by_chance_low']:.1%} to {row['by_chance_high']:.1%}",
            f"{row['copies_seen']:.1%}",
            f"{row['copies_held']:.1%}",
            f"{row['median_m_seen']:,.0f}",
            f"{row['median_m_held']:,.0f}",
        )
    return table
