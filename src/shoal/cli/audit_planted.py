"""shoal audit --planted: bugs planted in a copy of the package, and what catches each of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

ALL = "all"


def show_planted(asked: str, at_once: bool, as_json: bool) -> None:
    """Plant the bugs that are asked for, by name or from a file, and fail if one is not caught."""
    from shoal.auditing.planted import PLANTED, plant, read_bugs
    from shoal.cli.progress import Bars
    from shoal.errors import GuaranteeError, PlanError

    bugs = read_bugs(Path(asked) if Path(asked).is_file() else PLANTED)
    if asked != ALL and not Path(asked).is_file():
        names = [part.strip() for part in asked.split(",")]
        unknown = [name for name in names if name not in {bug.name for bug in bugs}]
        if unknown:
            known = ", ".join(f'"{bug.name}"' for bug in bugs)
            raise PlanError(
                "planted-bug", f'no planted bug or file is called "{unknown[0]}".', f"Known: {known}."
            )
        bugs = [bug for bug in bugs if bug.name in names]
    groups = [bugs] if at_once else [[bug] for bug in bugs]
    results = []
    with Bars() as bars:
        bars.stage("planted bugs", len(groups))
        for group in groups:
            results.append(plant(group))
            bars.advance(1)
    if as_json:
        click.echo(json.dumps([{**asdict(result), "held": result.held} for result in results], indent=2))
    else:
        click.echo(table(results))
    missed = [f"{', '.join(result.bugs)}: {_why(result)}" for result in results if not result.held]
    if missed:
        raise GuaranteeError("planted-bug-missed", "a planted bug was not caught.\n" + "\n".join(missed))


def table(results: list) -> str:
    """Bug, what catches it, CPU seconds, as a table in Markdown."""
    lines = ["| bug | caught by | seconds |", "| --- | --- | ---: |"]
    for result in results:
        by = "; ".join(f"`{_short(check)}`" for check in result.by) or "**nothing**"
        lines.append(f"| {'; '.join(result.bugs)} | {by} | {result.seconds:.1f} |")
    return "\n".join(lines)


def _short(check: str) -> str:
    """A test by its name alone."""
    return check.partition("::")[2] or check


def _why(result) -> str:
    if result.broken:
        return f"the patched package does not run: {result.broken}"
    return f"missed by {', '.join(result.missed_by)}" if result.missed_by else "no check found anything"
