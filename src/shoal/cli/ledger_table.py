"""Tables of `shoal ledger show`: a bar of the budget per population, and the rows of one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from textwrap import fill

from shoal.cli.printing import draw_table
from shoal.privacy.accounting import epsilon_for, show_nano
from shoal.privacy.ledger import Population, Spend

_BAR = 10


def print_populations(populations: Iterable[Population]) -> None:
    """One line per population: limit, spent, left, and what that means at its delta."""
    populations = list(populations)
    if not populations:
        print("The ledger has no population yet. Make one with `shoal ledger create`.")
        return
    rows = [
        (
            each.name,
            _bar(each),
            f"{each.currency} {_short(each.spent_nano, up=True)} of {_short(each.limit_nano)}",
            _short(each.left_nano),
            _epsilon(each),
        )
        for each in populations
    ]
    header = ("population", "budget", "spent", "left", "spent as epsilon")
    draw_table(header, rows, wraps=(0, 2, 3, 4))
    for each in populations:
        if each.mixture:
            print(f"{each.name}: {each.mixture}")


def print_rows(population: Population) -> None:
    """Every spend with its folder, and everything else that was noted, in the order it happened."""
    lines = [
        (each.at, each.what, each.path, show_nano(each.cost_nano), _status(population, each))
        for each in population.spends
    ]
    for note in population.notes:
        what = note.get("what") or note.get("note", "")
        if note["kind"] == "supersede":
            what = f"{note['new_sha256'][:16]} replaces {note['old_sha256'][:16]}. {what}".strip()
        lines.append((note["at"], what, note.get("path", ""), *_NOTED[note["kind"]]))
    rows = [
        (at[:16].replace("T", " "), f"{what}\n{_near(path)}" if path else what, cost, fill(status, 14))
        for at, what, path, cost, status in sorted(lines)
    ]
    header = ("when (UTC)", "what, and where", population.currency, "status")
    draw_table(header, rows, wraps=(1,))


def _status(population: Population, spend: Spend) -> str:
    replaced = spend.released is not None and spend.released.manifest_sha256 in population.superseded
    return f"{spend.status}, superseded" if replaced else spend.status


def _near(path: str) -> str:
    """A folder as seen from here where that is shorter, on one line whatever its name."""
    shown = min(path, os.path.relpath(path), key=len)
    return shown if shown.isprintable() else ascii(shown)


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
    "lower": ("", "limit lowered"),
    "supersede": ("", "release superseded"),
    "listing": ("", "released, not differentially private"),
    "disclosure": ("", "seen by the owner only"),
    "tuned": ("", "chosen by looking at private data"),
}
