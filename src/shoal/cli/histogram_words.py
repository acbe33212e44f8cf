"""What `shoal histogram run` prints: the plan and its price, or where things are."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.density_words import near

if TYPE_CHECKING:
    from shoal.flows.histogram import HistogramResult
    from shoal.flows.histogram_prepare import PreparedHistogram
    from shoal.privacy.ledger import Ledger, Population


def print_dry_run(prepared: PreparedHistogram, ledger: Ledger, as_json: bool) -> None:
    """Everything the run would do, from public parameters and the ledger alone."""
    from shoal.flows.histogram_manifest import public_parameters, spends_of

    population = ledger.state().populations.get(prepared.plan.population)
    obstacles = _obstacles(prepared, population)
    if as_json:
        shown = {
            "dry_run": True,
            "plan": asdict(prepared.plan),
            "public": public_parameters(prepared),
            "unit": prepared.unit_sentence,
            "guarantee": prepared.guarantee.to_manifest(),
            "spends": spends_of(prepared.mechanism),
            "notes": prepared.notes(),
            "obstacles": obstacles,
        }
        click.echo(json.dumps(shown, indent=2))
        return
    click.echo("Dry run: no row was read, nothing was spent.\n")
    for name, value in _rows(prepared):
        click.echo(f"{name:<11}{value}")
    for spend in spends_of(prepared.mechanism):
        price = f"epsilon = {spend['epsilon']:.6g}" if "epsilon" in spend else f"rho = {spend['rho']:.6g}"
        click.echo(f"{'spend':<11}{price} for {spend['pays_for'] or spend['name']}")
    for words in prepared.notes():
        click.echo(f"{'note':<11}{words}")
    for obstacle in obstacles:
        click.echo(f"The run would stop: {obstacle}")
    click.echo(f"\n{prepared.unit_sentence}\n{prepared.guarantee.sentence}")


def _rows(prepared: PreparedHistogram) -> list[tuple[str, str]]:
    plan, grid, setting = prepared.plan, prepared.grid, prepared.setting
    west, south, east, north = grid.box
    width, height = grid.cell_m
    kept = "one piece of every trip" if prepared.each_trip else f"at most {setting.per_unit} of a {plan.unit}"
    scaled = "" if setting.cap is None else f", scaled up to at most {setting.cap} of a {plan.unit}"
    return [
        ("population", plan.population),
        ("method", f"{plan.method}: {prepared.method.words}"),
        ("map", f"{west:g} to {east:g}, {south:g} to {north:g}"),
        ("cells", f"{grid.columns} x {grid.rows}, each {width:,.0f} x {height:,.0f} m"),
        ("window", f"{plan.window.start} to {plan.window.end}, {plan.window.time_zone}"),
        ("trips", "named by the source" if plan.trip_rule is None else "found by the trip rule"),
        ("kept", kept + scaled),
        ("number", "bought" if setting.trips is None else f"{setting.trips:,}, as declared"),
        ("given", f"{setting.given.count:,} rectangles"),
        ("source", ", ".join(sorted(prepared.source.columns))),
        ("out", plan.out),
        ("owner", plan.owner),
    ]


def _obstacles(prepared: PreparedHistogram, population: Population | None) -> list[str]:
    from shoal.privacy.ledger.amounts import cost_nano, show_nano

    plan = prepared.plan
    found = []
    if population is None:
        found.append(f'there is no population "{plan.population}"; `shoal ledger create` makes one.')
    elif plan.seed is None:
        cost = cost_nano(prepared.mechanism.loss(), population.currency)
        if cost > population.left_nano:
            left = f"{population.currency} = {show_nano(population.left_nano)}"
            found.append(f"it needs {population.currency} = {show_nano(cost)}; {left} is left.")
    if plan.seed is None and Path(plan.out).exists():
        found.append(f"{plan.out} is there already; choose another --out.")
    return found


def print_result(prepared: PreparedHistogram, result: HistogramResult, ledger: Ledger, as_json: bool) -> None:
    """Where things are, what was promised, what was spent and what is left."""
    population = ledger.state().population(prepared.plan.population)
    if as_json:
        shown = {
            "release": str(result.release),
            "report": str(result.report),
            "reused": result.reused,
            "publishable": result.publishable,
            "notes": prepared.notes(),
            "unit": prepared.unit_sentence,
            "guarantee": prepared.guarantee.to_manifest(),
            "budget_left_nano": population.left_nano,
            "budget_currency": population.currency,
        }
        click.echo(json.dumps(shown, indent=2))
        return
    if result.reused:
        click.echo("This run was released before: here it is again, and nothing was spent.")
        if result.release != Path(prepared.plan.out).resolve():
            click.echo(
                f"{prepared.plan.out} was not written; --run-id NAME makes another release, and spends."
            )
    click.echo(f"release  {near(result.release)}")
    click.echo(f"report   {near(result.report)}   (owner's eyes only: it shows raw figures)")
    if not result.publishable:
        click.echo("Seeded: repeatable, so it protects nobody and is not for publication. Nothing was spent.")
        return
    if result.rows is not None:
        click.echo(f"rows     {result.rows:,} read, {result.bad_rows:,} dropped as bad   (owner's eyes only)")
    click.echo(f"budget   {_spent(prepared, population, result.reused)}")
    click.echo(f"{prepared.unit_sentence}\n{prepared.guarantee.sentence}")
    click.echo(f"Ask it:  shoal histogram query {near(result.release)} --box WEST,SOUTH,EAST,NORTH   (free)")


def _spent(prepared: PreparedHistogram, population: Population, reused: bool) -> str:
    from shoal.privacy.ledger.amounts import cost_nano, show_nano

    cost = cost_nano(prepared.mechanism.loss(), population.currency)
    left, limit = show_nano(population.left_nano), show_nano(population.limit_nano)
    spent = "nothing" if reused else f"{population.currency} = {show_nano(cost)}"
    return f'{spent} spent; "{population.name}" has {population.currency} = {left} left of {limit}'
