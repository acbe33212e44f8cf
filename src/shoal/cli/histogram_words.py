"""What `shoal histogram run` prints: the plan and its price, or where things are."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.result_words import near, print_made, result_json

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
        click.echo(
            json.dumps(result_json(prepared, result, population, unit=prepared.unit_sentence), indent=2)
        )
        return
    print_made(prepared, result, population, prepared.unit_sentence)
    if result.publishable:
        click.echo(
            f"Ask it:  shoal histogram query {near(result.release)} --box WEST,SOUTH,EAST,NORTH   (free)"
        )
