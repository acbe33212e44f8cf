"""Options that describe a source of events and how trips are found in it, shared by all commands."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from shoal.errors import PlanError
from shoal.events.schema import Shape, SourcePlan, near

if TYPE_CHECKING:
    from shoal.events.schema import EventSource, TripRule


def source_options(required: bool = True, *, names_run: bool = False) -> Callable:
    """Decorator: SOURCE... and its options reach the command as one `source_options: SourcePlan`.

    `names_run`: the source as it is written enters the key of a run.
    """

    def decorate(command: Callable) -> Callable:
        @wraps(command)
        def wrapper(
            *args: Any, source: tuple[str, ...], column: tuple[str, ...], columns: str | None, **kwargs: Any
        ):
            named = {each.name: kwargs.pop(each.name) for each in fields(SourcePlan) if each.name in kwargs}
            said = SourcePlan(paths=source, columns=parse_columns(column), **named)
            if columns is not None:
                said = merged(read_columns_file(columns), said)
            if names_run:
                _check_named(said)
            return command(*args, source_options=said, **kwargs)

        decorated = click.argument("source", nargs=-1, required=required)(wrapper)
        for option in reversed(OPTIONS):
            decorated = option(decorated)
        return decorated

    return decorate


def _check_named(source: SourcePlan) -> None:
    """Refuse a list of files that the shell may have made from a pattern: which files match is private."""
    if len(source.paths) > 1 and not source.source_name:
        raise PlanError(
            "source-unnamed",
            f"{len(source.paths)} paths were given; the key of the run would depend on which files exist.",
            "Quote the pattern ('events/*.parquet'), pass the folder, or name the source with --source-name.",
        )


OPTIONS = (
    click.option("--shape", type=click.Choice([str(each) for each in Shape]), help="What a row stands for."),
    click.option(
        "--column", multiple=True, metavar="ROLE=NAME", help="Which column plays a role; repeatable."
    ),
    click.option("--columns", type=click.Path(), metavar="FILE.toml", help="The same and more, from a file."),
    click.option("--time-zone", metavar="ZONE", help="Clock of times without a zone, as Europe/Paris."),
    click.option(
        "--time-unit", type=click.Choice(["s", "ms", "us"]), help="Unit of numeric times since 1970."
    ),
    click.option(
        "--time-format", metavar="FORMAT", help="How text times are written, as '%d/%m/%Y %H:%M:%S'."
    ),
    click.option(
        "--coordinate-scale", type=float, metavar="FACTOR", help="Coordinates times this are degrees."
    ),
    click.option("--point-seconds", type=float, metavar="SECONDS", help="Step between points of trip lists."),
    click.option("--delimiter", metavar="CHAR", help="Delimiter of CSV files."),
    click.option(
        "--source-name",
        metavar="NAME",
        help="Public name of the source in the key of the run, such as calls-2026-03.  [default: the paths]",
    ),
    click.option(
        "--on-bad-row", type=click.Choice(["stop", "drop"]), help="Stop at bad rows (default) or drop."
    ),
)

SITE_OPTIONS = (
    click.option("--sites", help="Places of sites, where records name sites: CSV with site, lon, lat."),
    click.option("--site-id", help="Column with the sites' ids."),
    click.option("--site-lon", help="Column with the sites' longitudes."),
    click.option("--site-lat", help="Column with the sites' latitudes."),
    click.option("--sites-crs", help="`planar` where sites are in metres."),
)


def site_options(command: Callable) -> Callable:
    """Decorator: where the sites are that records name; the values keep their names."""
    for option in reversed(SITE_OPTIONS):
        command = option(command)
    return command


def source_from_options(said: SourcePlan) -> EventSource:
    """Open the source that was described."""

    from shoal.events.source import open_planned

    return open_planned(said)


def parse_columns(pairs: tuple[str, ...]) -> dict[str, str]:
    """ROLE=NAME pairs as a mapping.

    >>> parse_columns(("user=imsi", "time=when=then"))
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
    return columns


def read_columns_file(path: str) -> SourcePlan:
    """Options from a TOML file: settings by name, roles in a [columns] table."""
    try:
        with open(path, "rb") as file:
            told = tomllib.load(file)
    except OSError as error:
        raise PlanError(
            "columns-file", f'cannot read "{path}": {error.strerror}.', "Check the path."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError("columns-file", f'"{path}" is not TOML: {error}.', "Repair that line.") from None
    return options_from_table(told, path)


def options_from_table(told: Mapping[str, Any], where: str) -> SourcePlan:
    """Options from a TOML table; every key must be known and of its type."""
    kinds = {"columns": dict, "coordinate_scale": (int, float), "point_seconds": (int, float)}
    known = [each.name for each in fields(SourcePlan) if each.name != "paths"]
    for key, value in told.items():
        if key not in known:
            message = f'"{where}" has an unknown key "{key}"; known are {", ".join(known)}.'
            raise PlanError("columns-file", message, "Put roles under [columns]." + near(key, known))
        if not isinstance(value, kinds.get(key, str)) or isinstance(value, bool):
            raise PlanError("columns-file", f'"{where}": {key} has the wrong type.', "See docs/sources.md.")
    if not all(isinstance(name, str) for name in told.get("columns", {}).values()):
        raise PlanError(
            "columns-file", f'"{where}": [columns] maps roles to names.', 'Write user = "imsi", say.'
        )
    return SourcePlan(**told)


def merged(base: SourcePlan, over: SourcePlan) -> SourcePlan:
    """What is said in `over` wins over `base`; columns are merged role by role."""
    said = {
        each.name: value for each in fields(over) if (value := getattr(over, each.name)) not in (None, ())
    }
    return replace(base, **{**said, "columns": {**base.columns, **over.columns}})


def trip_options(command: Callable) -> Callable:
    """Decorator: trip rules reach the command as one `trip_rule: TripRule | None`."""

    @wraps(command)
    def wrapper(*args: Any, gap_minutes, trip_flag, stay_m, stay_minutes, min_points, **kwargs: Any):
        rule = rule_from_options(gap_minutes, trip_flag, stay_m, stay_minutes, min_points)
        return command(*args, trip_rule=rule, **kwargs)

    for option in reversed(
        (
            click.option("--gap-minutes", type=float, help="A step this long or longer starts a new trip."),
            click.option(
                "--trip-flag", is_flag=True, help="Trips are runs in which the flag column is true."
            ),
            click.option("--stay-m", type=float, help="A stay remains within this many metres ..."),
            click.option("--stay-minutes", type=float, help="... for this long or longer, and ends a trip."),
            click.option("--min-points", type=int, help="Trips with fewer points are left out."),
        )
    ):
        wrapper = option(wrapper)
    return wrapper


def rule_from_options(
    gap_minutes: float | None,
    trip_flag: bool,
    stay_m: float | None,
    stay_minutes: float | None,
    min_points: int | None,
) -> TripRule | None:
    """The trip rule, or None when no option asks for one."""
    if not trip_flag and gap_minutes is None and stay_m is None and stay_minutes is None:
        if min_points is not None:
            raise PlanError("trip-rule", "min-points needs a rule for trips.", "Pass --gap-minutes 5, say.")
        return None
    from shoal.events.schema import TripRule

    return TripRule(
        gap_minutes=gap_minutes,
        flag=trip_flag,
        stay_m=stay_m,
        stay_minutes=stay_minutes,
        min_points=1 if min_points is None else min_points,
    )
