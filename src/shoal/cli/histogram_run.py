"""`shoal histogram run`: a differentially private histogram of trips."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.density_options import box, with_options
from shoal.cli.engine_options import EngineChoice, engine_options
from shoal.cli.histogram_query import ZONE_OPTIONS
from shoal.cli.progress import bars_for
from shoal.cli.source_options import source_options, trip_options
from shoal.cli.trip_words import (
    END_OPTIONS,
    JUMP,
    OUT_OPTIONS,
    PLAN,
    PRICE_OPTIONS,
    UNIT,
    WINDOW_OPTIONS,
    settings_from,
)
from shoal.events.schema import SourcePlan

ZONES = ("zones", "zone_id", "zone_name", "zones_crs", "zones_layer", "repair_zones")
SPACE = ("box", "cells", "planar", *ZONES)

EXAMPLE = """\b
Examples:
  shoal simulate town --what trips --out town
  shoal ledger create town --epsilon 4 --delta 1e-6
  shoal histogram run --plan town/histogram.toml --dry-run
  shoal histogram run --plan town/histogram.toml
  shoal histogram query town/histogram --box 5.02,47.31,5.05,47.33
\b
  shoal histogram run 'cabs/*.parquet' --trip-flag --column flag=occupied
      --box -122.52,37.70,-122.36,37.83 --cells 256 --unit trip
      --start 2008-05-17 --end 2008-06-11 --time-zone America/Los_Angeles
      --population cabs --epsilon 0.1 --out release --owner owner
"""

MAP_OPTIONS = (
    click.option("--box", callback=box, help="west,south,east,north of the map; public, never read off."),
    click.option("--cells", help="Cells along each side, or COLUMNSxROWS.  [default: 256]"),
    click.option("--zones", help="Polygons by whose names a recipient may ask; written to the release."),
    *ZONE_OPTIONS,
    *WINDOW_OPTIONS,
)
TRIP_BOUNDS = (
    UNIT,
    click.option("--trips-per-user", type=int, help="Trips kept of a user.  [default: 10]"),
    click.option("--trips-cap", type=int, help="Scale up to all trips, at most so many of a user."),
    click.option(
        "--trips",
        type=int,
        help="Declared number of kept trips, kept to two digits and published; answers are scaled to it. "
        "Never a count from the data; without it the number is measured with noise.",
    ),
    JUMP,
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
@PLAN
@source_options(required=False, names_run=True)
@trip_options
@with_options(PRICE_OPTIONS)
@with_options(TRIP_BOUNDS)
@with_options(MAP_OPTIONS)
@with_options(METHOD_OPTIONS)
@with_options(OUT_OPTIONS)
@click.option(
    "--compare",
    is_flag=True,
    help="Run the other methods on the same trips for the owner's report; the ledger remembers the look.",
)
@engine_options
@with_options(END_OPTIONS)
def run(
    plan: str | None,
    source_options: SourcePlan,
    trip_rule: Any,
    compare: bool,
    dry_run: bool,
    as_json: bool,
    choice: EngineChoice,
    **flags: Any,
) -> None:
    """Count distinct trips in SOURCE on a public grid, add noise, and write a release that answers any area.

    Points outside the box are dropped and the trip is cut there. Between two points a trip follows the
    straight line, unless it is longer than --jump-m. The budget is reserved before anything is counted.
    """
    from shoal.cli.histogram_words import print_dry_run, print_result
    from shoal.kinds.histogram.prepare import prepare_histogram
    from shoal.privacy.ledger import open_ledger

    asked = plan_from(plan, source_options, trip_rule, flags)
    with choice.opened() as spark:
        prepared = prepare_histogram(asked, spark)
        ledger = open_ledger()
        if dry_run:
            print_dry_run(prepared, ledger, as_json)
            return
        from shoal.kinds.histogram.build import run_histogram  # with its compiled kernels: not for a dry run

        with bars_for(prepared.notes(), as_json) as bars:
            result = run_histogram(
                prepared, ledger, compare=compare, engine=spark, progress=bars, confirm=bars.confirm
            )
    print_result(prepared, result, ledger, as_json)


def plan_from(path: str | None, source: SourcePlan, rule: Any, flags: dict[str, Any]):
    """A plan file with the flags over it."""
    from shoal.kinds.histogram.plan import HistogramPlan

    return HistogramPlan.from_settings(settings_from(path, source, rule, flags, SPACE))
