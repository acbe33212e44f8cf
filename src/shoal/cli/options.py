"""Flags of the command: those of a plan, made from its settings, and those that several commands share.

The shared ones: boxes, threads and engine, the source of events, how trips are found in it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import click

from shoal.errors import Fault, PlanError
from shoal.events.schema import SourcePlan, TripRule
from shoal.setting import Described, alternatives, check, leaves, part_of

if TYPE_CHECKING:
    from shoal.engine.spark.engine import SparkEngine


Option = Callable[[Callable], Callable]
DECIMAL_COMMA = re.compile(r"\s*0,\d+\s*")


def click_options(
    plan: type, *, only: Collection[str] = (), without: Collection[str] = ()
) -> tuple[Option, ...]:
    """A flag for every setting of a plan and of its tables, by the names of the settings or of the tables.

    A flag that is not given has the value None, so that a plan file or the default stays. A value that is no
    number is handed on as text: the plan then reports it together with all its other faults.
    """
    by_flag: dict[str, Described] = {}
    for each in _chosen(plan, only, without):
        by_flag.setdefault(each.flag, each)  # a clock is set for the source and the window at once
    return tuple(option_of(each) for each in by_flag.values())


def settings_from_flags(plan: type, flags: dict[str, Any]) -> dict[str, Any]:
    """Nested settings of the flags that were given, taken out of `flags`."""
    nested: dict[str, Any] = {}
    for each in leaves(plan):
        value = flags.get(dest_of(each))
        if value is not None and value != {} and not (value == () and each.setting.file):
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
    listed: tuple[Any, ...] = (
        next((get_args(kind) for kind in kinds if get_origin(kind) is tuple), None) or ()
    )
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
    """Reads names or numbers, repeated or separated by commas; None where the flag is not given.

    Where no number may be 0, `0,5` has a decimal comma: it is handed on as text, for the plan to report.
    """

    def read(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        texts = (value,) if isinstance(value, str) else value or ()
        split = [[text] if not zero and DECIMAL_COMMA.fullmatch(text) else text.split(",") for text in texts]
        parts = tuple(part.strip() for several in split for part in several if part.strip())
        listed = tuple(part if of is str else number_or_text(part, of) for part in parts)
        return listed if texts else None

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


PLAN = click.option("--plan", type=click.Path(), help="A TOML plan; flags win over it.")
ALLOW_EMPTY = click.option(
    "--allow-empty", is_flag=True, help="Run, and spend, even if no event lies in the window and the zones."
)
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the plan, what is spent and the expected error; read no rows."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def out_option(place: str, words: str) -> Option:
    """Where the command writes."""
    shown = {"default": Path(place), "show_default": True, "help": words}
    return click.option("--out", type=click.Path(path_type=Path), **shown)


def box(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Four numbers, where no plan checks them."""
    listed = list_of(float)(context, parameter, value)
    if listed is not None and (len(listed) != 4 or any(isinstance(each, str) for each in listed)):
        raise click.BadParameter("give four numbers: west,south,east,north.")
    return listed


def with_options(options: Iterable[Option]) -> Option:
    """Decorator: all of `options`, in their order."""

    def decorate(command: Callable) -> Callable:
        for option in reversed([*options]):
            command = option(command)
        return command

    return decorate


def _not_negative(context: click.Context, parameter: click.Parameter, value: int) -> int:
    if value < 0:
        raise click.BadParameter("0 (one per core) or more.")
    return value


THREADS = click.option(
    "--threads",
    type=int,
    default=0,
    callback=_not_negative,
    help="Threads of the engine.  [default: one per core]",
)
ENGINE_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(["duckdb", "spark"]),
        default="duckdb",
        help="Where sums are made: this machine, or Spark (needs shoal[spark]).  [default: duckdb]",
    ),
    click.option(
        "--spark-conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="Setting of Spark, as spark.master=spark://HOST:7077; repeatable.",
    ),
    click.option("--partitions", type=int, help="Parts of the users on Spark.  [default: by cores and rows]"),
)


@contextmanager
def opened_spark(
    engine: str, spark_conf: tuple[str, ...], partitions: int | None
) -> Iterator[SparkEngine | None]:
    """Spark, started and stopped; None is the engine of this machine, which needs no start."""
    if engine != "spark":
        if spark_conf or partitions is not None:
            raise PlanError(
                "spark-options",
                "--spark-conf and --partitions are for the Spark engine.",
                "Pass --engine spark, or leave them out.",
            )
        yield None
        return
    from shoal.engine.spark.session import import_spark, need_java, parse_conf

    conf = parse_conf(spark_conf)
    import_spark()
    need_java()
    from shoal.engine.spark.engine import SparkEngine

    if sys.stderr.isatty():
        click.echo("starting Spark", err=True)
    with SparkEngine(conf, partitions=partitions) as started:
        yield started


def source_options(command: Callable) -> Callable:
    """Decorator: SOURCE... and its options reach the command as one `source_options: SourcePlan`."""

    @wraps(command)
    def wrapper(*args: Any, columns: str | None, **kwargs: Any):
        given = over_columns_file(columns, settings_from_flags(SourcePlan, kwargs))
        return command(*args, source_options=part_of(SourcePlan, given, "source"), **kwargs)

    argument = click.argument("source", nargs=-1, required=True)
    return with_options((argument, *click_options(SourcePlan), COLUMNS_FILE))(wrapper)


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
