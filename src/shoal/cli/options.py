"""Flags of the command: those of a plan, made from its settings, and those that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import click

from shoal.errors import PlanError
from shoal.setting import Described, alternatives, leaves

if TYPE_CHECKING:
    from shoal.events.schema import SourcePlan

Option = Callable[[Callable], Callable]
DECIMAL_COMMA = re.compile(r"\s*0,\d+\s*")


def click_options(
    plan: type, *, only: Collection[str] = (), without: Collection[str] = ()
) -> tuple[Option, ...]:
    """A flag for every setting of a plan and of its tables, by the names of the settings or of the tables.

    A flag that is not given has the value None, so that a plan file or the default stays. A value that is no
    number is handed on as text: the plan then reports it together with all its other faults.
    """
    by_flag = {each.flag: each for each in reversed(_chosen(plan, only, without))}  # the first of a name
    return tuple(option_of(each) for each in reversed(by_flag.values()))


def settings_from_flags(plan: type, flags: dict[str, Any]) -> dict[str, Any]:
    """Nested settings of the flags that were given, taken out of `flags`."""
    nested: dict[str, Any] = {}
    for each in leaves(plan):
        value = flags.get(dest_of(each))
        if value is not None and value != () and value != {}:
            *tables, name = each.path.split(".")
            place = nested
            for table in tables:
                place = place.setdefault(table, {})
            place[name] = value
    for each in leaves(plan):
        flags.pop(dest_of(each), None)
    return nested


def _chosen(plan: type, only: Collection[str], without: Collection[str]) -> list[Described]:
    def named(each: Described, names: Collection[str]) -> bool:
        return each.path in names or each.path.partition(".")[0] in names

    return [
        each
        for each in leaves(plan)
        if each.flag != "source" and (not only or named(each, only)) and not named(each, without)
    ]


def dest_of(each: Described) -> str:
    return each.flag.replace("-", "_")


def option_of(each: Described) -> Option:
    """The flag of a setting, with its help and default."""
    described, kinds = each.setting, [kind for kind in alternatives(each.hint) if kind is not NoneType]
    default = each.default_text
    more: dict[str, Any] = {"help": described.help + (f"  [default: {default}]" if default else "")}
    if kinds == [bool]:
        names = f"--{each.flag}/--no-{each.flag}" if each.usual is True else f"--{each.flag}"
        return click.option(names, dest_of(each), is_flag=True, default=None, **more)
    if described.metavar or each.choices:
        more["metavar"] = described.metavar or f"[{'|'.join(each.choices)}]"
    listed = next((get_args(kind) for kind in kinds if get_origin(kind) is tuple), ())
    if any(get_origin(kind) is Mapping for kind in kinds):
        more |= {"multiple": True, "callback": parse_columns}
    elif ... in listed:
        zero = described.above is None or described.above < 0
        more |= {"multiple": True, "callback": None if described.file else list_of(listed[0], zero=zero)}
    elif listed:
        more["callback"] = list_of(float)
    elif str not in kinds and (numbers := [kind for kind in (int, float) if kind in kinds]):
        more["type"] = Number(numbers[-1])
    return click.option(f"--{each.flag}", dest_of(each), **more)


class Number(click.ParamType):
    """A number; a text that is none is handed on, for the plan to report."""

    def __init__(self, of: type) -> None:
        self.of, self.name = of, "integer" if of is int else "float"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return number_or_text(value, self.of)


def number_or_text(value: Any, of: type) -> Any:
    try:
        return of(value)
    except ValueError:
        return value


def list_of(of: type, *, zero: bool = True) -> Callable[..., Any]:
    """Reads names or numbers, repeated or separated by commas; None where there are none.

    Where no number may be 0, `0,5` has a decimal comma: it is handed on as text, for the plan to report.
    """

    def read(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        texts = (value,) if isinstance(value, str) else value or ()
        split = [[text] if not zero and DECIMAL_COMMA.fullmatch(text) else text.split(",") for text in texts]
        parts = tuple(part.strip() for several in split for part in several if part.strip())
        return tuple(part if of is str else number_or_text(part, of) for part in parts) or None

    return read


def parse_columns(
    context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, str] | None:
    """ROLE=NAME pairs as a mapping.

    >>> parse_columns(None, None, ("user=imsi", "time=when=then"))
    {'user': 'imsi', 'time': 'when=then'}
    """
    columns: dict[str, str] = {}
    for pair in pairs:
        role, equals, name = pair.partition("=")
        if not (role and equals and name):
            raise PlanError(
                "bad-column-option", f'--column takes ROLE=NAME; got "{pair}".', "Pass --column user=imsi."
            )
        if role in columns:
            raise PlanError("bad-column-option", f"--column names the {role} twice.", "Keep one of the two.")
        columns[role] = name
    return columns or None


# ---- replaced kind by kind
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
PER_USER = ("trips_per_user", "trips_cap")


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


def names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names, repeated or separated by commas."""
    return tuple(name.strip() for each in value for name in each.split(",") if name.strip())


