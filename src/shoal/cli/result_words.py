"""What a run that spends says at its end: where things are, what was spent, what is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from shoal.privacy.ledger import Population


def result_json(prepared: Any, result: Any, population: Population, **more: str) -> dict[str, Any]:
    """The same for programs."""
    return {
        "release": str(result.release),
        "report": None if result.report is None else str(result.report),
        "reused": result.reused,
        "source_changed": result.source_changed,
        "publishable": result.publishable,
        "notes": prepared.notes(),
        **more,
        "guarantee": prepared.guarantee.to_manifest(),
        "budget_left_nano": population.left_nano,
        "budget_currency": population.currency,
    }


def print_made(prepared: Any, result: Any, population: Population, unit_sentence: str) -> None:
    """Release, report, rows, budget, promise; of a seeded run that it is none."""
    if result.reused:
        click.echo("This run was released before: here it is again, and nothing was spent.")
        if result.release != Path(prepared.plan.out).resolve():
            click.echo(
                f"{prepared.plan.out} was not written; --run-id NAME makes another release, and spends."
            )
    print_changed(result)
    click.echo(f"release  {near(result.release)}")
    if result.report is not None:
        click.echo(f"report   {near(result.report)}   (owner's eyes only: it shows raw figures)")
    if not result.publishable:
        click.echo(
            "Seeded: repeatable, so it protects nobody and is not for publication. Nothing was spent; "
            "--out was not used. The ledger records it, and later manifests of this population say so."
        )
        return
    if result.rows is not None:
        click.echo(f"rows     {result.rows:,} read, {result.bad_rows:,} dropped as bad   (owner's eyes only)")
    click.echo(f"budget   {spent(prepared, population, result.reused)}")
    click.echo(f"{unit_sentence}\n{prepared.guarantee.sentence}")


def print_changed(result: Any) -> None:
    """For the owner alone; whether a run is free must not depend on the data, so the release stands."""
    if result.source_changed:
        from shoal.release.manifest import MANIFEST
        from shoal.release.verify import sha256_file

        folder = getattr(result, "release", None) or result.folder
        click.echo(
            "The files changed since this release was made (for your eyes only). It is returned as it is, "
            "and no report is drawn anew. For a new release of the new files, which spends, add: "
            f"--run-id NAME --out FOLDER --supersedes {sha256_file(folder / MANIFEST)}"
        )


def near(path: Path) -> str:
    """Relative to here where that is shorter to read."""
    shown = os.path.relpath(path)
    return shown if not shown.startswith("..") else str(path)


def spent(prepared: Any, population: Population, reused: bool) -> str:
    from shoal.privacy.ledger.names import cost_nano, show_nano

    cost = cost_nano(prepared.mechanism.loss(), population.currency)
    left, limit = show_nano(population.left_nano), show_nano(population.limit_nano)
    amount = "nothing" if reused else f"{population.currency} = {show_nano(cost)}"
    has = f'"{population.name}" has {population.currency} = {left} left of {limit}'
    return ". ".join([f"{amount} spent; {has}", *filter(None, [population.mixture])])
