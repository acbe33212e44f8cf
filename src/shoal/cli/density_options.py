"""Options of a density's map and window, shared by `shoal density run` and `compare`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from shoal.events.schema import SourcePlan

SPACE = (
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
WINDOW = ("start", "end", "slot_minutes")


def box(context: click.Context, parameter: click.Parameter, value: str | None):
    if value is None:
        return None
    try:
        numbers = tuple(float(part) for part in value.split(","))
        if len(numbers) != 4:
            raise ValueError
    except ValueError:
        raise click.BadParameter("give four numbers: west,south,east,north.") from None
    return numbers


MAP_OPTIONS = (
    click.option("--zones", help="Zones: GeoJSON, GeoParquet, Shapefile or GeoPackage."),
    click.option("--zone-id", help="Column with the zones' ids; `row` numbers them."),
    click.option("--zone-name", help="Column with the zones' names."),
    click.option("--zones-crs", help="Coordinate system of the zones where the file does not say."),
    click.option("--zones-layer", help="Layer of a file of zones with several."),
    click.option("--repair-zones", is_flag=True, default=None, help="Repair self-intersecting polygons."),
    click.option(
        "--holes", type=click.Choice(["stop", "warn", "allow"]), help="Gaps between zones.  [default: stop]"
    ),
    click.option("--sites", help="Sites: CSV or Parquet with site, lon, lat, or a file of points."),
    click.option("--site-id", help="Column with the sites' ids; `row` numbers them."),
    click.option("--site-lon", help="Column with the sites' longitudes (or x, with --sites-crs)."),
    click.option("--site-lat", help="Column with the sites' latitudes (or y, with --sites-crs)."),
    click.option("--sites-crs", help="Coordinate system of the sites where the file does not say."),
    click.option(
        "--box", callback=box, help="west,south,east,north of a grid or of H3 cells (longitude first)."
    ),
    click.option("--cell-m", type=float, help="Side of the squares of a grid over --box, in metres."),
    click.option("--h3", type=int, help="Resolution of H3 cells over --box."),
    click.option("--start", help="First day (or local time) of the window."),
    click.option("--end", help="Day (or local time) after the window."),
    click.option("--slot-minutes", type=int, help="Length of a slot.  [default: 60]"),
)
METHOD_OPTIONS = (
    click.option(
        "--ell",
        type=int,
        help="Visits kept per user, where the method keeps a sample; `best` does not.  [default: 30]",
    ),
    click.option(
        "--cap", type=int, help="Visits per user that enter the total number; not for `best`.  [default: 250]"
    ),
    click.option(
        "--nights/--no-nights",
        default=None,
        help="Smooth the nights, where the method can.  [default: nights]",
    ),
    click.option(
        "--users",
        type=int,
        help="Declared order of magnitude of the population, kept to two digits and published; `best` then "
        "does not measure it. Never a count from the data.",
    ),
)


def with_options(options: tuple[Callable, ...]) -> Callable:
    """Decorator: all of `options`, in their order."""

    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def as_settings(source: SourcePlan, flags: dict[str, Any]) -> dict[str, Any]:
    """Flags as nested settings, in the shape of a plan file."""
    from dataclasses import asdict

    window = {name: flags.pop(name) for name in WINDOW}
    if any(value is not None for value in window.values()) or source.time_zone:
        window["time_zone"] = source.time_zone
    return {
        **{name: value for name, value in flags.items() if name not in SPACE},
        "source": asdict(source),
        "space": {name: flags[name] for name in SPACE},
        "window": window,
    }
