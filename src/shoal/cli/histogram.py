"""`shoal histogram`: distinct trips in any rectangle; `run` releases, `query` and `report` read a release."""

from __future__ import annotations

import click

from shoal.cli.engine_options import engine_options
from shoal.cli.histogram_query import ZONE_OPTIONS
from shoal.cli.lazy import LazyGroup
from shoal.cli.options import DRY_RUN, JSON, JUMP, OUT_OPTIONS, PLAN, PRICE_OPTIONS, UNIT, WINDOW_OPTIONS, box
from shoal.cli.run import run_command
from shoal.cli.source_options import source_options, trip_options

# name -> (module, object, what it does)
STEPS = {
    "run": ("histogram", "run", "Release a histogram of trips: spends."),
    "query": ("histogram_query", "query", "Trips in a box, polygon or zone of a published histogram: free."),
    "report": ("report", "histogram_report", "Draw a published histogram: free."),
}


@click.group(cls=LazyGroup, steps=STEPS)
def histogram() -> None:
    """Release how many distinct trips passed any rectangle, differentially private per user or per trip.

    \b
    Example:  shoal histogram run --help
    """


ZONES = ("zones", "zone_id", "zone_name", "zones_crs", "zones_layer", "repair_zones")
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
ABOUT = """Count distinct trips in SOURCE on a public grid, add noise, and write a release that answers any
area.

Points outside the box are dropped and the trip is cut there. Between two points a trip follows the
straight line, unless it is longer than --jump-m. The budget is reserved before anything is counted.
"""
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

run = run_command(
    "histogram",
    PLAN,
    source_options(required=False, names_run=True),
    trip_options,
    *PRICE_OPTIONS,
    *TRIP_BOUNDS,
    *MAP_OPTIONS,
    *METHOD_OPTIONS,
    *OUT_OPTIONS,
    click.option(
        "--compare",
        is_flag=True,
        help="Run the other methods on the same trips for the owner's report; the ledger remembers the look.",
    ),
    engine_options,
    DRY_RUN,
    JSON,
    about=ABOUT,
    example=EXAMPLE,
    space=("box", "cells", "planar", *ZONES),
    report=("compare",),
)
