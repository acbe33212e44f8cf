"""`shoal synthesize`: synthetic trips; `run` releases them, `report` draws a release."""

from __future__ import annotations

import click

from shoal.cli.main import LazyGroup
from shoal.cli.run import run_command

# name -> (module, object, what it does)
STEPS = {
    "run": ("synthesize", "run", "Release synthetic trips: spends."),
    "report": ("report", "synthesize_report", "Draw published synthetic trips: free."),
}


@click.group(cls=LazyGroup, steps=STEPS)
def synthesize() -> None:
    """Release synthetic trips with times and stays, with differential privacy per user or per trip.

    \b
    Example:  shoal synthesize run --help
    """


ABOUT = """Estimate a noisy model of the trips in SOURCE and write synthetic trips in the same columns.

Points outside the box are dropped and the trip is cut there. The budget is reserved before trips are counted.
Noise is added once, to the model; trips drawn from it cost no further budget, however many there are.
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

run = run_command("synthetic", about=ABOUT, example=EXAMPLE)
