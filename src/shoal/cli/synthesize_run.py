"""`shoal synthesize run`: trips that nobody made, from a noisy model of those that were."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.density_options import box, with_options
from shoal.cli.engine_options import EngineChoice, engine_options
from shoal.cli.progress import bars_for
from shoal.cli.source_options import site_options, source_options, trip_options
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

SITES = ("sites", "site_id", "site_lon", "site_lat", "sites_crs")
SPACE = ("box", "cells", "cell_m", "planar", *SITES)

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


def _formats(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


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
        callback=_formats,
        help="Beside GeoParquet: csv, gpx, geojson; repeatable.  [default: csv]",
    ),
)


@click.command(epilog=EXAMPLE)
@PLAN
@source_options(required=False, names_run=True)
@trip_options
@with_options(PRICE_OPTIONS)
@with_options(TRIP_BOUNDS)
@with_options(MAP_OPTIONS)
@site_options
@with_options(OUTPUT_OPTIONS)
@with_options(OUT_OPTIONS)
@engine_options
@with_options(END_OPTIONS)
def run(
    plan: str | None,
    source_options: SourcePlan,
    trip_rule: Any,
    dry_run: bool,
    as_json: bool,
    choice: EngineChoice,
    **flags: Any,
) -> None:
    """Learn how trips in SOURCE move, with noise, and write any number of synthetic ones in its columns.

    Points outside the box are dropped and the trip is cut there. The budget is reserved before anything is
    counted; noise is added once, to the model, and trips drawn from it cost nothing more.
    """
    from shoal.cli.synthesize_words import print_dry_run, print_result
    from shoal.kinds.synthetic.plan import SyntheticPlan
    from shoal.kinds.synthetic.prepare import prepare_synthetic
    from shoal.privacy.ledger import open_ledger

    settings = settings_from(plan, source_options, trip_rule, flags, SPACE)
    asked = SyntheticPlan.from_settings(settings)
    with choice.opened() as spark:
        prepared = prepare_synthetic(asked, spark)
        ledger = open_ledger()
        if dry_run:
            print_dry_run(prepared, ledger, as_json)
            return
        from shoal.kinds.synthetic.build import run_synthetic  # with its compiled kernels: not for a dry run

        with bars_for(prepared.notes(), as_json) as bars:
            result = run_synthetic(prepared, ledger, engine=spark, progress=bars, confirm=bars.confirm)
    print_result(prepared, result, ledger, as_json)
