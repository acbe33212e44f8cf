"""`shoal attack membership`: whether a person can be told to be in the counts."""

from __future__ import annotations

import json
from typing import Any

import click

from shoal.cli.attack_options import DEFENCE_OPTIONS, OUTPUT_OPTIONS
from shoal.cli.options import MAP_OPTIONS, as_settings, with_options
from shoal.cli.progress import Bars
from shoal.cli.source_options import source_options
from shoal.events.schema import SourcePlan

EXAMPLE = """\b
Examples:
  shoal simulate town --users 6000 --out town
  shoal attack membership --plan town/density.toml
  shoal attack membership --plan town/density.toml --defence best,gaussian --epsilon 0.1,1,10
  shoal attack membership --plan town/density.toml --knows past --group 1000
"""


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of a density; flags win over it.")
@source_options(required=False)
@with_options(MAP_OPTIONS)
@click.option(
    "--knows",
    type=click.Choice(["visits", "past"]),
    default="visits",
    show_default=True,
    help="A target's visits for certain, or their habits in the first half of the window.",
)
@click.option("--group", type=int, help="People in the counts.  [default: a quarter of all, at most 2000]")
@click.option("--worlds", type=int, default=20, show_default=True, help="Groups that are published.")
@click.option(
    "--targets", type=int, default=100, show_default=True, help="People attacked, of few and of many visits."
)
@with_options(DEFENCE_OPTIONS)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of groups and noise.")
@with_options(OUTPUT_OPTIONS)
def membership(plan: str | None, source_options: SourcePlan, **flags: Any) -> None:
    """Tell from counts whether a person is in them, raw and protected.

    Groups of people are drawn from the events and their counts published; the adversary knows other people
    and the visits of a target, and says how likely the target is in. The figures come from raw events: for
    the owner's eyes only. Nothing is spent.
    """
    from shoal.attacks.runs.membership import MembershipPlan, attack_membership, membership_told, roc_columns
    from shoal.attacks.runs.source import note_look, write_findings
    from shoal.kinds.plan import DEFAULT_DELTA, merge, read_plan

    names = ("knows", "group", "worlds", "targets", "defences", "epsilons", "seed")
    own = {name: flags.pop(name) for name in names}
    out, as_json, delta = (flags.pop(name) for name in ("out", "as_json", "delta"))
    settings = merge(read_plan(plan) if plan else {}, as_settings(source_options, flags))
    asked = MembershipPlan(**own, delta=delta or DEFAULT_DELTA)
    with Bars(quiet=as_json) as bars:
        note_look(settings, "membership", out)
        result = attack_membership(settings, asked, bars)
    told = membership_told(result)
    paths = write_findings(out, "membership", told, roc_columns(result))
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
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("counts", "set at", "visits", "median", "AUC", "at most", "found at 0.1 %", "at most"):
        table.add_column(name, justify="left" if name in ("counts", "visits") else "right")
    for row in told["rows"]:
        table.add_row(
            row["counts"],
            "" if row["set_at"] is None else f"{row['set_at']:g}",
            row["visits"],
            f"{row['visits_median']:g}",
            f"{row['auc']:.3f}",
            _shown(row["auc_at_most"], ".3f"),
            _shown(row["tpr_at_fpr_0.001"], ".1%"),
            _shown(row["tpr_at_most"], ".1%"),
        )
    console.print(table)
    console.print(
        "AUC: share of pairs, one in and one out, told apart; 0.5 is chance. found: share of members found "
        "where 0.1 % of others are taken for members. at most: what the guarantee allows any adversary; "
        "few scores scatter around it. found is empty below 1,000 scores of people who are out: ask for more "
        "--worlds or --targets.\n",
        style="dim",
        soft_wrap=True,
    )
    for line in told["summary"]:
        console.print(escape(line), soft_wrap=True, highlight=False)


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
