"""Settings: each is described once, on the field of a plan, and everything else about it follows from that.

A plan is a frozen dataclass below `Plan`. From the `setting(...)` on each of its fields come the check of a
TOML file, of flags, of a form and of keywords, with every fault in one error; the flags of the command with
help and default (cli/main.py); the JSON schema of the page's form, the table in docs/plan.md and the plans
of simulated cities (kinds/setting_forms.py); and the settings in the key of a run. Rules between settings are
methods of the plan, each marked with the settings that it is about.

>>> @dataclass(frozen=True, kw_only=True)
... class Walk(Plan):
...     pace: float = setting(1.0, "Speed.", above=0, example=1.5, unit="km/h")
...     steps: int = setting("Number of steps.", least=1, example=10)
>>> Walk(steps=3)
Walk(pace=1.0, steps=3)
>>> Walk.from_settings({"pace": "0,5", "steps": 0})
Traceback (most recent call last):
shoal.errors.PlanError: plan-faults: 2 settings are wrong.
  plan-type: pace must be a number above 0; got '0,5', which has a decimal comma. Pass pace=0.5.
  plan-range: steps must be a whole number of at least 1; got 0. Pass steps=10, say.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from shoal.errors import Fault, PlanError
from shoal.intended import number_in

LARGEST = 1e12  # of numbers without a bound of their own


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the field of a plan is set, checked and shown; its type is that of the field."""

    help: str
    example: Any = None  # a value that makes sense, for the remedy
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    divides: int | None = None
    choices: tuple[str, ...] = ()
    usual: Any = None  # the value that None stands for
    shown: str = ""  # the default in words, where no value says it
    flag: str = ""  # where it is not the name of the field
    label: str = ""  # on the page; empty: the name
    unit: str = ""
    metavar: str = ""
    remedy: str = ""  # empty: pass the example
    code: str = "plan-range"
    type_code: str = "plan-type"
    file: bool = False  # the name of a file or folder
    only: str = ""  # what the methods that read it take, where not all do
    key: bool | str = False  # whether, and under which name, it enters the key of a run
    last: int = 0  # the higher, the later it stands: after the settings of a subclass
    published: bool = False  # stated in the manifest under its name
    later: bool = False  # added after keys were first given: enters only where it is not the default


