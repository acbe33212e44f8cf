"""`shoal histogram`: distinct trips in any rectangle; `run` releases, `query` and `report` read a release."""

from __future__ import annotations

import click

from shoal.cli.main import LazyGroup
from shoal.cli.run import run_command

# name -> (module, object, what it does)
STEPS = {
    "run": ("histogram", "run", "Release a histogram of trips: spends."),
    "query": ("histogram_query", "query", "Trips in a box, polygon or zone of a published histogram: free."),
    "report": ("report", "histogram_report", "Draw a published histogram: free."),
}


@click.group(cls=LazyGroup, steps=STEPS)
def histogram() -> None:
    """Release distinct trips in any rectangle, with differential privacy per user or per trip.

    \b
    Example:  shoal histogram run --help
    """


ABOUT = """Count distinct trips in SOURCE on a public grid, add noise, and write a release.

Points outside the box are dropped and the trip is cut there. Two consecutive points are joined by a straight
line, unless they are farther apart than --jump-m. The budget is reserved before trips are counted.
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
    click.option(
        "--compare",
        is_flag=True,
        help="Also run the other methods on the same trips, for the owner's report; recorded in the ledger.",
    ),
    about=ABOUT,
    example=EXAMPLE,
    report=("compare",),
)
