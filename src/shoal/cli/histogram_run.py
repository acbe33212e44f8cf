"""`shoal histogram run`: a differentially private histogram of trips."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.density_options import box, with_options
from shoal.cli.histogram_query import ZONE_OPTIONS
from shoal.cli.progress import Bars
from shoal.cli.source_options import source_options, trip_options
from shoal.events.schema import SourcePlan

ZONES = ("zones", "zone_id", "zone_name", "zones_crs", "zones_layer", "repair_zones")
SPACE = ("box", "cells", "planar", *ZONES)
WINDOW = ("start", "end")
PER_USER = ("trips_per_user", "trips_cap")

EXAMPLE = """\b
Examples:
  shoal simulate town --what trips --out town
  shoal ledger create town --epsilon 4 --delta 1e-6
  shoal histogram run --plan town/histogram.toml --dry-run
  shoal histogram run --plan town/histogram.toml
  shoal histogram query town/histogram --box 5.02,47.31,5.05,47.33
\b
  shoal histogram run cabs/*.parquet --trip-flag --column flag=occupied
      --box -122.52,37.70,-122.36,37.83 --cells 256 --unit trip
      --start 2008-05-17 --end 2008-06-11 --time-zone America/Los_Angeles
      --population cabs --epsilon 0.1 --out release --owner owner
"""

MAP_OPTIONS = (
    click.option("--box", callback=box, help="west,south,east,north of the map; public, never read off."),
    click.option("--cells", help="Cells along each side, or COLUMNSxROWS.  [default: 256]"),
    click.option("--planar", is_flag=True, default=None, help="Coordinates are x, y in metres."),
    click.option("--zones", help="Polygons by whose names a recipient may ask; written to the release."),
    *ZONE_OPTIONS,
    click.option("--start", help="First day (or local time) of the window."),
    click.option("--end", help="Day (or local time) after the window."),
)
TRIP_BOUNDS = (
    click.option("--unit", help="What the promise covers: user, or trip.  [default: user]"),
    click.option("--trips-per-user", type=int, help="Trips kept of a user.  [default: 10]"),
    click.option("--trips-cap", type=int, help="Scale up to all trips, at most so many of a user."),
    click.option(
        "--trips",
        type=int,
        help="Number of kept trips, as you would publish it: answers are scaled to it. Else it is bought.",
    ),
    click.option("--jump-m", type=float, help="A longer step between two points cuts the trip."),
)
METHOD_OPTIONS = (
    click.option(
        "--method", metavar="NAME", help="boxes, dqam, prish, mwem, dawa or laplace.  [default: boxes]"
    ),
    click.option("--given", type=int, help="Random rectangles to serve.  [default: 16000]"),
    click.option("--given-seed", type=int, help="Public seed of these.  [default: 1]"),
    click.option("--given-file", help="Boxes to serve instead: CSV with west, south, east, north; public."),
    click.option("--mean-cells", type=float, help="A guess at the cells of a trip; public."),
)


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan; flags win over it.")
@source_options(required=False)
@trip_options
@click.option("--population", help="Whose budget is spent; see `shoal ledger create`.")
@click.option("--epsilon", type=float, help="Privacy loss of the release: smaller is more private.")
@click.option(
    "--delta",
    type=float,
    help="Small chance left out of the promise: noise is then Gaussian.  [default: none]",
)
@with_options(TRIP_BOUNDS)
@with_options(MAP_OPTIONS)
@with_options(METHOD_OPTIONS)
@click.option("--out", help="Folder of the release; must not exist.  [default: release]")
@click.option("--owner", help="Folder for the owner's report.  [default: owner]")
@click.option("--run-id", help="Another id makes another release of the same plan, and spends again.")
@click.option("--licence", help="Licence of the release, one line.")
@click.option("--seed", type=int, help="For tests only: repeatable noise, never publishable.")
@click.option(
    "--compare",
    is_flag=True,
    help="Run the other methods on the same trips for the owner's report; the ledger remembers the look.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and what is spent; read no rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def run(
    plan: str | None,
    source_options: SourcePlan,
    trip_rule: Any,
    compare: bool,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Count distinct trips in SOURCE on a public grid, add noise, and write a release that answers any area.

    Points outside the box are dropped and the trip is cut there. Between two points a trip follows the
    straight line, unless it is longer than --jump-m. The budget is reserved before anything is counted.
    """
    from shoal.cli.histogram_words import print_dry_run, print_result
    from shoal.flows.histogram_prepare import prepare_histogram
    from shoal.privacy.ledger import open_ledger

    prepared = prepare_histogram(plan_from(plan, source_options, trip_rule, flags))
    ledger = open_ledger()
    if dry_run:
        print_dry_run(prepared, ledger, as_json)
        return
    from shoal.flows.histogram import run_histogram  # with its compiled kernels: not for a dry run

    for words in () if as_json else prepared.notes():
        click.echo(f"note     {words}")
    with Bars(quiet=as_json) as bars:
        result = run_histogram(prepared, ledger, compare=compare, progress=bars, confirm=bars.confirm)
    print_result(prepared, result, ledger, as_json)


def _said(rule: Any) -> dict[str, Any]:
    """What the flags say of a rule; defaults leave the plan's own as they are."""
    from dataclasses import fields

    return {each.name: value for each in fields(rule) if (value := getattr(rule, each.name)) != each.default}


def plan_from(path: str | None, source: SourcePlan, rule: Any, flags: dict[str, Any]):
    """A plan file with the flags over it."""
    from shoal.flows.histogram_plan import TRIP, HistogramPlan
    from shoal.flows.plan import merge, read_plan

    said = {name: value for name, value in vars(source).items() if value not in (None, (), {})}
    window = {name: flags.pop(name) for name in WINDOW} | {"time_zone": said.get("time_zone")}
    nested = {
        "source": said,
        "space": {name: flags.pop(name) for name in SPACE},
        "window": window,
        "trip_rule": {} if rule is None else _said(rule),
    }
    settings = read_plan(path) if path else {}
    if flags.get("unit") == TRIP:  # bounds per user in the file make no sense then
        settings = {name: value for name, value in settings.items() if name not in PER_USER}
    return HistogramPlan.from_settings(merge(settings, {**flags, **nested}))
