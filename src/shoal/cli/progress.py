"""Progress bars on standard error, one line per stage; silent where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shoal.cli import interrupts


@contextmanager
def bars_for(notes: list[str], as_json: bool) -> Iterator[Any]:
    """What the owner should know before a run, then the bars of the run; neither where JSON was asked for."""
    import click

    for words in () if as_json else notes:
        click.echo(f"note     {words}")
    with Bars(quiet=as_json) as bars:
        yield bars


class Bars:
    """Draws the stages of a run with rich. Used as a context."""

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

    def confirm(self, question: str) -> bool:
        """Ask a person at a terminal; elsewhere say it and go on."""
        import click

        if not sys.stdin.isatty():
            click.echo(f"Warning: {question}", err=True)
            return True
        self._progress.stop()
        answer = click.confirm(f"{question} Spend and go on?", err=True)
        self._progress.start()
        return answer

    def stage(self, name: str, total: float | None = None) -> None:
        interrupts.check()
        self._finish()
        self._task = self._progress.add_task(name, total=total)

    def advance(self, amount: float) -> None:
        interrupts.check()
        if self._task is not None:
            self._progress.advance(self._task, amount)

    def _finish(self) -> None:
        if self._task is None:
            return
        task = self._progress.tasks[-1]
        total = task.total or 1
        self._progress.update(self._task, total=total, completed=total)
        self._progress.stop_task(self._task)
