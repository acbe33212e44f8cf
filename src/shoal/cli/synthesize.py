"""`shoal synthesize`: trips that nobody made; `run` releases them, `report` draws a release."""

from __future__ import annotations

import click

from shoal.cli.engine_options import engine_options
from shoal.cli.lazy import LazyGroup
from shoal.cli.options import (
    DRY_RUN,
    JSON,
    JUMP,
    OUT_OPTIONS,
    PLAN,
    PRICE_OPTIONS,
    UNIT,
    WINDOW_OPTIONS,
    box,
    names,
)
from shoal.cli.run import run_command
from shoal.cli.source_options import SITE_OPTIONS, source_options, trip_options

# name -> (module, object, what it does)
STEPS = {
    "run": ("synthesize", "run", "Release synthetic trips: spends."),
    "report": ("report", "synthesize_report", "Draw published synthetic trips: free."),
}


@click.group(cls=LazyGroup, steps=STEPS)
def synthesize() -> None:
    """Release synthetic trips with times and stays, differentially private per user or per trip.

    \b
    Example:  shoal synthesize run --help
    """


SPACE = ("box", "cells", "cell_m", "planar", "sites", "site_id", "site_lon", "site_lat", "sites_crs")
MAP_OPTIONS = (
    click.option("--box", callback=box, help="west,south,east,north of the map; public, never read off."),
    click.option("--cell-m", type=float, help="Largest side of a cell in metres.  [default: 420]"),
    click.option("--cells", help="Cells along each side, or COLUMNSxROWS, instead."),
    *WINDOW_OPTIONS,
    click.option(
        "--step-s", type=float, help="Step of time in seconds, and the shortest stay.  [default: 60]"
    ),
)
TRIP_BOUNDS = (
    UNIT,
    click.option("--trips-cap", type=int, help="Trips of a user in the number of trips.  [default: 20]"),
    click.option("--trips-per-user", type=int, help="Trips that are read of a user.  [default: 10000]"),
    click.option(
        "--trips",
        type=int,
        help="Declared number of trips, kept to two digits and published. Never a count from the data; "
        "without it the number is measured with noise.",
    ),
    JUMP,
)
OUTPUT_OPTIONS = (
    click.option(
        "--count",
        type=int,
        help="Synthetic trips to write; never a count from the data.  [default: the number of trips]",
    ),
    click.option(
        "--method",
        metavar="NAME",
        help="bridges, markov, ngram, prefix, dpt; or commute, of sites.  [default: bridges]",
    ),
    click.option(
        "--format",
        "formats",
        multiple=True,
        callback=names,
        help="Beside GeoParquet: csv, gpx, geojson; repeatable.  [default: csv]",
    ),
)
ABOUT = """Learn how trips in SOURCE move, with noise, and write any number of synthetic ones in its columns.

Points outside the box are dropped and the trip is cut there. The budget is reserved before anything is
counted; noise is added once, to the model, and trips drawn from it cost nothing more.
"""
EXAMPLE = """\b
Examples:
  shoal simulate town --what trips --out town
  shoal ledger create town --epsilon 4 --delta 1e-6
  shoal synthesize run --plan town/synthetic.toml --dry-run
  shoal synthesize run --plan town/synthetic.toml
  shoal inspect town/synthetic
\b
  shoal synthesize run 'cabs/*.parquet' --trip-flag --column flag=occupied
      --box -122.52,37.70,-122.36,37.83 --cell-m 420 --step-s 60 --unit trip
      --start 2008-05-17 --end 2008-06-11 --time-zone America/Los_Angeles
      --population cabs --epsilon 0.5 --count 100000 --out release --owner owner
\b
  shoal synthesize run 'town/events/*.parquet' --method commute --sites town/sites.csv
      --start 2026-03-02 --end 2026-03-09 --time-zone Europe/Paris
      --population town --epsilon 1 --out release --owner owner
"""

run = run_command(
    "synthetic",
    PLAN,
    source_options(required=False, names_run=True),
    trip_options,
    *PRICE_OPTIONS,
    *TRIP_BOUNDS,
    *MAP_OPTIONS,
    *SITE_OPTIONS,
    *OUTPUT_OPTIONS,
    *OUT_OPTIONS,
    engine_options,
    DRY_RUN,
    JSON,
    about=ABOUT,
    example=EXAMPLE,
    space=SPACE,
)
