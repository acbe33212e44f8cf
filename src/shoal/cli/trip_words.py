"""What runs on trips share on the command line: flags over a plan file, the dry run, the end of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.result_words import print_made, result_json

if TYPE_CHECKING:
    from shoal.events.schema import SourcePlan
    from shoal.kinds.run import RunResult
    from shoal.privacy.ledger import Ledger

WINDOW = ("start", "end")
PER_USER = ("trips_per_user", "trips_cap")
PLAN = click.option("--plan", type=click.Path(), help="A TOML plan; flags win over it.")
PRICE_OPTIONS = (
    click.option("--population", help="Whose budget is spent; see `shoal ledger create`."),
    click.option("--epsilon", type=float, help="Privacy loss of the release: smaller is more private."),
    click.option(
        "--delta",
        type=float,
        help="Probability mass that the epsilon bound may miss; the noise is then Gaussian.  [default: none]",
    ),
)
WINDOW_OPTIONS = (
    click.option("--planar", is_flag=True, default=None, help="Coordinates are x, y in metres."),
    click.option("--start", help="First day (or local time) of the window."),
    click.option("--end", help="Day (or local time) after the window."),
)
UNIT = click.option(
    "--unit", help="What the promise covers: user, or one trip of one user: trip.  [default: user]"
)
JUMP = click.option("--jump-m", type=float, help="A longer step between two points cuts the trip.")
OUT_OPTIONS = (
    click.option("--out", help="Folder of the release; must not exist.  [default: release]"),
    click.option("--owner", help="Folder for the owner's report.  [default: owner]"),
    click.option("--run-id", help="Another id makes another release of the same plan, and spends again."),
    click.option(
        "--supersedes", metavar="SHA256", help="Manifest hash of an earlier release that this one replaces."
    ),
    click.option("--licence", help="Licence of the release, one line."),
    click.option("--seed", type=int, help="For tests only: repeatable noise, never publishable."),
)
END_OPTIONS = (
    click.option("--dry-run", is_flag=True, help="Print the plan and what is spent; read no rows."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)


def settings_from(
    path: str | None, source: SourcePlan, rule: Any, flags: dict[str, Any], space: Iterable[str]
) -> dict[str, Any]:
    """A plan file with the flags over it, nested as plans are; `space` names the flags of the map."""
    from shoal.kinds.plan import merge, read_plan
    from shoal.kinds.trip_plan import TRIP

    said = {name: value for name, value in vars(source).items() if value not in (None, (), {})}
    nested = {
        "source": said,
        "space": {name: flags.pop(name) for name in space},
        "window": {name: flags.pop(name) for name in WINDOW} | {"time_zone": said.get("time_zone")},
        "trip_rule": {} if rule is None else _said(rule),
    }
    settings = read_plan(path) if path else {}
    if flags.get("unit") == TRIP:  # bounds per user in the file make no sense then
        settings = {name: value for name, value in settings.items() if name not in PER_USER}
    return merge(settings, {**flags, **nested})


def _said(rule: Any) -> dict[str, Any]:
    """What the flags say of a rule; defaults leave the plan's own as they are."""
    return {each.name: value for each in fields(rule) if (value := getattr(rule, each.name)) != each.default}


def print_dry_run(
    prepared: Any, told: dict[str, Any], as_json: bool, *, rows: Callable[[Any], list[tuple[str, str]]]
) -> None:
    """Everything the run would do; `told` is its dry run."""
    from shoal.release.resources import need_summary

    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    click.echo("Dry run: no row was read, nothing was spent.\n")
    for name, value in rows(prepared):
        click.echo(f"{name:<11}{value}")
    for spend in told["spends"]:
        price = f"epsilon = {spend['epsilon']:.6g}" if "epsilon" in spend else f"rho = {spend['rho']:.6g}"
        click.echo(f"{'spend':<11}{price} for {spend['pays_for'] or spend['name']}")
    expected = told.get("expected_share")
    if expected:
        click.echo(f"{'error':<11}about {expected['share']:.1%} {expected['of']}; measured on cabs, per trip")
    click.echo(f"{'resources':<11}{need_summary(prepared.needs(), Path(prepared.plan.out))}")
    for words in prepared.notes():
        click.echo(f"{'note':<11}{words}")
    for obstacle in told["obstacles"]:
        click.echo(f"The run would stop: {obstacle}")
    click.echo(f"\n{prepared.unit_sentence}\n{prepared.guarantee.sentence}")


def map_rows(prepared: Any) -> list[tuple[str, str]]:
    """Where, when, and how trips are found."""
    plan, grid = prepared.plan, prepared.grid
    west, south, east, north = grid.box
    width, height = grid.cell_m
    return [
        ("population", plan.population),
        ("method", f"{plan.method}: {prepared.method.summary}"),
        ("map", f"{west:g} to {east:g}, {south:g} to {north:g}"),
        ("cells", f"{grid.columns} x {grid.rows}, each {width:,.0f} x {height:,.0f} m"),
        ("window", f"{plan.window.start} to {plan.window.end}, {plan.window.time_zone}"),
        ("trips", "named by the source" if plan.trip_rule is None else "found by the trip rule"),
    ]


def folder_rows(prepared: Any) -> list[tuple[str, str]]:
    plan = prepared.plan
    return [
        ("source", ", ".join(sorted(prepared.source.columns))),
        ("out", plan.out),
        ("owner", plan.owner),
    ]


def print_result(prepared: Any, result: RunResult, ledger: Ledger, as_json: bool, then: str) -> None:
    """Where things are, what was promised, what was spent and what is left; `then`: what can be done now."""
    population = ledger.state().population(prepared.plan.population)
    if as_json:
        told = result_json(prepared, result, population, unit=prepared.unit_sentence)
        click.echo(json.dumps(told, indent=2))
        return
    print_made(prepared, result, population, prepared.unit_sentence)
    if result.publishable:
        click.echo(then)


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
