"""Options that describe a source of events and how trips are found in it, shared by all commands."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.options import click_options, settings_from_flags, with_options
from shoal.errors import Fault, PlanError
from shoal.events.schema import SourcePlan, TripRule
from shoal.setting import check, part_of
from shoal.space.plan import SitesPlan

if TYPE_CHECKING:
    from shoal.events.schema import EventSource


def source_options(required: bool = True) -> Callable:
    """Decorator: SOURCE... and its options reach the command as one `source_options: SourcePlan`."""

    def decorate(command: Callable) -> Callable:
        @wraps(command)
        def wrapper(*args: Any, columns: str | None, **kwargs: Any):
            given = over_columns_file(columns, settings_from_flags(SourcePlan, kwargs))
            return command(*args, source_options=part_of(SourcePlan, given, "source"), **kwargs)

        argument = click.argument("source", nargs=-1, required=required)
        return with_options((argument, *click_options(SourcePlan), COLUMNS_FILE))(wrapper)

    return decorate


COLUMNS_FILE = click.option(
    "--columns", type=click.Path(), metavar="FILE.toml", help="Settings of the source from a file."
)


def over_columns_file(path: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Settings of a source over those of a file; columns are merged role by role."""
    if path is None:
        return given
    base = read_columns_file(path)
    return {**base, **given, "columns": {**base.get("columns", {}), **given.get("columns", {})}}


def check_named(flags: Mapping[str, Any]) -> None:
    """Refuse a list of files that the shell may have made from a pattern: which files match is private.

    The source as it is written enters the key of a run.
    """
    paths, path = flags.get("source", ()), flags.get("columns")
    if (
        len(paths) > 1
        and not flags.get("source_name")
        and not (path and "source_name" in read_columns_file(path))
    ):
        raise PlanError(
            "source-unnamed",
            f"{len(paths)} paths were given; the key of the run would depend on which files exist.",
            "Quote the pattern ('events/*.parquet'), pass the folder, or name the source with --source-name.",
        )


def site_options(command: Callable) -> Callable:
    """Decorator: where the sites are that records name; the values keep their names."""
    return with_options(click_options(SitesPlan))(command)


def source_from_options(said: SourcePlan) -> EventSource:
    """Open the source that was described."""

    from shoal.events.source import open_planned

    return open_planned(said)


def read_columns_file(path: str) -> dict[str, Any]:
    """Settings of a source from a TOML file, roles in a [columns] table; every name must be known."""
    try:
        with open(path, "rb") as file:
            settings = tomllib.load(file)
    except OSError as error:
        raise PlanError(
            "columns-file", f'cannot read "{path}": {error.strerror}.', "Check the path."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError("columns-file", f'"{path}" is not TOML: {error}.', "Repair that line.") from None
    faults = check(SourcePlan, settings)
    if faults or "paths" in settings:
        first = faults[0] if faults else Fault("", "paths are no setting of such a file.")
        raise PlanError(
            "columns-file", f'"{path}": {first.message}', f"Put roles under [columns]. {first.remedy}"
        )
    return settings


def trip_options(command: Callable) -> Callable:
    """Decorator: trip rules reach the command as one `trip_rule: TripRule | None`."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any):
        given = settings_from_flags(TripRule, kwargs)
        return command(*args, trip_rule=part_of(TripRule, given, "trip_rule") if given else None, **kwargs)

    return with_options(click_options(TripRule))(wrapper)
