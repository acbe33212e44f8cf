"""Tables of `shoal ledger show`: a bar of the budget per population, and the rows of one."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from shoal.privacy.accounting import epsilon_for
from shoal.privacy.ledger import Population
from shoal.privacy.ledger.amounts import show_nano

_BAR = 10


def print_populations(populations: Iterable[Population]) -> None:
    """One line per population: limit, spent, left, and what that means at its delta."""
    populations = list(populations)
    if not populations:
        print("The ledger has no population yet. Make one with `shoal ledger create`.")
        return
    table = Table()
    for heading in ("population", "budget", "spent", "left", "spent as epsilon"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "budget")
    for each in populations:
        spent = f"{each.currency} {_short(each.spent_nano, up=True)} of {_short(each.limit_nano)}"
        table.add_row(escape(each.name), _bar(each), spent, _short(each.left_nano), _epsilon(each))
    Console().print(table)


def print_rows(population: Population) -> None:
    """Every spend, and everything else that was noted, in the order it happened."""
    table = Table()
    for heading in ("when (UTC)", "what", population.currency, "status"):
        table.add_column(heading, overflow="fold")
    lines = [(each.at, each.what, show_nano(each.cost_nano), each.status) for each in population.spends]
    for note in population.notes:
        lines.append((note["at"], note.get("what") or note.get("note", ""), *_NOTED[note["kind"]]))
    for at, what, cost, status in sorted(lines):
        table.add_row(at[:19].replace("T", " "), escape(what), cost, status)
    Console().print(table)


def _bar(population: Population) -> str:
    """Filled by what is spent; never empty once something is spent, never full while something is left."""
    full = population.spent_nano * _BAR // population.limit_nano
    full = max(full, 1) if population.spent_nano else 0
    return "█" * full + "░" * (_BAR - full)


def _short(nano: int, *, up: bool = False) -> str:
    """Four digits after the point, rounded so that nothing looks better than it is; --json has all."""
    step = 10**5
    return show_nano(-(-nano // step) * step if up else nano // step * step)


def _epsilon(population: Population) -> str:
    if population.currency == "epsilon":
        return "pure, as it is"
    if not population.delta:
        return ""
    delta = float(population.delta)
    spent, limit = epsilon_for(population.spent_nano, delta), epsilon_for(population.limit_nano, delta)
    return f"{spent:.3f} of {limit:.3f} at {delta:g}"


_NOTED = {
    "raise": ("", "limit changed"),
    "listing": ("", "released, not differentially private"),
    "disclosure": ("", "seen by the owner only"),
    "tuned": ("", "chosen by looking at private data"),
}
