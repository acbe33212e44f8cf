"""`shoal density run`: release people per zone and slot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.progress import Bars
from shoal.cli.source_options import source_options
from shoal.events.schema import SourcePlan

if TYPE_CHECKING:
    from shoal.flows.density import PreparedDensity


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
    "--delta", type=float, help="Small chance left out of the promise.  [default: 1e-6; laplace: none]"
)
@click.option("--method", help="gaussian (default) or laplace.")
@click.option("--ell", type=int, help="Visits kept per user.  [default: 30]")
@click.option("--unit", help="What the promise covers.  [default: user]")
@click.option("--zones", help="Zones: GeoJSON, GeoParquet, Shapefile or GeoPackage.")
@click.option("--zone-id", help="Column with the zones' ids; `row` numbers them.")
@click.option("--zone-name", help="Column with the zones' names.")
@click.option("--zones-crs", help="Coordinate system of the zones where the file does not say.")
@click.option("--repair-zones", is_flag=True, default=None, help="Repair self-intersecting polygons.")
@click.option(
    "--holes", type=click.Choice(["stop", "warn", "allow"]), help="Gaps between zones.  [default: stop]"
)
@click.option("--sites", help="Sites: CSV or Parquet with site, lon, lat, or a file of points.")
@click.option("--site-id", help="Column with the sites' ids; `row` numbers them.")
@click.option("--sites-crs", help="Coordinate system of the sites where the file does not say.")
@click.option("--box", callback=_box, help="west,south,east,north of a grid.")
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
    from shoal.engine.duck import DuckEngine
    from shoal.flows.density import prepare_density, run_density
    from shoal.flows.plan import DensityPlan, merge, read_plan
    from shoal.privacy.ledger import open_ledger

    settings = merge(read_plan(plan) if plan else {}, _settings(source_options, flags))
    prepared = prepare_density(DensityPlan.from_settings(settings))
    if dry_run:
        _print_dry_run(prepared, as_json)
        return
    with Bars(quiet=as_json) as bars:
        result = run_density(prepared, open_ledger(), engine=DuckEngine(threads=threads), progress=bars)
    _print_result(prepared, result, as_json)


def _settings(source: SourcePlan, flags: dict[str, Any]) -> dict[str, Any]:
    """Flags as nested settings, in the shape of a plan file."""
    from dataclasses import asdict

    space = (
        "zones",
        "zone_id",
        "zone_name",
        "zones_crs",
        "repair_zones",
        "holes",
        "sites",
        "site_id",
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


def _print_dry_run(prepared: PreparedDensity, as_json: bool) -> None:
    from dataclasses import asdict

    from shoal.flows.density_manifest import public_parameters
    from shoal.flows.expected import expected_error

    plan, loss, error = prepared.plan, prepared.mechanism.loss(), None
    error = expected_error(prepared.mechanism, prepared.geography.zones.count)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "plan": asdict(plan),
                    "public": public_parameters(prepared),
                    "guarantee": prepared.guarantee.to_manifest(),
                    "spends": [{"name": "counts", "mechanism": prepared.mechanism.name, "rho": loss.rho}],
                    "expected_error": asdict(error),
                    "budget": _budget(plan.population),
                },
                indent=2,
            )
        )
        return
    from shoal.cli.dry_run import print_dry_run

    print_dry_run(prepared, error, _budget(plan.population))


def _budget(name: str) -> dict[str, Any] | None:
    from shoal.privacy.ledger import open_ledger

    population = open_ledger().state().populations.get(name)
    if population is None:
        return None
    return {
        "currency": population.currency,
        "limit_nano": population.limit_nano,
        "left_nano": population.left_nano,
    }


def _print_result(prepared: PreparedDensity, result: Any, as_json: bool) -> None:
    if as_json:
        shown = {
            "release": str(result.release),
            "report": str(result.report),
            "reused": result.reused,
            "publishable": result.publishable,
            "guarantee": prepared.guarantee.to_manifest(),
        }
        click.echo(json.dumps(shown, indent=2))
        return
    if result.reused:
        click.echo("This run was released before: here it is again, and nothing was spent.")
    click.echo(f"release  {result.release}")
    click.echo(f"report   {result.report}   (owner's eyes only: it shows raw figures)")
    click.echo(prepared.guarantee.unit.sentence)
    click.echo(prepared.guarantee.sentence)
    if not result.publishable:
        click.echo("Seeded: repeatable, not for publication.")
