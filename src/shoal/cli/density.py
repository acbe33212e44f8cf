"""`shoal density run`: release people per zone and slot."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.progress import Bars
from shoal.cli.source_options import source_options
from shoal.events.schema import SourcePlan


@click.group()
def density() -> None:
    """People per zone and slot, differentially private for all of a user's events in the window."""


EXAMPLE = """\b
Examples:
  shoal simulate town --out town
  shoal ledger create town --epsilon 4 --delta 1e-6
  shoal density run --plan town/density.toml --dry-run
  shoal density run --plan town/density.toml --epsilon 0.5 --out release-0.5
\b
  shoal density run events/*.parquet --zones zones.geojson --sites sites.csv
      --start 2026-03-02 --end 2026-03-09 --time-zone Europe/Paris
      --population paris-2026 --epsilon 1 --delta 1e-6 --out release --owner owner
"""


def _box(context: click.Context, parameter: click.Parameter, value: str | None):
    if value is None:
        return None
    try:
        numbers = tuple(float(part) for part in value.split(","))
        if len(numbers) != 4:
            raise ValueError
    except ValueError:
        raise click.BadParameter("give four numbers: west,south,east,north.") from None
    return numbers


@density.command("run", epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan; flags win over it.")
@source_options(required=False)
@click.option("--population", help="Whose budget is spent; see `shoal ledger create`.")
@click.option("--epsilon", type=float, help="Privacy loss of the release: smaller is more private.")
@click.option(
    "--delta",
    type=float,
    help="Small chance left out of the promise.  [default: 1e-6; pure methods: none]",
)
@click.option("--rho", type=float, help="The price itself instead of --epsilon; see `shoal density year`.")
@click.option(
    "--method", metavar="NAME", help="One of those the dry run lists, such as laplace.  [default: gaussian]"
)
@click.option("--ell", type=int, help="Visits kept per user; more visits, more noise.  [default: 30]")
@click.option("--cap", type=int, help="Visits per user that enter the total number.  [default: 250]")
@click.option(
    "--nights/--no-nights", default=None, help="Smooth the nights, where the method can.  [default: nights]"
)
@click.option("--users", type=int, help="Order of magnitude of the population, as you would tell anyone.")
@click.option(
    "--unit", help="What the promise covers; another unit needs --column user=NAME.  [default: user]"
)
@click.option("--zones", help="Zones: GeoJSON, GeoParquet, Shapefile or GeoPackage.")
@click.option("--zone-id", help="Column with the zones' ids; `row` numbers them.")
@click.option("--zone-name", help="Column with the zones' names.")
@click.option("--zones-crs", help="Coordinate system of the zones where the file does not say.")
@click.option("--zones-layer", help="Layer of a file of zones with several.")
@click.option("--repair-zones", is_flag=True, default=None, help="Repair self-intersecting polygons.")
@click.option(
    "--holes", type=click.Choice(["stop", "warn", "allow"]), help="Gaps between zones.  [default: stop]"
)
@click.option("--sites", help="Sites: CSV or Parquet with site, lon, lat, or a file of points.")
@click.option("--site-id", help="Column with the sites' ids; `row` numbers them.")
@click.option("--site-lon", help="Column with the sites' longitudes (or x, with --sites-crs).")
@click.option("--site-lat", help="Column with the sites' latitudes (or y, with --sites-crs).")
@click.option("--sites-crs", help="Coordinate system of the sites where the file does not say.")
@click.option(
    "--box", callback=_box, help="west,south,east,north of a grid or of H3 cells (longitude first)."
)
@click.option("--cell-m", type=float, help="Side of the squares of a grid over --box, in metres.")
@click.option("--h3", type=int, help="Resolution of H3 cells over --box.")
@click.option("--start", help="First day (or local time) of the window.")
@click.option("--end", help="Day (or local time) after the window.")
@click.option("--slot-minutes", type=int, help="Length of a slot.  [default: 60]")
@click.option("--decimals", type=int, help="Decimals of the released numbers.  [default: 1]")
@click.option("--out", help="Folder of the release; must not exist.  [default: release]")
@click.option("--owner", help="Folder for the owner's report.  [default: owner]")
@click.option("--run-id", help="Another id makes another release of the same plan, and spends again.")
@click.option("--licence", help="Licence of the release, one line.")
@click.option("--seed", type=int, help="For tests only: repeatable noise, never publishable.")
@click.option("--threads", type=int, default=0, help="Threads of the engine.  [default: one per core]")
@click.option(
    "--dry-run", is_flag=True, help="Print the plan, what is spent and the expected error; read no rows."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def run(
    plan: str | None, source_options: SourcePlan, dry_run: bool, as_json: bool, threads: int, **flags: Any
) -> None:
    """Count people per zone and slot in SOURCE, add noise, and write a release.

    The budget is reserved before anything is counted. `--time-zone` is the local clock of the window and of
    times without a zone of their own.
    """
    from shoal.cli.density_words import print_dry_run, print_result
    from shoal.engine.duck import DuckEngine
    from shoal.flows.density import run_density
    from shoal.flows.plan import DensityPlan, merge, read_plan
    from shoal.flows.prepare import prepare_density
    from shoal.privacy.ledger import open_ledger

    settings = merge(read_plan(plan) if plan else {}, _settings(source_options, flags))
    prepared = prepare_density(DensityPlan.from_settings(settings))
    ledger = open_ledger()
    if dry_run:
        print_dry_run(prepared, ledger, as_json)
        return
    with Bars(quiet=as_json) as bars:
        engine = DuckEngine(threads=threads)
        result = run_density(prepared, ledger, engine=engine, progress=bars, confirm=bars.confirm)
    print_result(prepared, result, ledger, as_json)


def _settings(source: SourcePlan, flags: dict[str, Any]) -> dict[str, Any]:
    """Flags as nested settings, in the shape of a plan file."""
    from dataclasses import asdict

    space = (
        "zones",
        "zone_id",
        "zone_name",
        "zones_crs",
        "zones_layer",
        "repair_zones",
        "holes",
        "sites",
        "site_id",
        "site_lon",
        "site_lat",
        "sites_crs",
        "box",
        "cell_m",
        "h3",
    )
    window = {name: flags.pop(name) for name in ("start", "end", "slot_minutes")}
    if any(value is not None for value in window.values()) or source.time_zone:
        window["time_zone"] = source.time_zone
    return {
        **{name: value for name, value in flags.items() if name not in space},
        "source": asdict(source),
        "space": {name: flags[name] for name in space},
        "window": window,
    }
