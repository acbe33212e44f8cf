"""`shoal density`: people per zone and slot; `run` releases, `compare` and `year` help to choose."""

from __future__ import annotations

import click

from shoal.cli.main import LazyGroup
from shoal.cli.options import THREADS
from shoal.cli.run import run_command

# name -> (module, object, what it does)
STEPS = {
    "compare": (
        *("density_compare", "compare"),
        "Run several methods at several epsilons and show their error against the true counts.",
    ),
    "run": ("density", "run", "Count people per zone and slot in SOURCE, add noise, and write a release."),
    "year": (
        *("density_year", "year"),
        "Share a budget over many releases about the same people, such as the weeks of a year.",
    ),
}


@click.group(cls=LazyGroup, steps=STEPS)
def density() -> None:
    """People per zone and slot, differentially private for all of a user's events in the window."""


ABOUT = """Count people per zone and slot in SOURCE, add noise, and write a release.

A count is the number of people observed in a zone during a slot. A person observed at several places in the
same slot is counted at each of them, and only once per place.

The budget is reserved before events are counted. `--time-zone` is the time zone of the window and of times
that do not state one.
"""
EXAMPLE = """\b
Examples:
  shoal simulate town --out town
  shoal ledger create town --epsilon 4 --delta 1e-6
  shoal density run --plan town/density.toml --dry-run
  shoal density run --plan town/density.toml --epsilon 0.5 --out release-0.5
\b
  shoal density run 'events/*.parquet' --zones zones.geojson --sites sites.csv
      --start 2026-03-02 --end 2026-03-09 --time-zone Europe/Paris
      --population paris-2026 --epsilon 1 --delta 1e-6 --out release --owner owner
"""

run = run_command("density", THREADS, about=ABOUT, example=EXAMPLE)
