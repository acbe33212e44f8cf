"""Prints what runs say: dry runs, results, tables, how far they are. One printer for every kind of release.

Signals that stop the command (Ctrl-C, SIGTERM, a closed terminal) are raised as an interrupt, so that
temporary folders are removed and the message says what is spent. One that lands inside a library's callback
is swallowed there: the handler remembers it, and progress asks at every step whether one came.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from shoal.kinds.describe import Prepared, Table
    from shoal.kinds.run import RunResult
    from shoal.privacy.ledger import Ledger, Population

MANY_COLUMNS = 7  # more stand one space apart, to fit a terminal


def print_table(table: Table) -> None:
    """Figures that a kind of release or an attack reports."""
    draw_table(**vars(table))


def draw_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    wraps: Sequence[int] = (-1,),
    title: str = "",
    below: str = "",
    marks: Mapping[int, str] | None = None,
    most: int | None = None,
) -> None:
    """Title, rows, what the figures mean; marked rows are set off. The arguments are those of a `Table`."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Drawn

    console = Console(highlight=False)
    if not console.is_terminal:  # nothing is cut off in a file
        console = Console(highlight=False, width=max(console.width, 120))
    if title:
        console.print(f"\n[bold]{escape(title)}[/bold]")
    many = len(header) > MANY_COLUMNS
    drawn = Drawn(
        box=None, pad_edge=False, collapse_padding=many, header_style="dim", show_header=bool(header)
    )
    names = header or [""] * max(map(len, rows), default=0)
    wrapped = {column % len(names) for column in wraps} if names else set()
    for number, name in enumerate(names):
        drawn.add_column(
            escape(name),
            justify="right" if number in right else "left",
            style="" if header or number else "bold",
            no_wrap=number not in wrapped,
            overflow="fold" if number in wrapped else "ellipsis",
        )
    for number, row in enumerate(rows[:most]):
        drawn.add_row(*map(escape, row), style=(marks or {}).get(number))
    console.print(drawn)
    if most is not None and len(rows) > most:
        click.echo(f"... and {len(rows) - most:,} more")
    console.print(f"\n{escape(below)}" if below else "", style="dim", soft_wrap=True)


def print_dry_run(prepared: Prepared, ledger: Ledger, as_json: bool) -> int:
    """Everything the run would do, from public parameters and the ledger alone; its exit code."""
    from shoal.kinds.describe import dry_run
    from shoal.release.staging import need_summary

    summary, plan, needs = dry_run(prepared, ledger), prepared.plan, prepared.needs()
    if as_json:
        click.echo(json.dumps(summary, indent=2))
        return summary["exit_code"]
    population = ledger.state().find(plan.population)
    rows = [*prepared.rows(), ("out", prepared.out)]
    rows += [("owner", plan.owner)] if plan.owner is not None else []
    rows += [*_price(prepared, population), *prepared.expected(summary)]
    rows += [("resources", need_summary(needs, Path(prepared.out)))] if needs is not None else []
    rows += [("note", words) for words in summary["notes"]]
    click.echo("Dry run: no row was read, nothing was spent.\n")
    width = max(len(name) for name, _ in rows) + 2
    for name, words in rows:
        click.echo(f"{name:<{width}}{words}")
    table = prepared.table(summary)
    if table is not None:
        print_table(table)
    print_verdict(summary["verdict"])
    if summary["stored"] is not None and not summary["obstacles"]:
        click.echo(f"This run was released before: a run returns {summary['stored']} and spends nothing.")
    for obstacle in summary["obstacles"]:
        click.echo(f"The run would stop: {obstacle}")
    if prepared.guarantee is not None:
        click.echo(f"\n{prepared.unit_sentence}\n{prepared.guarantee.sentence}")
    return summary["exit_code"]


