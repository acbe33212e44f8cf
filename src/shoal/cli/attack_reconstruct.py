"""`shoal attack reconstruct`: what a log of counting queries gives away."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.progress import Bars

if TYPE_CHECKING:
    from shoal.attacks.runs.reconstruct import LogFindings, QueryLog

EXAMPLE = """\b
Examples:
  shoal attack reconstruct queries.jsonl
  shoal attack reconstruct queries.jsonl --plan density.toml --fewer-than 10
  shoal attack reconstruct --demo --bits 2000 --queries 8000
  shoal attack reconstruct --demo --bits 2000 --queries 8000 --epsilon 1
\b
A line of queries.jsonl:
  {"zones": ["A", "B"], "slots": [8, 9], "except": ["L1"], "answer": 12}
"""
SHOWN = 20  # rows of a table on the screen; the file has all


@click.command(epilog=EXAMPLE)
@click.argument("log", required=False, type=click.Path())
@click.option(
    "--plan", type=click.Path(), help="A TOML plan of a density: hold the findings against its events."
)
@click.option(
    "--fewer-than",
    type=click.IntRange(min=2),
    default=5,
    show_default=True,
    help="Report differences about fewer cells or people than this.",
)
@click.option(
    "--most", type=float, help="Largest count of a cell, if known; 1: bits.  [default: largest answer]"
)
@click.option("--demo", is_flag=True, help="Random subsets of random bits instead of a log.")
@click.option("--bits", type=int, default=500, show_default=True, help="With --demo: private bits.")
@click.option("--queries", type=int, default=2000, show_default=True, help="With --demo: subsets asked for.")
@click.option(
    "--epsilon", type=float, help="With --demo: for all answers together.  [default: exact answers]"
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="With --demo.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("owner/attack"),
    show_default=True,
    help="Owner's folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def reconstruct(
    log: str | None, plan: str | None, demo: bool, out: Path, as_json: bool, **flags: Any
) -> None:
    """Find what answers to counting queries disclose.

    LOG has one query a line, as JSON: zones, slots, and if there are any, whom it leaves out (except) and its
    answer. Reported are cells that the queries fix whatever the answers are, queries whose difference counts
    only a few, and from the answers the likely count of each cell. Only the log is read; nothing is spent.
    With --plan the owner's events are read too, to say how many of the counts are right and how many people
    were seen at the zones that a query leaves out.
    """
    from shoal.errors import PlanError

    if demo == (log is not None):
        raise PlanError("attack-log", "give a query log or --demo, one of the two.", "See --help for a log.")
    if demo:
        _demo(as_json, {name: flags[name] for name in ("bits", "queries", "epsilon", "seed")})
        return
    from shoal.attacks.runs.reconstruct import attack_log, check_findings, people_seen_at, read_query_log
    from shoal.attacks.runs.source import note_look, open_attack_source, write_findings
    from shoal.kinds.plan import read_plan

    with Bars(quiet=as_json) as bars:
        bars.stage("read the log")
        read = read_query_log(str(log))
        if plan:
            note_look(read_plan(plan), "reconstruction", out)
        source = open_attack_source(read_plan(plan), progress=bars) if plan else None
        seen_at = people_seen_at(source, read) if source else None
        bars.stage("attack")
        found = attack_log(read, fewer_than=flags["fewer_than"], most=flags["most"], seen_at=seen_at)
        check = asdict(check_findings(source, found)) if source else None
    told = {**findings_json(read, found), "check": check}
    paths = write_findings(out, "reconstruct", told)
    if as_json:
        click.echo(json.dumps({**told, "file": str(paths[0])}, indent=2))
        return
    _print_findings(told)
    click.echo(f"\nfindings  {paths[0]}   (owner's eyes only)")


def findings_json(log: QueryLog, found: LogFindings) -> dict[str, Any]:
    """All that was found, as plain values."""
    counts = found.reconstruction
    return {
        "queries": len(log.queries),
        "cells": len(found.cells),
        "disclosed": [{"zone": zone, "slot": slot} for zone, slot in found.disclosed],
        "differences": [
            {
                "words": each.words(),
                "plus": [number + 1 for number in each.plus],
                "minus": [number + 1 for number in each.minus],
                "size": each.size,
                "of": "people" if each.people else "cells",
                "except": sorted(each.people),
                "cells": [{"zone": zone, "slot": slot} for zone, slot in sorted(each.cells, key=repr)],
            }
            for each in found.differences
        ],
        "answered": found.answered,
        "fit": counts and counts.used,
        "mean_residual": counts and counts.residual,
        "counts": counts
        and [
            {"zone": zone, "slot": slot, "count": int(count), "fitted": round(float(fitted), 4)}
            for (zone, slot), count, fitted in zip(found.cells, counts.rounded, counts.fitted, strict=True)
        ],
    }


def _print_findings(told: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    fixed = len(told["disclosed"])
    console.print(
        f"[bold]{told['queries']} queries over {told['cells']} cells.[/bold] {fixed} of the cells "
        "follow from the answers, whatever they are.",
        soft_wrap=True,
        highlight=False,
    )
    for each in told["differences"][:SHOWN]:
        console.print(f"  {escape(each['words'])}", soft_wrap=True, highlight=False)
    more = len(told["differences"]) - SHOWN
    if more > 0:
        console.print(f"  and {more} more", highlight=False)
    if not told["differences"]:
        console.print("No two or three queries differ by a few only.")
    if told["counts"] is None:
        console.print("The log has no answers: no count was reconstructed.")
        return
    sure = {(each["zone"], each["slot"]) for each in told["disclosed"]}
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("zone", "slot", "count", "fixed"):
        table.add_column(name, justify="left" if name in ("zone", "fixed") else "right")
    for each in told["counts"][:SHOWN]:
        certain = "yes" if (each["zone"], each["slot"]) in sure else ""
        table.add_row(escape(each["zone"]), str(each["slot"]), str(each["count"]), certain)
    console.print(f"\nLikely counts from {told['answered']} answers (fit: {told['fit']}):", highlight=False)
    console.print(table)
    console.print(
        "fixed: no other count agrees with the queries, if their answers are exact; noisy or contradicting "
        "answers give a wrong one.",
        style="dim",
        soft_wrap=True,
    )
    if told["check"]:
        visited = told["check"]["share_right_of_visited"]
        of_visited = "" if visited is None else f", and {visited:.1%} of those with a visit"
        console.print(
            f"{told['check']['share_right']:.1%} of the counts are right{of_visited}.", highlight=False
        )


def _demo(as_json: bool, asked: dict[str, Any]) -> None:
    from shoal.attacks.runs.reconstruct import reconstruct_random

    with Bars(quiet=as_json) as bars:
        bars.stage("solve")
        run = reconstruct_random(**asked)
    if as_json:
        click.echo(json.dumps(asdict(run), indent=2))
        return
    answers = (
        "exact answers" if run.epsilon is None else f"answers at epsilon {run.epsilon:g} for all together"
    )
    click.echo(
        f"{run.queries:,} random subsets of {run.bits:,} random bits, {answers}:\n"
        f"  {run.share_recovered:.1%} of the bits recovered in {run.seconds:.1f} s "
        f"(fit: {run.used}); guessing gives {run.share_by_guessing:.0%}."
    )
    if run.epsilon is not None:
        click.echo(f"  No adversary can expect more than {run.share_at_most:.1%} at this epsilon.")
