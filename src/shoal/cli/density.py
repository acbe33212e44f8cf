"""`shoal density`: people per zone and slot; `run` releases, `compare` and `year` help to choose."""

from __future__ import annotations

import click

from shoal.cli.density_compare import compare
from shoal.cli.density_year import year
from shoal.cli.engine_options import THREADS
from shoal.cli.run import run_command


@click.group()
def density() -> None:
    """People per zone and slot, differentially private for all of a user's events in the window."""


density.add_command(compare)
density.add_command(year)

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
density.add_command(run)
