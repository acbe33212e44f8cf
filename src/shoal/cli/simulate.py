"""`shoal simulate`: write a simulated city. `shoal demo`: the whole way on one."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import click

from shoal.cli.main import JSON, click_options, out_option, with_options
from shoal.cli.printing import Bars
from shoal.space.plan import ZonesPlan

PRESET_NAMES = ("town", "paris", "rough", "abi", "tfl", "events-city")

EXAMPLE = """
\b
Example:
  shoal simulate town --out town --seed 7
  shoal simulate paris --out paris --what events,trips
  shoal simulate town --out mine --zones zones.geojson --sites sites.csv

\b
Presets:
  town   200,000 users, 120 zones, 160 sites, one week of events (the default)
  paris  1,992,846 users, 989 zones, 1303 sites, one week of events
  rough  400,000 users, another geography, irregular, with crowds
  abi    29,191 users, 400 base stations, two weeks of samples
  tfl    10,000 card holders, 582 stations, four weeks of transit trips
  events-city  50,000 users, 300 irregular zones, a concert, a market, 300 vehicles;
               seen at points, or with --what events at 500 towers
"""


@click.command(epilog=EXAMPLE)
@click.argument("preset", type=click.Choice(PRESET_NAMES), default="town")
@click.option("--paris", is_flag=True, help="The same as the preset paris.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=None, help="Folder to write. [default: PRESET]"
)
@click.option("--users", type=click.IntRange(min=1), help="Number of users instead of the preset's.")
@click.option("--weeks", type=click.IntRange(min=1), help="Number of weeks instead of the preset's.")
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**63 - 1),
    default=1,
    show_default=True,
    help="The same seed gives the same city.",
)
@click.option("--zones", "zones_file", type=click.Path(path_type=Path), help="Own zones, not the preset's.")
@with_options(click_options(ZonesPlan, only=("zone_id", "zone_name", "zones_crs")))
@click.option("--sites", "sites_file", type=click.Path(path_type=Path), help="Own sites, not the preset's.")
@click.option("--site-id", help="Column with the sites' ids; `row` numbers them.")
@click.option("--site-lon", help="Column with the sites' longitudes.")
@click.option("--site-lat", help="Column with the sites' latitudes.")
@click.option(
    "--what",
    help="Comma-separated: events, points, trips, samples, transit. [default: what the preset is for]",
)
@click.option("--json", "as_json", is_flag=True, help="Print city.json instead of a summary.")
def simulate(preset, paris, out, users, weeks, seed, what, as_json, **geometry) -> None:
    """Write a simulated city: zones, sites, and records of its people.

    No real person is in it. The same preset, seed, users and weeks give the same city; a folder that
    already holds it is reused.
    """
    preset = "paris" if paris else preset
    from dataclasses import replace

    from shoal.events.simulate import preset_named
    from shoal.events.simulate.city import city_identity, holds_city, simulate_city
    from shoal.kinds.simulated import record_by_record, write_missing_plans

    changes = {"users": users, "weeks": weeks, "what": _kinds(what)}
    plan = replace(
        preset_named(preset), **{key: value for key, value in changes.items() if value is not None}
    )
    zones, sites = _own_geometry(**geometry)
    out = out or Path(preset)
    reused = holds_city(out, city_identity(plan, seed, zones, sites))
    if not reused:
        with Bars(quiet=as_json) as bars:
            simulate_city(plan, out, seed=seed, progress=record_by_record(bars), zones=zones, sites=sites)
    write_missing_plans(out, plan.what)
    _say(out, reused, as_json)


def _kinds(what: str | None) -> tuple[str, ...] | None:
    if what is None:
        return None
    return tuple(dict.fromkeys(kind.strip() for kind in what.split(",") if kind.strip()))


def _own_geometry(zones_file, zone_id, zone_name, zones_crs, sites_file, **sites_as):
    zones = sites = None
    if zones_file is not None:
        from shoal.space.places import read_zones

        zones = read_zones(zones_file, id_column=zone_id, name_column=zone_name, crs=zones_crs)
    if sites_file is not None:
        from shoal.space.places import named_sites

        sites = named_sites(sites_file, **sites_as)
    return zones, sites


def _say(out: Path, reused: bool, as_json: bool) -> None:
    text = (out / "city.json").read_text(encoding="utf-8")
    if as_json:
        click.echo(json.dumps({**json.loads(text), "folder": str(out), "reused": reused}))
        return
    card = json.loads(text)
    click.echo(f"{out}: " + ("this city was already here; reused." if reused else "written."))
    click.echo(
        f"{card['users']:,} users, {card['zones']['count']:,} zones, {card['sites']['count']:,} sites, "
        f"{card['window']['start'][:10]} to {card['window']['end'][:10]} ({card['time_zone']})"
    )
    for kind, source in card["sources"].items():
        click.echo(f"{kind}: {source['rows']:,} rows in {source['files']} files, {out / source['glob']}")


@click.command(epilog="Example:  shoal demo --out demo")
@out_option("demo", "Folder of the demo.")
@click.option(
    "--users", type=click.IntRange(min=100), default=200_000, show_default=True, help="Number of people."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of the simulated city."
)
@JSON
def demo(out: Path, users: int, seed: int, as_json: bool) -> None:
    """Simulate a city, release its density at (1, 1e-6), and draw the owner's report.

    Run it again: what is there already is used again, and nothing is spent twice.
    """
    if not as_json:
        click.echo(f"{users:,} simulated people: how many were where, hour by hour, goes to {out}/")
    from shoal.kinds.describe import near
    from shoal.kinds.simulated import run_demo

    with Bars(quiet=as_json) as bars:
        outcome = run_demo(out, users=users, seed=seed, progress=bars)
    guarantee = outcome.prepared.guarantee
    if as_json:
        shown = {
            "release": str(outcome.result.release),
            "report": str(outcome.report),
            "reused": outcome.result.reused,
            "guarantee": guarantee.to_manifest(),
            "utility": outcome.utility,
        }
        click.echo(json.dumps(shown, indent=2))
        return
    if outcome.result.reused:
        click.echo(
            "The demo was here already: nothing was computed or spent again. Delete the folder to start over."
        )
    shoal = "shoal" if shutil.which("shoal") else near(Path(sys.argv[0]))
    release, ledger = near(outcome.result.release), near(outcome.ledger)
    plan, again = near(outcome.city / "density.toml"), near(outcome.result.release.parent / "release-2")
    click.echo(
        f"""
release  {release}
         what a recipient gets; check it as one: {shoal} verify {release}
report   {near(outcome.report)}
         for the owner alone, with raw figures: open it in a browser
ledger   SHOAL_LEDGER={ledger} {shoal} ledger show {outcome.prepared.plan.population}
again    SHOAL_LEDGER={ledger} {shoal} density run --plan {plan} --epsilon 1.5 --out {again}

{guarantee.unit.sentence}
{guarantee.sentence}

Against the raw counts (owner's eyes only): mean relative error \
{_figure(outcome.utility["mean_relative_error"])}, correlation {_figure(outcome.utility["pearson"])}."""
    )


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
