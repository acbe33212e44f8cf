"""`shoal query`: counting queries on private events. Every answer spends."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.options import THREADS, box, click_options
from shoal.cli.run import run_command
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.query.plan import QueryPlan

PRICE = ("population", "epsilon", "delta", "rho")


def _plan_from(path: str, flags: dict[str, Any]) -> Any:
    from shoal.kinds.plan import read_plan

    asks = _asks(flags.pop("file"), flags)
    return QueryPlan.from_settings(read_plan(path), flags, asks)


def _asks(file: str | None, flags: dict[str, Any]):
    """The queries of a file, or the one that flags say; takes its flags out."""
    from shoal.errors import PlanError
    from shoal.kinds.query.plan import Ask, parse_slots, read_asks

    said = {name: flags.pop(name) for name in ("zones_in", "bbox", "start", "end", "slots")}
    if file is None:
        zones = said.pop("zones_in")
        named = None if zones is None else tuple(part.strip() for part in zones.split(",") if part.strip())
        slots = None if said["slots"] is None else parse_slots(said["slots"])
        return (Ask(name="query", zones=named, **{**said, "slots": slots}),)
    if any(value is not None for value in said.values()):
        raise PlanError("query-set", "queries come from the file or from flags; got both.", "Leave one out.")
    return read_asks(file)


ABOUT = """Count visits in a set of zones and slots of private events, with noise. It spends.

Of each user at most one visit per slot and --ell in the window are kept. The budget is reserved before
anything is counted; the same query again returns the stored answer and spends nothing.

A release that is published can be asked anything for free, from its files. This command goes back to the
events instead: use it for what no release says.
"""
EXAMPLE = """\b
Examples:
  shoal query --plan town/density.toml --zones-in Z0001,Z0002
      --from 2026-03-02T07:00 --to 2026-03-02T10:00 --epsilon 0.1 --dry-run
  shoal query --plan town/density.toml --bbox 4.9,47.2,5.1,47.4 --rho 0.001
  shoal query --plan town/density.toml --file queries.jsonl --mechanism weights --epsilon 1
\b
A line of queries.jsonl: zones by id or box, slots by time or number; by default all zones, all slots:
  {"name": "morning", "zones": ["Z0001"], "from": "2026-03-02T07:00", "to": "2026-03-02T10:00"}
  {"name": "all week", "bbox": [4.9, 47.2, 5.1, 47.4]}
"""


query = run_command(
    "query",
    click.option(
        "--plan", required=True, type=click.Path(), help="A density's plan: source, map, window, population."
    ),
    click.option("--zones-in", metavar="ID,...", help="Zones of the query.  [default: all]"),
    click.option("--bbox", callback=box, help="west,south,east,north: zones whose centre lies in it."),
    click.option(
        "--from", "start", metavar="TIME", help="First slot, local time.  [default: that of the window]"
    ),
    click.option(
        "--to", "end", metavar="TIME", help="Local time after the last slot.  [default: end of the window]"
    ),
    click.option("--slots", metavar="N-M,...", help="Slots by number, from 0, instead of times."),
    click.option(
        "--file", type=click.Path(), help="File of queries instead of one query: one JSON object per line."
    ),
    *click_options(DensityPlan, only=PRICE),
    *click_options(QueryPlan),
    *click_options(DensityPlan, only=("ell", "decimals", "run_id", "supersedes")),
    THREADS,
    about=ABOUT,
    example=EXAMPLE,
    plan_from=_plan_from,
    name="query",
)
