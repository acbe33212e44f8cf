"""What `shoal synthesize run` prints: the plan and its price, or where things are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from shoal.cli import trip_words
from shoal.cli.result_words import near

if TYPE_CHECKING:
    from shoal.kinds.commute.prepare import PreparedCommute
    from shoal.kinds.run import RunResult
    from shoal.kinds.synthetic.prepare import PreparedSynthetic
    from shoal.privacy.ledger import Ledger


def print_dry_run(prepared: PreparedSynthetic | PreparedCommute, ledger: Ledger, as_json: bool) -> None:
    """Everything the run would do, from public parameters and the ledger alone."""
    from shoal.kinds.commute.prepare import PreparedCommute
    from shoal.kinds.dry_run import synthetic_dry_run

    rows = _site_rows if isinstance(prepared, PreparedCommute) else _rows
    trip_words.print_dry_run(prepared, synthetic_dry_run(prepared, ledger), as_json, rows=rows)


def _rows(prepared: PreparedSynthetic) -> list[tuple[str, str]]:
    plan = prepared.plan
    kept = f"all that a {plan.unit} did, scaled to one; at most {plan.per_unit:,} trips are read"
    bought = f"bought, at most {plan.cap} of a {plan.unit}" if plan.unit != "trip" else "bought"
    number = bought if plan.trips is None else f"{plan.trips:,}, as declared"
    return [
        *trip_words.map_rows(prepared),
        ("step", f"{plan.step_s:g} s"),
        ("kept", "one piece of every trip" if prepared.each_trip else kept),
        ("number", number),
        ("written", "as many as bought" if plan.count is None else f"{plan.count:,} synthetic trips"),
        ("formats", ", ".join(plan.formats)),
        *trip_words.folder_rows(prepared),
    ]


def _site_rows(prepared: PreparedCommute) -> list[tuple[str, str]]:
    plan = prepared.plan
    return [
        ("population", plan.population),
        ("method", f"{plan.method}: {prepared.method.summary}"),
        ("sites", f"{prepared.sites.count:,}, in {prepared.setting.region_count} regions"),
        ("window", f"{plan.window.start} to {plan.window.end}, {plan.window.time_zone}"),
        ("kept", f"all that a {plan.unit} did, scaled to one"),
        ("written", "as many people" if plan.count is None else f"{plan.count:,} synthetic people"),
        *trip_words.folder_rows(prepared),
    ]


def _say_slow(result: RunResult) -> None:
    """Whether the step of time is shorter than the source can tell."""
    if result.report is None:
        return
    figures = result.report.parent / "utility.json"
    known = json.loads(figures.read_text("utf-8")) if figures.exists() else {}
    share = known.get("steps_longer_than_step_s_share")
    if share is not None and share > 0.5:
        click.echo(
            f"note     {share:.0%} of the steps between two points are longer than --step-s: short stays "
            "cannot be seen, and a longer step would fit better   (owner's eyes only)"
        )


def print_result(
    prepared: PreparedSynthetic | PreparedCommute, result: RunResult, ledger: Ledger, as_json: bool
) -> None:
    """Where things are, what was promised, what was spent and what is left."""
    then = f"Read it:  {near(result.release / 'README.md')} tells how."
    if prepared.method.takes == "paths" and not as_json:
        known = json.loads((result.release / "manifest.json").read_text("utf-8"))["input"]
        click.echo(
            f"{'stored' if result.reused else 'written':<9}{known['synthetic_trips']:,} synthetic trips"
        )
        _say_slow(result)
    trip_words.print_result(prepared, result, ledger, as_json, then)
    if prepared.method.takes != "paths":
        return
    missing = [each for each in prepared.plan.formats if not (result.release / f"trips.{each}").exists()]
    if result.reused and missing and not as_json:
        click.echo(f"It was released without {', '.join(missing)}: trips.parquet has the same trips.")
