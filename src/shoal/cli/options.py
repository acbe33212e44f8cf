"""Flags of the command: those of a plan, made from its settings, and those that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import NoneType
from typing import Any, get_args, get_origin

import click

from shoal.errors import PlanError
from shoal.setting import Described, alternatives, leaves

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


PLAN = click.option("--plan", type=click.Path(), help="A TOML plan; flags win over it.")
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the plan, what is spent and the expected error; read no rows."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def names(context: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, ...]:
    """Names, repeated or separated by commas, where no plan checks them."""
    return list_of(str)(context, parameter, value) or ()


def numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Numbers separated by commas, where no plan checks them."""
    listed = list_of(float)(context, parameter, value)
    if listed and any(isinstance(each, str) for each in listed):
        raise click.BadParameter("give numbers separated by commas, such as 0.1,0.3,1.")
    return listed or ()


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
