"""The command `shoal`. Commands are imported when they are called, so that help is quick.

Then the flags of commands: those of a plan, made from its settings, and those that several commands share
(the engine, the source of events, how trips are found in it).
"""

from __future__ import annotations

import os
import re
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    sys.path.pop(0)  # python -m puts the working directory first, and it may hold anything

import difflib
import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import click

from shoal import __version__
from shoal.cli.printing import exit_code, interrupted, listen_for_signals
from shoal.errors import REPORT_IT, Fault, PlanError, ResourceError, ShoalError
from shoal.events.schema import SourcePlan, TripRule
from shoal.scratch import sweep
from shoal.setting import Described, alternatives, check, leaves, part_of

if TYPE_CHECKING:
    from shoal.engine.spark.engine import SparkEngine

STOPPED = (
    "stopped. What was reserved before counts as spent, and `shoal ledger show` lists it; a release that was "
    "committed is there, and the same command gives it back."
)

Steps = Mapping[str, tuple[str, str, str]]  # name -> (module, object, what it does)
Option = Callable[[Callable], Callable]


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only when it is called."""

    def __init__(self, *args, steps: Steps, **more) -> None:
        super().__init__(*args, **more)
        self.steps = steps

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.steps)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.steps:
            return None
        module, name, _ = self.steps[cmd_name]
        return getattr(import_module(f"shoal.cli.{module}"), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, _, words) in self.steps.items()])


COMMANDS: Steps = {
    "demo": ("simulate", "demo", "The whole way on a simulated city."),
    "simulate": ("simulate", "simulate", "Write a simulated city: zones, sites, and records of its people."),
    "inspect": (
        "inspect",
        "inspect",
        "Schema and validity of a source; guarantee and contents of a release.",
    ),
    "density": ("run", "density", "Release people per zone and slot."),
    "trajectories": ("run", "trajectories", "Release k-anonymous trajectories."),
    "histogram": ("run", "histogram", "Release distinct trips in any rectangle."),
    "synthesize": ("run", "synthesize", "Release synthetic trips."),
    "query": ("run", "query", "Answer one counting query on private events: spends."),
    "attack": ("attack", "attack", "Attack counts or a release as an adversary would."),
    "audit": ("audit", "audit", "Check our mechanisms against their claims."),
    "ledger": ("ledger", "ledger", "Populations, their budgets, and what was spent on them."),
    "evidence": ("publish", "evidence", "One page for the file: manifest, plan, accounting, audit."),
    "publish": ("publish", "publish", "Copy a committed release to its public place."),
    "verify": ("publish", "verify", "Check a release as its recipient."),
    "studio": ("studio", "studio", "The local page: publish, look, attack and account."),
}


class Commands(LazyGroup):
    """All commands; a wrong name is answered with the nearest one."""

    def resolve_command(self, ctx: click.Context, args: list[str]):
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, steps=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shoal")
def shoal() -> None:
    """Publish the movement of a crowd without giving away a person.

    \b
    Start here:
      shoal demo                          a release of a simulated city, with its report
      shoal studio                        the same functions on a local web page
      shoal inspect events.parquet        columns, row counts and malformed rows of a file
      shoal density run --help            release people per zone and hour
      shoal trajectories run --help       release k-anonymous trajectories
      shoal histogram run --help          release distinct trips in any rectangle
      shoal synthesize run --help         release synthetic trips

    Exit codes: 0 success; 2 plan or usage; 3 input; 4 ledger; 5 output; 6 a guarantee does not hold;
    7 a missing dependency; 8 the cluster; 9 memory or disk; 1 other errors, and a claim that
    `trajectories verify` refuted.
    """


def main() -> None:
    """Run the command; an error is one message on standard error and an exit code, never a traceback."""
    listen_for_signals()
    os.environ["PYTHONSAFEPATH"] = "1"  # nor do processes that we start import from the working directory
    sweep()
    try:
        code = shoal.main(standalone_mode=False)
        if isinstance(code, int) and code:  # a command that said context.exit(code): click hands it back
            sys.exit(code)
    except (click.Abort, KeyboardInterrupt) as stop:
        _fail("\n".join([STOPPED, *_notes(stop)]), exit_code())
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ShoalError as error:
        if "--json" in sys.argv and not error.after_results:
            click.echo(json.dumps({"error": error.to_plain()}, indent=2))
        _fail(error.for_command(), error.exit_code)
    except BrokenPipeError:
        os._exit(141)  # the reader of our output went away
    except MemoryError:
        _fail("out-of-memory: this machine has not enough memory for it.", ResourceError.exit_code)
    except Exception as error:
        if interrupted():  # what a library made of it
            _fail(STOPPED, exit_code())
        if os.environ.get("SHOAL_DEBUG"):
            raise
        _fail(f"internal-error: shoal met a {type(error).__name__} it did not expect.\n{REPORT_IT}", 1)


def _notes(stop: BaseException) -> list[str]:
    """What was reserved when it was stopped; click wraps an interrupt."""
    return [*getattr(stop, "__notes__", []), *getattr(stop.__context__, "__notes__", [])]


def _fail(message: str, code: int) -> None:
    click.echo(message, err=True)
    sys.exit(code)


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


if __name__ == "__main__":
    main()
