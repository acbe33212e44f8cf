"""`shoal density`: people per zone and slot; `run` releases, `compare` and `year` help to choose."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.density_compare import compare
from shoal.cli.density_options import MAP_OPTIONS, METHOD_OPTIONS, as_settings, with_options
from shoal.cli.density_year import year
from shoal.cli.engine_options import THREADS, EngineChoice, engine_options
from shoal.cli.progress import bars_for
from shoal.cli.source_options import source_options
from shoal.events.schema import SourcePlan


@click.group()
def density() -> None:
    """People per zone and slot, differentially private for all of a user's events in the window."""


density.add_command(compare)
density.add_command(year)

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


@density.command("run", epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan; flags win over it.")
@source_options(required=False, names_run=True)
@click.option("--population", help="Whose budget is spent; see `shoal ledger create`.")
@click.option("--epsilon", type=float, help="Privacy loss of the release: smaller is more private.")
@click.option(
    "--delta",
    type=float,
    help="Probability mass that the epsilon bound may miss.  [default: 1e-6; pure methods: none]",
)
@click.option("--rho", type=float, help="The price itself instead of --epsilon; see `shoal density year`.")
@click.option(
    "--method",
    metavar="NAME",
    help="best, or another that the dry run lists: efpag, efpa (pure), gaussian, laplace (pure), fpa, ...  "
    "[default: best]",
)
@with_options(METHOD_OPTIONS)
@click.option(
    "--unit", help="What the promise covers; another unit needs --column user=NAME.  [default: user]"
)
@with_options(MAP_OPTIONS)
@click.option("--decimals", type=int, help="Decimals of the released numbers.  [default: 1]")
@click.option("--out", help="Folder of the release; must not exist.  [default: release]")
@click.option("--owner", help="Folder for the owner's report.  [default: owner]")
@click.option("--run-id", help="Another id makes another release of the same plan, and spends again.")
@click.option(
    "--supersedes", metavar="SHA256", help="Manifest hash of an earlier release that this one replaces."
)
@click.option("--licence", help="Licence of the release, one line.")
@click.option("--seed", type=int, help="For tests only: repeatable noise, never publishable.")
@THREADS
@engine_options
@click.option(
    "--dry-run", is_flag=True, help="Print the plan, what is spent and the expected error; read no rows."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def run(
    plan: str | None,
    source_options: SourcePlan,
    dry_run: bool,
    as_json: bool,
    threads: int,
    choice: EngineChoice,
    **flags: Any,
) -> None:
    """Count people per zone and slot in SOURCE, add noise, and write a release.

    Who was seen at several places within a slot counts at each; who was at one place counts once, however
    many events there are.

    The budget is reserved before anything is counted. `--time-zone` is the local clock of the window and of
    times without a zone of their own.
    """
    from shoal.cli.density_words import print_dry_run, print_result
    from shoal.kinds.density.plan import DensityPlan
    from shoal.kinds.density.prepare import prepare_density
    from shoal.kinds.plan import merge, read_plan
    from shoal.privacy.ledger import open_ledger

    settings = merge(read_plan(plan) if plan else {}, as_settings(source_options, flags))
    asked = DensityPlan.from_settings(settings)
    with choice.opened() as spark:
        prepared = prepare_density(asked, spark)
        ledger = open_ledger()
        if dry_run:
            print_dry_run(prepared, ledger, as_json)
            return
        from shoal.engine.duck import DuckEngine  # with its compiled kernels: not for a dry run
        from shoal.kinds.density.build import run_density

        with bars_for(prepared.notes(), as_json) as bars:
            engine = spark or DuckEngine(threads=threads)
            result = run_density(prepared, ledger, engine=engine, progress=bars, confirm=bars.confirm)
    print_result(prepared, result, ledger, as_json)