def print_verdict(verdict: Mapping[str, Any]) -> None:
    """What the release is good for, from public and published numbers, and what would help most."""
    grade = verdict["grade"]
    mark = {"mostly noise": "red", "rough": "yellow"}.get(grade, "green")
    named = "" if grade is None else click.style(f"{grade}. ", fg=mark, bold=True)
    click.echo(f"verdict  {named}{verdict['summary']}")
    for way in verdict["advice"]:
        click.echo(f"  try    {way}")


def print_result(prepared: Prepared, result: RunResult, ledger: Ledger, as_json: bool) -> None:
    """Where things are, what was promised, what was spent and what is left."""
    from shoal.kinds.describe import near

    population = ledger.state().population(prepared.plan.population)
    outcome = prepared.outcome(result)
    if as_json:
        summary = {**_result_json(prepared, result, population), **outcome.figures}
        click.echo(json.dumps(summary, indent=2, allow_nan=False))
        return
    for line in outcome.lines:
        click.echo(line)
    if result.reused:
        click.echo("This run was released before: here it is again, and nothing was spent.")
        if result.release != Path(prepared.out).resolve():
            spends = "" if prepared.mechanism is None else ", and spends"
            click.echo(f"{prepared.out} was not written; --run-id NAME makes another release{spends}.")
    _print_changed(prepared, result)
    if outcome.table is not None:
        print_table(outcome.table)
    print_verdict(result.verdict.to_plain())
    click.echo(f"release  {near(result.release)}")
    for name, path, words in outcome.places:
        click.echo(f"{name:<9}{near(path)}   ({words})")
    if result.report is not None:
        click.echo(f"report   {near(result.report)}   (owner's eyes only: it shows raw figures)")
    if prepared.plan.seed is not None:
        click.echo(
            "Seeded: repeatable, so it protects nobody and is not for publication. Nothing was spent; "
            "--out was not used. The ledger records it, and later manifests of this population say so."
        )
        return
    if result.rows is not None:
        click.echo(f"rows     {result.rows:,} read, {result.bad_rows:,} dropped as bad   (owner's eyes only)")
    if prepared.guarantee is not None:
        click.echo(f"budget   {spent(prepared, population, result.reused)}")
        click.echo(f"{prepared.unit_sentence}\n{prepared.guarantee.sentence}")
    for line in outcome.then:
        click.echo(line)


def _result_json(prepared: Prepared, result: RunResult, population: Population) -> dict[str, Any]:
    """The same for programs."""
    summary = {
        "release": str(result.release),
        "report": None if result.report is None else str(result.report),
        "reused": result.reused,
        "source_changed": result.source_changed,
        "publishable": result.publishable,
        "verdict": result.verdict.to_plain(),
        "notes": prepared.notes(),
        "unit": prepared.unit_sentence,
    }
    if prepared.guarantee is None:
        return summary
    from shoal.kinds.describe import pot_of

    pot = population.pot_for(prepared.mechanism.loss(), pot_of(prepared.plan))
    return summary | {
        "guarantee": prepared.guarantee.to_manifest(),
        "budget_left_nano": pot.left_nano,
        "budget_currency": pot.currency,
        "budget": population.described(),
    }


def _print_changed(prepared: Prepared, result: RunResult) -> None:
    """For the owner alone; whether a run is free must not depend on the data, so the release stands."""
    if result.source_changed:
        from shoal.release.manifest import MANIFEST
        from shoal.release.verify import sha256_file

        spends = "" if prepared.mechanism is None else ", which spends"
        click.echo(
            "The files changed since this release was made (for your eyes only). It is returned as it is, "
            f"and no report is drawn anew. For a new release of the new files{spends}, add: "
            f"--run-id NAME --out FOLDER --supersedes {sha256_file(result.release / MANIFEST)}"
        )


