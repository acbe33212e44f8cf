"""What `shoal density compare` prints: figures by epsilon and method, and what each method truly promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shoal.kinds.run import near


def print_comparison(told: dict[str, Any], page: Path, figures: Path, as_json: bool) -> None:
    """One table, one line of words per method, where the page is."""
    if as_json:
        click.echo(json.dumps({**told, "page": str(page), "figures": str(figures)}, indent=2))
        return
    from rich.console import Console
    from rich.markup import escape

    from shoal.kinds.density.compare_report import CHANCE

    console = Console()
    for warning in told["warnings"]:
        console.print(f"[red]Not private:[/red] {escape(warning)}\n", soft_wrap=True)
    console.print(f"[bold]{escape(told['what'])}[/bold]")
    for words in told["assumptions"]:
        console.print(f"[dim]{escape(words)}[/dim]", soft_wrap=True)
    console.print(_table(told))
    console.print(FIGURES, style="dim", soft_wrap=True)
    if min(row["repetitions"] for row in told["means"]) == 1:
        console.print(f"{CHANCE}\n", soft_wrap=True, highlight=False)
    console.print(_methods(told))
    eyes = "owner's eyes only" if told["on_private_data"] else "simulated: nothing private was read or spent"
    console.print(
        f"\npage     {near(page)}   ({eyes})\nfigures  {near(figures)}", soft_wrap=True, highlight=False
    )


FIGURES = (
    "MRE: mean relative error, in % of the true count. corr.: correlation over the slots of a zone. EMD: how "
    "far the average person is moved on the map. bias: of the total, in % of it. off by: people per zone and "
    "slot. covered: true counts in their 95 % interval.\n"
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


def _table(told: dict[str, Any]):
    """Releases by epsilon, then what is there for comparison only, without an epsilon."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    sections: dict[Any, list[dict[str, Any]]] = {}
    order = [method["name"] for method in told["methods"]]
    for row in sorted(told["means"], key=lambda row: (row["set_at"], order.index(row["method"]))):
        sections.setdefault(row["epsilon"], []).append(row)
    sections[None] = _once(sections.pop(None, []), told)
    for epsilon, rows in sections.items():
        for row in rows:
            words = "none" if epsilon is None else f"{epsilon:g}"
            figures = (_number(row[name], form) for name, form in FORMS.items())
            table.add_row(words, row["method"], *figures, style="dim" if epsilon is None else None)
        table.add_row()
    return table


def _once(rows: list[dict[str, Any]], told: dict[str, Any]) -> list[dict[str, Any]]:
    """Comparators by name; one row where the noise does not follow from an epsilon."""
    free = {method["name"] for method in told["methods"] if not method["set_by_epsilon"]}
    kept: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = row["method"]
        label = name if name in free else f"{name} ({row['set_at']:g})"
        kept.setdefault(label, {**row, "method": label})
    return sorted(kept.values(), key=lambda row: row["method"])


def _methods(told: dict[str, Any]):
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for method in told["methods"]:
        words = f"{method['words']}."
        if method["kind"] != "release":
            if method["set_by_epsilon"]:
                words += " In brackets: what its authors call epsilon."
            words += f" [yellow]For comparison only.[/yellow] {escape(method['guarantee'])}"
        table.add_row(method["name"], words)
    return table


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
