"""`shoal demo`: the whole way on a simulated city."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import click

from shoal.cli.progress import Bars


@click.command(epilog="Example:  shoal demo --out demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder of the demo.",
)
@click.option(
    "--users", type=click.IntRange(min=100), default=200_000, show_default=True, help="Number of people."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of the simulated city."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def demo(out: Path, users: int, seed: int, as_json: bool) -> None:
    """Simulate a city, release its density at (1, 1e-6), and draw the owner's report.

    Run it again: what is there already is used again, and nothing is spent twice.
    """
    if not as_json:
        click.echo(f"{users:,} simulated people: how many were where, hour by hour, goes to {out}/")
    from shoal.kinds.demo import run_demo
    from shoal.kinds.run import near

    with Bars(quiet=as_json) as bars:
        made = run_demo(out, users=users, seed=seed, progress=bars)
    guarantee = made.prepared.guarantee
    if as_json:
        shown = {
            "release": str(made.result.release),
            "report": str(made.report),
            "reused": made.result.reused,
            "guarantee": guarantee.to_manifest(),
            "utility": made.utility,
        }
        click.echo(json.dumps(shown, indent=2))
        return
    if made.result.reused:
        click.echo(
            "The demo was here already: nothing was computed or spent again. Delete the folder to start over."
        )
    shoal = "shoal" if shutil.which("shoal") else near(Path(sys.argv[0]))
    release, ledger = near(made.result.release), near(made.ledger)
    plan, again = near(made.city / "density.toml"), near(made.result.release.parent / "release-2")
    click.echo(
        f"""
release  {release}
         what a recipient gets; check it as one: {shoal} verify {release}
report   {near(made.report)}
         for the owner alone, with raw figures: open it in a browser
ledger   SHOAL_LEDGER={ledger} {shoal} ledger show {made.prepared.plan.population}
again    SHOAL_LEDGER={ledger} {shoal} density run --plan {plan} --epsilon 2 --out {again}

{guarantee.unit.sentence}
{guarantee.sentence}

Against the raw counts (owner's eyes only): mean relative error \
{_figure(made.utility["mean_relative_error"])}, correlation {_figure(made.utility["pearson"])}."""
    )


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
