"""`shoal trajectories compare`: other ways to hide records, with the same metrics and attacks."""

from __future__ import annotations

import json
from typing import Any

import click

from shoal.cli.options import JSON, click_options, out_option, with_options
from shoal.cli.printing import Bars
from shoal.cli.run import plan_options, run_settings
from shoal.kinds.trajectories.methods import TrajectoryComparison
from shoal.kinds.trajectories.plan import TrajectoryPlan

EXAMPLE = """\b
Examples:
  shoal trajectories compare --plan trajectories.toml
  shoal trajectories compare samples/ --start 2026-03-02 --end 2026-03-09 --time-zone Africa/Abidjan \\
      --origin -4.4,5.1 --methods raw,grid-k,km2,kte --k 2 --users 3000
"""
CHOSEN = ("methods", "users", "seed")
SHARED = ("space", "window", "step_minutes", "k", "tau_minutes", "epoch_minutes")


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of a trajectory release; flags win over it.")
@with_options(plan_options(TrajectoryPlan, SHARED))
@click.option("--population", help="Population of these records; its ledger records the comparison.")
@with_options(click_options(TrajectoryComparison, only=CHOSEN))
@out_option("owner/trajectories", "Owner's folder.")
@JSON
def compare(plan: str | None, **flags: Any) -> None:
    """Anonymise a sample of the people by several methods, and compare loss of data and success of attacks.

    The figures are computed from raw records, so they are for the owner alone. Nothing is released or spent.
    """
    from shoal.kinds.trajectories.compare import compare_source

    chosen = {name: value for name in CHOSEN if (value := flags.pop(name)) is not None}
    out, as_json = flags.pop("out"), flags.pop("as_json")
    settings = run_settings(TrajectoryPlan, plan, flags)
    with Bars(quiet=as_json) as bars:
        result, path = compare_source(settings, out, progress=bars, **chosen)
    if as_json:
        click.echo(json.dumps({**result, "file": str(path)}, indent=2))
        return
    print_comparison(result)
    click.echo(f"\nfigures  {path}   (owner's eyes only)")


def print_comparison(result: dict[str, Any]) -> None:
    """What each method promises, what it costs, what the attacks find."""
    from shoal.attacks.runs.findings import Column, table_of
    from shoal.cli.printing import print_table

    rows = [_figures(row) for row in result["rows"] if "refused" not in row]
    click.echo(
        f"{result['users']:,} of {result['of_users']:,} people, {result['samples']:,} samples; "
        f"k = {result['k']}, tau = {result['tau_minutes']} min"
    )
    legends = COST_LEGEND, ATTACK_LEGEND.format(k=result["k"], tau=result["tau_minutes"])
    for columns, legend in zip((COST, ATTACKS), legends, strict=True):
        shown = [
            Column("method", "method"),
            *(Column(name, name, form, "-") for name, form in columns.items()),
        ]
        print_table(table_of(shown, rows, below=legend))
    for row in result["rows"]:
        truthful = "" if row["truthful"] else " Not truthful."
        click.echo(f"{row['method']}  {row['words']}. Promise: {row['promise']}.{truthful}")
        if "refused" in row:
            click.echo(f"  refused {row['refused']}")


# heading -> format of the number; text stands right, too
COST = {
    "kept": ">",
    "suppressed": ".1%",
    "km": ">",
    "minutes": ">",
    "density off": ".1%",
    "seconds": ".1f",
}
ATTACKS = {
    **dict.fromkeys(("1", "2", "3", "4", "4 at 1 km"), ".1%"),
    "below k": ".2%",
    "learned": ".1%",
    "by chance": ".1%",
}
COST_LEGEND = (
    "kept: the promise, counted anew on the boxes. suppressed: samples in no box of their own record. km, "
    "minutes: quartiles of Dx + Dy and Dt of the others' boxes. density off: share of people in the wrong "
    "square of the map, hour by hour."
)
ATTACK_LEGEND = (
    "1 to 4: people linked to their record by so many of their samples, exactly known; 4 at 1 km: known to "
    "1 km and 1 hour. below k: windows of {tau} min, of all, that fewer than {k} records fit. learned: of a "
    "person's other samples, those held by the record that fits such a window best; by chance: by a record "
    "picked blindly."
)


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the comparison under the headings of both tables."""
    broken, points = row["broken"], row["unicity"]
    return {
        "method": row["method"],
        "kept": None if broken is None else "yes" if broken == 0 else f"no: {broken:,}",
        "suppressed": row["suppressed"],
        "km": _quartiles(row["space_m"], 1000, ".1f"),
        "minutes": _quartiles(row["time_min"], 1, ".0f"),
        "density off": row["density"]["total_variation"],
        "seconds": row["seconds"],
        **{str(each["points"]): each["linked"] for each in points["exact"]},
        "4 at 1 km": points["coarse"][-1]["linked"],
        "below k": row["below_k"],
        "learned": row["window"]["learned"],
        "by chance": row["window"]["by_chance"],
    }


def _quartiles(spread: dict[str, float | None], unit: float, form: str) -> str:
    values = [spread[name] for name in ("q1", "median", "q3")]
    return " / ".join("-" if value is None else format(value / unit, form) for value in values)