@dataclass(frozen=True, kw_only=True)
class Described:
    """A setting with the field that it describes."""

    name: str
    path: str  # the name with the tables that it stands in, such as window.slot_minutes
    hint: Any
    default: Any  # MISSING where the plan must state it
    setting: Setting

    @property
    def flag(self) -> str:
        return (self.setting.flag or self.name).replace("_", "-")

    @property
    def named(self) -> str:
        """As errors name it: by its flag, and by its name in a plan where that is another."""
        same = self.flag == self.name.replace("_", "-")
        return f"--{self.flag}" if same else f"--{self.flag} ({self.path} in a plan)"

    @property
    def label(self) -> str:
        return self.setting.label or self.name.replace("_", " ").capitalize()

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values, where there are few."""
        literal = (get_args(kind) for kind in alternatives(self.hint) if get_origin(kind) is Literal)
        return self.setting.choices or next(literal, ())

    @property
    def part(self) -> type | None:
        """The plan that a table of settings becomes."""
        return next((each for each in alternatives(self.hint) if is_plan(each)), None)

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def usual(self) -> Any:
        """The value where none is given; None where there is none."""
        if self.default in (MISSING, None):
            return self.setting.usual
        return self.default

    @property
    def default_text(self) -> str:
        """The default as help and docs state it; empty where there is nothing to state."""
        if self.setting.shown or self.usual in (None, "", (), {}, False) or self.part:
            return self.setting.shown
        if self.usual is True:
            return self.flag
        return text_of(self.usual)


def setting(default: Any, summary: Any = None, bounds: Any = None, /, **more: Any) -> Any:
    """A field of a plan: its default (else it is required), what it is, bounds, and more of `Setting`."""
    default, summary = (MISSING, default) if summary is None else (default, summary)
    more |= {} if bounds is None else {"least": bounds[0], "most": bounds[1]}
    described = {"setting": Setting(help=summary, **more)}
    if callable(default):
        return field(default_factory=default, metadata=described)
    return field(default=default, metadata=described)


def rule(*about: str) -> Callable[[Callable], Callable]:
    """Marks a method of a plan that checks settings together; it is left out where one of them is faulty."""

    def mark(method: Callable) -> Callable:
        method.about = about  # type: ignore[attr-defined]
        return method

    return mark


class Plan:
    """Base of plans: checked when they are made, with every fault in one error."""

    def __post_init__(self) -> None:
        report(list(_faults_in(self, "", frozenset())))

    def value_of(self, name: str) -> Any:
        """The value of a setting, or the one that None stands for."""
        value = getattr(self, name)
        return settings_of(type(self))[name].usual if value is None else value

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """A plan from nested settings, as a TOML file, flags or a form give them."""
        return part_of(cls, settings)


def report(faults: list[Fault]) -> None:
    if faults:
        raise PlanError.of(faults)


def is_plan(hint: Any) -> bool:
    return (
        isinstance(hint, type) and is_dataclass(hint) and any("setting" in f.metadata for f in fields(hint))
    )


@cache
def settings_of(plan: type, prefix: str = "") -> Mapping[str, Described]:
    """The settings of a plan by the names of their fields, in their order; tables as one each."""
    hints = get_type_hints(plan)
    described = [each for each in fields(plan) if "setting" in each.metadata]
    return {
        each.name: Described(
            name=each.name,
            path=f"{prefix}{each.name}",
            hint=hints[each.name],
            default=each.default if each.default_factory is MISSING else each.default_factory(),
            setting=each.metadata["setting"],
        )
        for each in sorted(described, key=lambda each: each.metadata["setting"].last)
    }


def leaves(plan: type, prefix: str = "") -> Iterator[Described]:
    """The settings of a plan and of its tables, in their order."""
    for each in settings_of(plan, prefix).values():
        if each.part is None:
            yield each
        else:
            yield from leaves(each.part, f"{each.path}.")


def check(plan: type, values: Mapping[str, Any]) -> list[Fault]:
    """Every fault of nested settings."""
    faults: list[Fault] = []
    _plan_from(plan, values, "", faults)
    return faults


def part_of(plan: type, values: Any, name: str = "") -> Any:
    """A plan, or one table of it such as its window, from its settings."""
    faults: list[Fault] = []
    part = _plan_from(plan, values, f"{name}." if name else "", faults)
    report(faults)
    return part


def _plan_from(plan: type, values: Any, prefix: str, faults: list[Fault]) -> Any:
    """The plan, or what is there of it; what is wrong is added to `faults`."""
    known = settings_of(plan, prefix)
    if not isinstance(values, Mapping):
        table = prefix.rstrip(".")
        faults.append(Fault("plan-type", f"[{table}] must be a table of settings.", "", table))
        return None
    faults += [unknown(name, known, prefix) for name in values if name not in known]
    instance, faulty = object.__new__(plan), set()
    for each in known.values():
        before = len(faults)
        value = values.get(each.name, each.default)
        if each.part and not (value is None and NoneType in alternatives(each.hint)):
            if value is MISSING:
                faults.append(_missing(each))
            elif not isinstance(value, each.part):
                value = _plan_from(each.part, value, f"{each.path}.", faults)
        elif value is MISSING:
            faults.append(_missing(each))
        elif isinstance(value, list):
            value = tuple(value)
        object.__setattr__(instance, each.name, None if value is MISSING else value)
        if len(faults) > before:
            faulty.add(each.name)
    faults += _faults_in(instance, prefix, frozenset(faulty))
    return instance


def _faults_in(plan: Any, prefix: str, faulty: frozenset[str]) -> Iterator[Fault]:
    """Values of a wrong type or out of range, then rules that do not hold."""
    wrong = set(faulty)
    for each in settings_of(type(plan), prefix).values():
        if each.name not in faulty and (fault := fault_of(each, getattr(plan, each.name))):
            wrong.add(each.name)
            yield fault
    for check_rule in _rules(type(plan)):
        if not wrong.intersection(check_rule.about):
            try:
                check_rule(plan)
            except PlanError as error:
                wrong.update(check_rule.about)
                about = f"{prefix}{check_rule.about[0]}"
                yield from error.faults or [Fault(error.code, error.message, error.remedy, about)]


@cache
def _rules(plan: type) -> list[Any]:
    """The rules of a plan, those of its bases first."""
    names = {name: None for each in reversed(plan.__mro__) for name in vars(each)}
    return [method for name in names if hasattr(method := getattr(plan, name), "about")]


def unknown(name: Any, known: Collection[str], prefix: str = "") -> Fault:
    near = difflib.get_close_matches(str(name), known, 1)
    hint = f"Did you mean {prefix}{near[0]}?" if near else f"Known: {', '.join(known)}."
    return Fault("plan-name", f"the plan has no setting {prefix}{name}.", hint, f"{prefix}{name}")


def _missing(each: Described) -> Fault:
    where, _, _ = each.path.rpartition(".")
    name = f"{where} ({each.name})" if where else each.name
    return Fault("plan-incomplete", f"the plan does not state its {name}.", remedy_of(each), each.path)


def remedy_of(each: Described, value: Any = None) -> str:
    """A value to pass instead: `value`, or the example."""
    if value is not None:
        return f"Pass --{each.flag} {text_of(value)}."
    if each.setting.remedy:
        return each.setting.remedy
    example = each.usual if each.setting.example is None else each.setting.example
    return "" if example in (None, "", ()) else f"Pass --{each.flag} {text_of(example)}, say."


def fault_of(each: Described, value: Any) -> Fault | None:
    """What is wrong with the value of one setting."""
    described = each.setting
    if isinstance(value, list | tuple) and (one := _number_of_list(each)) is not None:
        return next((fault for part in value if (fault := fault_of(one, part))), None)
    if not fits(value, each.hint):
        got, number = shown(value), number_in(value) if is_number(each.hint) else None
        message = f"{each.named} must be {wanted(each)}; got {got}"
        if number is None:
            return Fault(described.type_code, f"{message}.", remedy_of(each), each.path)
        intended = number.value if fits(number.value, each.hint) and _in_range(each, number.value) else None
        return Fault(described.type_code, f"{message}, {number.why}.", remedy_of(each, intended), each.path)
    for part in value if isinstance(value, list | tuple) else (value,):
        if (wrong := _unwritable(each, part)) is not None:
            return wrong
        if not _in_range(each, part):
            message = f"{each.named} must be {wanted(each)}; got {shown(part)}."
            return Fault(described.code, message, remedy_of(each), each.path)
    return None


def _number_of_list(each: Described) -> Described | None:
    """One number of a setting that is a list of numbers; None for any other setting."""
    kinds = (get_args(kind) for kind in alternatives(each.hint) if get_origin(kind) is tuple)
    number = next((kind[0] for kind in kinds if kind[-1] is ... and is_number(kind[0])), None)
    return None if number is None else replace(each, hint=number)


def _in_range(each: Described, value: Any) -> bool:
    described = each.setting
    if value is None or isinstance(value, bool | Mapping) or each.part:
        return True
    if described.choices:
        return value in described.choices
    if isinstance(value, str) or not is_number(each.hint):
        return True
    return (
        (described.least is None or value >= described.least)
        and (described.above is None or value > described.above)
        and (described.most is None or value <= described.most)
        and (described.below is None or value < described.below)
        and (described.divides is None or (value > 0 and described.divides % value == 0))
        and -LARGEST <= value <= LARGEST
    )


def _unwritable(each: Described, value: Any) -> Fault | None:
    """Numbers that no double can hold, text that cannot be written, names that no file can have."""
    name = each.named
    if isinstance(value, int) and abs(value) >> 1000:
        return Fault("plan-range", f"{name} has more digits than a number may have.", "", each.path)
    if not isinstance(value, str):
        return None
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        return Fault("plan-text", f"{name} is not text in UTF-8.", "Rename it.", each.path)
    # no part of a file name above 200 bytes: a few letters are appended to some
    longest = max((len(os.fsencode(part)) for part in value.split("/")), default=0)
    if "\0" in value or (each.setting.file and longest > 200) or len(value) > 4000:
        return Fault(
            "plan-text",
            f"{name} is too long, or has a NUL character in it.",
            "Names of files and folders may have 200 bytes, paths 4,000.",
            each.path,
        )
    return None


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def is_number(hint: Any) -> bool:
    """Whether numbers are asked for, one or many, and no text."""
    kinds = {(get_args(kind) or (kind,))[0] for kind in alternatives(hint)}
    return str not in kinds and not kinds.isdisjoint((int, float))


def fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type that its field declares."""
    if len(alternatives(hint)) > 1:
        return any(fits(value, each) for each in alternatives(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        kinds = [kind for kind in get_args(hint) if kind is not ...]
        any_length = get_args(hint)[-1:] == (...,)
        if not isinstance(value, list | tuple) or (not any_length and len(value) != len(kinds)):
            return False
        return all(fits(each, kinds[0] if any_length else kinds[k]) for k, each in enumerate(value))
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(fits(each, get_args(hint)[1]) for each in value.values())
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def wanted(each: Described) -> str:
    """What a setting takes, in words."""
    described = each.setting
    choices = each.choices
    if choices:
        return " or ".join(filter(None, (", ".join(choices[:-1]), str(choices[-1]))))
    kinds = [kind for kind in alternatives(each.hint) if kind is not NoneType]
    listed = next((get_args(kind) for kind in kinds if get_origin(kind) is tuple), None)
    if listed is not None and ... not in listed:
        return f"{('no', 'one', 'two', 'three', 'four')[len(listed)]} numbers"
    if listed is not None:
        kinds = [listed[0]]
    many = listed is not None
    if described.divides is not None:
        return f"a whole number that divides {described.divides}"
    if int in kinds and str in kinds:
        return "a whole number or a text"
    if int in kinds or float in kinds:
        noun = "whole number" if float not in kinds else "number"
        return (f"{noun}s" if many else f"a {noun}") + _range_text(described)
    if each.part:
        return "a table of settings"
    if bool in kinds:
        return "true or false"
    if any(get_origin(kind) is Mapping for kind in kinds):
        return "a table of names"
    return "a list of texts" if many else "a text"


def _range_text(described: Setting) -> str:
    low, high = _bound(described.least), _bound(described.most)
    if low and high:
        return f" from {low} to {high}"
    words = [
        f"of at least {low}" if low else "",
        "" if described.above is None else f"above {text_of(described.above)}",
        f"at most {high}" if high else "",
        "" if described.below is None else f"below {text_of(described.below)}",
    ]
    stated = " and ".join(filter(None, words))
    return f" {stated}" if stated else ""


def _bound(bound: float | None) -> str:
    """A bound, with commas between thousands."""
    return "" if bound is None else f"{bound:,}" if isinstance(bound, int) else text_of(bound)


def text_of(value: Any) -> str:
    """A value as it is typed after a flag.

    >>> text_of(1e-06), text_of(60.0), text_of((0.1, 1.0)), text_of("best")
    ('1e-6', '60', '0.1,1', 'best')
    """
    if isinstance(value, list | tuple):
        return ",".join(map(text_of, value))
    if isinstance(value, float):
        return re.sub(r"e([-+])0*", lambda e: "e" + e[1].strip("+"), repr(value)).removesuffix(".0")
    return str(value)


def shown(value: Any) -> str:
    """A value that was received, short; whole numbers of thousands of digits have no text."""
    try:
        return repr(value)[:80]
    except ValueError:
        return "a number of thousands of digits"
