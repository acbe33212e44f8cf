"""Every error a user can meet, in one tree.

    ShoalError                      exit 1
    +-- PlanError                   exit 2   a parameter is missing or makes no sense
    +-- SourceError                 exit 3   files, columns, rows of the input
    +-- GeometryError               exit 3   zones, sites, grids
    +-- LedgerError                 exit 4   populations and budgets
    |   +-- BudgetExceeded
    +-- OutputError                 exit 5   folders and files we write
    +-- GuaranteeError              exit 6   a promise was checked and does not hold
    +-- MissingExtra                exit 7   an optional dependency is not installed
    +-- EngineError                 exit 8   the cluster that should do the work did not
    +-- ResourceError               exit 9   memory or disk of this machine

An error says the rule, what was received, and the remedy, under a code:

>>> str(PlanError("epsilon-range", "epsilon must be above 0; got -1.", "Pass --epsilon 0.5, say."))
'epsilon-range: epsilon must be above 0; got -1.\\nPass --epsilon 0.5, say.'

A plan reports all its faults at once. They name settings as flags of the command, `--slot-minutes 60`; a
program reads `slot_minutes=60`, and the page puts the label of the field there (see `respelled`).

Once loading is over, no message carries a value, count or identifier from private data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

REPORT_IT = "Run again with SHOAL_DEBUG=1 to see where, and please report it (without private data)."


def printable(text: str) -> str:
    """Text that does nothing to a terminal: escape sequences, direction marks and the like are spelled out.

    >>> printable("Gare\x1b[31m")
    'Gare\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\xa0" else each.encode("unicode_escape").decode()
        for each in text
    )


class ShoalError(Exception):
    """What went wrong and what to do about it; printed by the command without a traceback."""

    exit_code = 1
    after_results = False  # `--json` has printed its one document

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        self.code = code
        self.message = printable(message)
        self.remedy = printable(remedy)
        super().__init__(f"{code}: {self.message}" + (f"\n{self.remedy}" if remedy else ""))

    def __reduce__(self):
        return (type(self), (self.code, self.message, self.remedy))

    def for_command(self) -> str:
        """The whole message, with settings as flags."""
        return super().__str__()

    def to_plain(self) -> dict[str, Any]:
        """For programs."""
        return {"code": self.code, "message": self.message, "remedy": self.remedy}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a plan, and the setting concerned, such as window.slot_minutes."""

    code: str
    message: str
    remedy: str = ""
    setting: str = ""


class PlanError(ShoalError):
    """One fault, or all faults of a plan together: then the code of each is in `faults`."""

    exit_code = 2

    def __init__(self, code: str, message: str, remedy: str = "", faults: Sequence[Fault] = ()) -> None:
        self.faults = tuple(faults)
        super().__init__(code, message, remedy)

    @classmethod
    def of(cls, faults: Sequence[Fault]) -> PlanError:
        """All faults in one error, which bears their code if it is one."""
        if len(faults) == 1:
            return cls(faults[0].code, faults[0].message, faults[0].remedy, faults)
        lines = [f"  {each.code}: {each.message} {each.remedy}".rstrip() for each in faults]
        codes = {each.code for each in faults}
        code = codes.pop() if len(codes) == 1 else "plan-faults"
        return cls(code, "\n".join([f"{len(faults)} settings are wrong.", *lines]), "", faults)

    def __reduce__(self):
        return (type(self), (self.code, self.message, self.remedy, self.faults))

    def __str__(self) -> str:
        """To a program, settings are keywords."""
        return respelled(self.for_command(), keyword) if self.faults else self.for_command()

    def to_plain(self) -> dict[str, Any]:
        return {**super().to_plain(), "faults": [asdict(each) for each in self.faults]}


# a flag of the command in a text, and its value: a number, a quoted text, a list, capitals that stand for
# one, or, after a verb, a word before a stop
_FLAG = re.compile(
    r"(?P<verb>\b[Pp]ass |\b[Cc]hoose |\b[Ss]et )?--(?P<name>[a-z][a-z0-9]*(?:-[a-z0-9]+)*)"
    r"(?: (?P<value>[-+]?\.?\d[^\s;]*(?<![.,])|'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[A-Z]{2,}[^\s;]*(?<![.,])"
    r"|(?(verb)[^\s-]\S*(?=[.,](?:\s|$))|(?!))))?"
)


def respelled(text: str, spell: Callable[[str, str, str | None], str]) -> str:
    """A text in which flags of the command are spelled for another reader.

    `spell` takes the verb before a flag, its name and its value.

    >>> respelled("Pass --slot-minutes 60, say.", keyword)
    'Pass slot_minutes=60, say.'
    >>> respelled("Leave --trips-cap out, or pass --unit user.", keyword)
    'Leave trips_cap out, or pass unit=user.'
    """
    return _FLAG.sub(lambda match: spell(match["verb"] or "", match["name"], match["value"]), text)


def keyword(verb: str, name: str, value: str | None) -> str:
    """A setting as a keyword of Python."""
    return verb + name.replace("-", "_") + ("" if value is None else f"={value}")


class SourceError(ShoalError):
    exit_code = 3


class GeometryError(ShoalError):
    exit_code = 3


class LedgerError(ShoalError):
    exit_code = 4


class BudgetExceeded(LedgerError):
    pass


class OutputError(ShoalError):
    exit_code = 5


class GuaranteeError(ShoalError):
    exit_code = 6


class MissingExtra(ShoalError):
    exit_code = 7


class EngineError(ShoalError):
    exit_code = 8


class ResourceError(ShoalError):
    exit_code = 9
