"""`shoal density`: people per zone and slot; `run` releases, `compare` and `year` help to choose."""

from __future__ import annotations

import click

from shoal.cli.density_compare import compare
from shoal.cli.density_year import year
from shoal.cli.engine_options import THREADS, engine_options
from shoal.cli.options import DENSITY_OPTIONS, EPSILON, JSON, MAP_OPTIONS, OUT_OPTIONS, PLAN, POPULATION
from shoal.cli.run import run_command
from shoal.cli.source_options import source_options


@click.group()
def density() -> None:
    """People per zone and slot, differentially private for all of a user's events in the window."""


density.add_command(compare)
density.add_command(year)

ABOUT = """Count people per zone and slot in SOURCE, add noise, and write a release.

Who was seen at several places within a slot counts at each; who was at one place counts once, however
many events there are.

The budget is reserved before anything is counted. `--time-zone` is the local clock of the window and of
times without a zone of their own.
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


run = run_command(
    "density",
    PLAN,
    source_options(required=False, names_run=True),
    POPULATION,
    EPSILON,
    click.option(
        "--delta",
        type=float,
        help="Probability mass that the epsilon bound may miss.  [default: 1e-6; pure methods: none]",
    ),
    click.option(
        "--rho", type=float, help="The price itself instead of --epsilon; see `shoal density year`."
    ),
    click.option(
        "--method",
        metavar="NAME",
        help="best, or another that the dry run lists: efpag, efpa (pure), gaussian, laplace (pure), fpa, "
        "...  [default: best]",
    ),
    *DENSITY_OPTIONS,
    click.option(
        "--unit", help="What the promise covers; another unit needs --column user=NAME.  [default: user]"
    ),
    *MAP_OPTIONS,
    click.option("--decimals", type=int, help="Decimals of the released numbers.  [default: 1]"),
    *OUT_OPTIONS,
    THREADS,
    engine_options,
    click.option(
        "--dry-run",
        is_flag=True,
        help="Print the plan, what is spent and the expected error; read no rows.",
    ),
    JSON,
    about=ABOUT,
    example=EXAMPLE,
)
density.add_command(run)