def numbers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in value.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter("give numbers separated by commas, such as 0.1,0.3,1.") from None


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
DENSITY_OPTIONS = (
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
PLAN = click.option("--plan", type=click.Path(), help="A TOML plan; flags win over it.")
POPULATION = click.option("--population", help="Whose budget is spent; see `shoal ledger create`.")
EPSILON = click.option("--epsilon", type=float, help="Privacy loss of the release: smaller is more private.")
PRICE_OPTIONS = (
    POPULATION,
    EPSILON,
    click.option(
        "--delta",
        type=float,
        help="Probability mass that the epsilon bound may miss; the noise is then Gaussian.  [default: none]",
    ),
)
WINDOW_OPTIONS = (
    click.option("--planar", is_flag=True, default=None, help="Coordinates are x, y in metres."),
    click.option("--start", help="First day (or local time) of the window."),
    click.option("--end", help="Day (or local time) after the window."),
)
UNIT = click.option(
    "--unit", help="What the promise covers: user, or one trip of one user: trip.  [default: user]"
)
JUMP = click.option("--jump-m", type=float, help="A longer step between two points cuts the trip.")
SUPERSEDES = click.option(
    "--supersedes", metavar="SHA256", help="Manifest hash of an earlier release that this one replaces."
)
OUT_OPTIONS = (
    click.option("--out", help="Folder of the release; must not exist.  [default: release]"),
    click.option("--owner", help="Folder for the owner's report.  [default: owner]"),
    click.option("--run-id", help="Another id makes another release of the same plan, and spends again."),
    SUPERSEDES,
    click.option("--licence", help="Licence of the release, one line."),
    click.option("--seed", type=int, help="For tests only: repeatable noise, never publishable."),
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Print the plan and what is spent; read no rows.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def with_options(options: tuple[Callable, ...]) -> Callable:
    """Decorator: all of `options`, in their order."""

    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def as_settings(
    source: SourcePlan, flags: dict[str, Any], space: Iterable[str] = SPACE, rule: Any = None
) -> dict[str, Any]:
    """Flags as nested settings, in the shape of a plan file; `space` names the flags of the map."""
    said = {name: value for name, value in vars(source).items() if value not in (None, (), {})}
    window = {name: flags.pop(name) for name in WINDOW if name in flags}
    nested = {
        "source": said,
        "space": {name: flags.pop(name) for name in space if name in flags},
        "window": window | {"time_zone": said.get("time_zone")},
    }
    if rule is not None:  # defaults leave the plan's own as they are
        nested["trip_rule"] = {
            each.name: value for each in fields(rule) if (value := getattr(rule, each.name)) != each.default
        }
    return {**flags, **nested}


def settings_from(
    path: str | None, source: SourcePlan, rule: Any, flags: dict[str, Any], space: Iterable[str] = SPACE
) -> dict[str, Any]:
    """A plan file with the flags over it, nested as plans are."""
    from shoal.kinds.plan import merge, read_plan
    from shoal.privacy.guarantee import TRIP

    settings = read_plan(path) if path else {}
    if flags.get("unit") == TRIP:  # bounds per user in the file make no sense then
        settings = {name: value for name, value in settings.items() if name not in PER_USER}
    return merge(settings, as_settings(source, flags, space, rule))
