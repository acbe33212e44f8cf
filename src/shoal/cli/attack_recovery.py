"""`shoal attack recovery`: whole trajectories from counts alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shoal.cli.attack_options import DEFENCE_OPTIONS, OUTPUT_OPTIONS
from shoal.cli.options import MAP_OPTIONS, as_settings, with_options
from shoal.cli.progress import Bars
from shoal.cli.source_options import source_options
from shoal.events.schema import SourcePlan

EXAMPLE = """\b
Examples:
  shoal simulate town --users 2000 --out town
  shoal attack recovery --plan town/density.toml
  shoal attack recovery --plan town/density.toml --defence best,gaussian --epsilon 0.1,1
  shoal attack recovery --plan town/density.toml --release release --known-points 6
"""


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of a density; flags win over it.")
@source_options(required=False)
@with_options(MAP_OPTIONS)
@click.option(
    "--release",
    type=click.Path(path_type=Path),
    help="Attack this release, too: of the same zones and slots.",
)
@with_options(DEFENCE_OPTIONS)
@click.option(
    "--known-points",
    type=int,
    default=4,
    show_default=True,
    help="Places and slots of a person that are known from elsewhere, to single out a trajectory.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Of the noise of defences, for tests.")
@with_options(OUTPUT_OPTIONS)
def recovery(plan: str | None, source_options: SourcePlan, **flags: Any) -> None:
    """Recover everybody's trajectory from counts per zone and slot, raw and protected.

    The adversary knows nothing about anybody: only the counts, where zones lie and how many people there
    are. Between events people are taken to stay where they were last seen. Counts below zero become zero;
    every slot is scaled to the number of people and rounded. The figures come from raw events: for the
    owner's eyes only. Nothing is spent.
    """
    from shoal.attacks.runs.recovery import RecoveryAttackPlan, attack_recovery, per_user, summary
    from shoal.attacks.runs.source import note_look, write_findings
    from shoal.kinds.plan import DEFAULT_DELTA, merge, read_plan

    names = ("release", "defences", "epsilons", "known_points", "seed")
    own = {name: flags.pop(name) for name in names}
    out, as_json, delta = (flags.pop(name) for name in ("out", "as_json", "delta"))
    settings = merge(read_plan(plan) if plan else {}, as_settings(source_options, flags))
    asked = RecoveryAttackPlan(**own, delta=delta or DEFAULT_DELTA)
    with Bars(quiet=as_json) as bars:
        note_look(settings, "recovery", out)
        found = attack_recovery(settings, asked, progress=bars)
    told = {"summary": summary(found), "rows": [each.row() for each in found]}
    paths = write_findings(out, "recovery", told, per_user(found))
    if as_json:
        click.echo(json.dumps({**told, "files": [str(path) for path in paths]}, indent=2))
        return
    _print(told)
    click.echo(f"\nfigures  {paths[0]}   (owner's eyes only)\nusers    {paths[1]}")


def _print(told: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from shoal.attacks.models.recovery_score import MOSTLY

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    shown = {
        "points": "points_recovered",
        "mostly": "trajectories_recovered",
        "away": "away_recovered",
        "singled out": "reidentified",
        "home only": "home_only_points",
        "and": "home_only_trajectories",
    }
    for name in ("counts", "set at", *shown, "seconds"):
        table.add_column(name, justify="left" if name == "counts" else "right")
    for row in told["rows"]:
        shares = ["" if row[name] is None else f"{row[name]:.1%}" for name in shown.values()]
        set_at = "" if row["set_at"] is None else f"{row['set_at']:g}"
        table.add_row(row["defence"] or "raw", set_at, *shares, f"{row['seconds']:.1f}")
    console.print(table)
    console.print(
        f"points: slots at the right place. mostly: people with at least {MOSTLY:.0%} of slots right. "
        "away: right slots away from a person's main place. singled out: by the known points, correctly. "
        "home only: the first two if nobody ever left the place of the first night.\n",
        style="dim",
        soft_wrap=True,
    )
    for line in told["summary"]:
        console.print(escape(line), soft_wrap=True, highlight=False)