def _price(prepared: Prepared, population: Population | None) -> list[tuple[str, str]]:
    """Every named spend, what the ledger would be charged, and what is left there."""
    from shoal.errors import LedgerError
    from shoal.kinds.describe import pot_of
    from shoal.privacy.accounting import PURE, show_nano

    if prepared.mechanism is None:
        return []
    loss, mechanism = prepared.mechanism.loss(), prepared.mechanism
    law, promised = prepared.guarantee.law, prepared.guarantee

    def shown(spend: Any) -> str:
        return show_nano(spend.amount(law))

    rho = "" if law == PURE else f" at delta = {promised.delta:g}, rho = {shown(loss)}"
    lines = [("spends", f"epsilon = {promised.epsilon:g}{rho}: in these parts")]
    for name, spend in mechanism.spends():
        lines.append((f"  {name}", f"{shown(spend):<11}  for {prepared.pays_for.get(name, name)}"))
    if population is None:
        return lines
    try:
        pot = population.pot_for(loss, pot_of(prepared.plan))
        charged = f"{pot.shown(pot.cost(loss))} charged to the {pot.title}; "
    except LedgerError:  # the pot takes pure releases only
        charged = ""
    return [*lines, ("budget", f"{charged}{_left(population)}")]


def spent(prepared: Any, population: Population, reused: bool) -> str:
    """What the run cost, and what is spent of the population's budget."""
    from shoal.kinds.describe import pot_of

    loss = prepared.mechanism.loss()
    pot = population.pot_for(loss, pot_of(prepared.plan))
    amount = "nothing" if reused else pot.shown(pot.cost(loss))
    return f"{amount} spent; {_left(population)}"


def _left(population: Population) -> str:
    return ". ".join([f'"{population.name}": {population.line}', *filter(None, [population.mixture])])


def print_page(
    path: Path, figures: dict[str, Any], trips: str, manifest: Mapping[str, Any], as_json: bool
) -> None:
    """Where the page of a published release is; drawing it is free."""
    if as_json:
        summary = {"page": str(path), **figures, "guarantee": manifest.get("guarantee"), "spent": 0}
        click.echo(json.dumps(summary, indent=2))
        return
    click.echo(f"page     {path}\ntrips    {trips}")
    if manifest:
        click.echo(f"{manifest['unit']} {manifest['promise']}")


def check_page_place(out: Path) -> None:
    """A page of a release is never written into one."""
    from shoal.errors import OutputError
    from shoal.release.manifest import MANIFEST

    if any((folder / MANIFEST).is_file() for folder in out.resolve().parents):
        raise OutputError(
            "report-in-release",
            "a page inside a release would no longer be what its manifest lists.",
            "Pass --out another-place.html.",
        )


class Bars:
    """Progress on standard error, one line per stage; silent where nobody looks. Used as a context."""

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description:<18}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
        )
        self._task = None

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, failed: type | None, *_: object) -> None:
        if failed is None:
            self._finish()
        self._progress.stop()

    def stage(self, name: str, total: float | None = None) -> None:
        stop_if_pressed()
        self._finish()
        self._task = self._progress.add_task(name, total=total)

    def advance(self, amount: float) -> None:
        stop_if_pressed()
        if self._task is not None:
            self._progress.advance(self._task, amount)

    def _finish(self) -> None:
        if self._task is None:
            return
        task = self._progress.tasks[-1]
        total = task.total or 1
        self._progress.update(self._task, total=total, completed=total)
        self._progress.stop_task(self._task)


_pressed = threading.Event()
_code = 128 + signal.SIGINT


def listen_for_signals() -> None:
    """Remember interrupts from here on; they are raised as always too."""
    if threading.current_thread() is not threading.main_thread():
        return
    signal.signal(signal.SIGINT, _press)
    signal.signal(signal.SIGTERM, _press)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, _press)


def interrupted() -> bool:
    return _pressed.is_set()


def exit_code() -> int:
    """As a shell reports the signal that came."""
    return _code


def stop_if_pressed() -> None:
    """Stop here if an interrupt came before and was swallowed."""
    if _pressed.is_set() and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _press(number: int, *_: object) -> None:
    global _code
    _code = 128 + number
    _pressed.set()
    raise KeyboardInterrupt
