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

Once loading is over, no message carries a value, count or identifier from private data.
"""

from __future__ import annotations

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

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        self.code = code
        self.message = printable(message)
        self.remedy = printable(remedy)
        super().__init__(f"{code}: {self.message}" + (f"\n{self.remedy}" if remedy else ""))

    def __reduce__(self):
        return (type(self), (self.code, self.message, self.remedy))


class PlanError(ShoalError):
    exit_code = 2


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
