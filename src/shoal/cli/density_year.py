"""`shoal density year`: what each of many releases about the same people may spend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.options import JSON

if TYPE_CHECKING:
    from shoal.kinds.density.year import YearPlan
    from shoal.privacy.ledger import Population

EXAMPLE = """\b
Examples:
  shoal density year --epsilon 4 --delta 1e-6
  shoal density year --population town --releases 12 --weeks-each 4
  shoal density year --plan town/density.toml --epsilon 2 --start 2026-03-02 --write weeks
"""
NOISE = (
    "noise: of Gaussian counts, against equal shares. The second row is what adding up epsilons allows; the "
    "third is a promise for each release alone.\n"
)


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="The plan of one release: its population, map and source.")
@click.option("--population", help="Population; without --epsilon and --rho, all that its budget has left.")
@click.option("--releases", type=int, default=52, show_default=True, help="Number of releases.")
@click.option(
    "--weeks-each", type=click.IntRange(min=1), default=1, show_default=True, help="Weeks per release."
)
@click.option("--epsilon", type=float, help="Epsilon of all releases together.")
@click.option(
    "--delta", type=float, help="Delta of all releases together.  [default: the population's, else 1e-6]"
)
@click.option("--rho", type=float, help="Rho of all releases together, instead of --epsilon.")
@click.option("--start", type=click.DateTime(["%Y-%m-%d"]), help="First day of the first window.")
@click.option(
    "--write", type=click.Path(path_type=Path), help="Folder for one plan per release; needs --plan, --start."
)
@JSON
def year(plan: str | None, write: Path | None, as_json: bool, start, **flags: Any) -> None:
    """Share a budget over many releases about the same people, such as the weeks of a year.

    Each release gets the same share of rho: costs add up in zCDP, so all of them together stay within epsilon
    and delta. Release with the share as it is printed: shoal density run --rho ... Nothing is spent here.
    """
    from shoal.kinds.density.year import windows, write_week_plans
    from shoal.kinds.plan import read_plan
    from shoal.privacy.ledger import open_ledger

    base = read_plan(plan) if plan else {}
    name = flags["population"] or base.get("population")
    population = open_ledger().state().find(name) if name else None
    made = _year(flags, name, population)
    weeks = windows(start.date(), made.releases, flags["weeks_each"]) if start else []
    paths = write_week_plans(write, _settings(base, made, weeks)) if write else []
    if as_json:
        told = {**made.as_json(population), "windows": weeks, "plans": [str(path) for path in paths]}
        click.echo(json.dumps(told, indent=2))
        return
    _print(made, name, population, flags["weeks_each"])
    _print_commands(made, plan, weeks, paths)


def _year(flags: dict[str, Any], name: str | None, population: Population | None) -> YearPlan:
    from shoal.errors import PlanError
    from shoal.kinds.density.year import YearPlan
    from shoal.privacy.accounting import NANO

    epsilon, rho = flags["epsilon"], flags["rho"]
    if population is not None and population.currency != "rho":
        raise PlanError(
            "year-currency",
            f'"{population.name}" is counted in pure epsilon, where each of n releases gets epsilon / n.',
            "Pass that as --epsilon to `shoal density run --method laplace`.",
        )
    if epsilon is None and rho is None and population is not None:
        if population.left_nano == 0:
            raise PlanError(
                "year-budget", f'"{population.name}" has nothing left.', "See `shoal ledger raise`."
            )
        rho = population.left_nano / NANO
    delta = flags["delta"]
    if delta is None:
        delta = float(population.delta) if population is not None and population.delta else 1e-6
    return YearPlan(releases=flags["releases"], epsilon=epsilon, rho=rho, delta=delta)


def _settings(base: dict[str, Any], made: YearPlan, weeks: list[tuple[str, str]]) -> list[dict[str, Any]]:
    from shoal.errors import PlanError
    from shoal.kinds.density.year import week_settings

    if not base or not weeks:
        raise PlanError(
            "year-write",
            "to write plans, a plan of one release and the first day are needed.",
            "Pass --plan FILE and --start DAY with --write.",
        )
    return [
        week_settings(base, rho_nano=made.share_nano, delta=made.delta, window=window) for window in weeks
    ]


def _print(made: YearPlan, name: str | None, population: Population | None, weeks_each: int) -> None:
    from shoal.cli.printing import draw_table
    from shoal.privacy.accounting import show_nano

    each = "a week" if weeks_each == 1 else f"{weeks_each} weeks"
    whole = f"rho = {show_nano(made.whole_nano)}, epsilon = {made.epsilon_year:g} at delta = {made.delta:g}"
    click.secho(f"{made.releases} releases of {each} within {whole}", bold=True)
    share = show_nano(made.share_nano)
    click.echo(f"each may spend  --rho {share}   (epsilon = {made.epsilon_each:.4g} at the same delta)\n")
    ways = made.ways()
    rows = [
        (
            way.name,
            f"{way.rho_each_nano / 1e9:.3g}",
            f"{way.epsilon_each:.4g}",
            f"x {way.noise:.3g}",
            f"epsilon {way.epsilon_year:.3g}",
        )
        for way in ways
    ]
    marks = {number: "red" for number, way in enumerate(ways) if not way.within}
    header = ("way", "rho each", "epsilon each", "noise", "all together")
    draw_table(header, rows, right=(1, 2, 3, 4), marks=marks, below=NOISE)
    if population is not None:
        _print_ledger(made, population)
    elif name:
        click.echo(f'The ledger has no population "{name}" yet: shoal ledger create {name} ...')


def _print_ledger(made: YearPlan, population: Population) -> None:
    from shoal.privacy.accounting import show_nano

    told = made.in_ledger(population)
    left, limit = show_nano(population.left_nano), show_nano(population.limit_nano)
    click.secho(
        f'"{population.name}" has rho = {left} left of {limit}: enough for '
        f"{told['releases_left']:,} such releases" + ("." if told["fits"] else ", which is not all of them."),
        fg=None if told["fits"] else "red",
    )


def _print_commands(
    made: YearPlan, plan: str | None, weeks: list[tuple[str, str]], paths: list[Path]
) -> None:
    from shoal.privacy.accounting import show_nano

    if paths:
        click.echo(f"{len(paths)} plans: {paths[0]} to {paths[-1]}\n  shoal density run --plan {paths[0]}")
        return
    rho, named = show_nano(made.share_nano), f"--plan {plan or 'PLAN'}"
    shown = weeks[:2] or [("DAY", "DAY")]
    for start, end in shown:
        click.echo(
            f"  shoal density run {named} --rho {rho} --delta {made.delta:g} --start {start} --end {end} "
            f"--out release-{start}"
        )
    if len(weeks) > len(shown):
        click.echo(f"  ... and so on, {len(weeks)} in all; --write FOLDER writes a plan for each")
