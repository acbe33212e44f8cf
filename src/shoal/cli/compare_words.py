"""What `shoal density compare` prints: figures by epsilon and method, and what each method truly promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shoal.kinds.describe import Table
from shoal.kinds.run import near


def print_comparison(told: dict[str, Any], page: Path, figures: Path, as_json: bool) -> None:
    """One table, one line of words per method, where the page is."""
    if as_json:
        click.echo(json.dumps({**told, "page": str(page), "figures": str(figures)}, indent=2))
        return
    from shoal.cli.printing import print_table
    from shoal.kinds.density.compare_report import CHANCE

    for warning in told["warnings"]:
        click.echo(f"{click.style('Not private:', fg='red')} {warning}\n")
    click.secho(told["what"], bold=True)
    for words in told["assumptions"]:
        click.secho(words, dim=True)
    print_table(_table(told))
    if min(row["repetitions"] for row in told["means"]) == 1:
        click.echo(f"{CHANCE}\n")
    print_table(_methods(told))
    eyes = "owner's eyes only" if told["on_private_data"] else "simulated: nothing private was read or spent"
    click.echo(f"page     {near(page)}   ({eyes})\nfigures  {near(figures)}")


FIGURES = (
    "MRE: mean relative error, in % of the true count. corr.: correlation over the slots of a zone. EMD: how "
    "far the average person is moved on the map. bias: of the total, in % of it. off by: people per zone and "
    "slot. covered: true counts in their 95 % interval."
)
HEADINGS = ("MRE", "corr.", "EMD m", "bias", "off by", "covered")
FORMS = {
    "mre": ",.1%",
    "pc": ".3f",
    "emd_m": ",.0f",
    "bias": "+.1%",
    "mae": ",.1f",
    "coverage": ".1%",
}


def _table(told: dict[str, Any]) -> Table:
    """Releases by epsilon, then what is there for comparison only, without an epsilon."""
    sections: dict[Any, list[dict[str, Any]]] = {}
    order = [method["name"] for method in told["methods"]]
    for row in sorted(told["means"], key=lambda row: (row["set_at"], order.index(row["method"]))):
        sections.setdefault(row["epsilon"], []).append(row)
    sections[None] = _once(sections.pop(None, []), told)
    header = ("epsilon", "method", *HEADINGS)
    rows: list[tuple[str, ...]] = []
    marks: dict[int, str] = {}
    for epsilon, listed in sections.items():
        for row in listed:
            if epsilon is None:
                marks[len(rows)] = "dim"
            figures = (_number(row[name], form) for name, form in FORMS.items())
            rows.append(("none" if epsilon is None else f"{epsilon:g}", row["method"], *figures))
        rows.append(("",) * len(header))
    return Table(header=header, rows=rows, right=(0, *range(2, len(header))), marks=marks, below=FIGURES)


def _once(rows: list[dict[str, Any]], told: dict[str, Any]) -> list[dict[str, Any]]:
    """Comparators by name; one row where the noise does not follow from an epsilon."""
    free = {method["name"] for method in told["methods"] if not method["set_by_epsilon"]}
    kept: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = row["method"]
        label = name if name in free else f"{name} ({row['set_at']:g})"
        kept.setdefault(label, {**row, "method": label})
    return sorted(kept.values(), key=lambda row: row["method"])


def _methods(told: dict[str, Any]) -> Table:
    rows = []
    for method in told["methods"]:
        words = f"{method['words']}."
        if method["kind"] != "release":
            if method["set_by_epsilon"]:
                words += " In brackets: what its authors call epsilon."
            words += f" For comparison only. {method['guarantee']}"
        rows.append((method["name"], words))
    return Table(header=(), rows=rows)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
