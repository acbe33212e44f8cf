"""What helps to choose a density, and sums of a published one.

`shoal density compare` shows the utility of several methods against epsilon, on a simulated city by default,
`shoal density year` what each of many releases about the same people may spend.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.main import JSON, click_options, settings_from_flags, with_options
from shoal.cli.printing import Bars, draw_table, print_table
from shoal.cli.run import THREADS, WHEN, plan_options, run_settings
from shoal.kinds.density.plan import ComparePlan, DensityPlan
from shoal.kinds.density.year import YearPlan
from shoal.kinds.describe import Table, near

if TYPE_CHECKING:
    from shoal.privacy.ledger import Population

COMPARE_EXAMPLE = """\b
Examples:
  shoal density compare --city town --users 20000
  shoal density compare --plan density.toml --users 200000 --out comparison
  shoal density compare --city rough --method efpag,gaussian,threshold --epsilon 0.1,1
  shoal density compare --plan density.toml --on-private-data
"""
CITIES = ("town", "paris", "rough")


@click.command(epilog=COMPARE_EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of a density; flags win over it.")
@with_options(click_options(ComparePlan, without=("seed",)))
@click.option(
    "--city", type=click.Choice(CITIES), help="Simulated city.  [default: town, or paris on your zones]"
)
@with_options(plan_options(DensityPlan, ("ell", "cap", "nights", "users", "space", "window")))
@with_options(click_options(ComparePlan, only=("seed",)))
@click.option(
    "--on-private-data", is_flag=True, help="Compare on your own events: not private; the ledger records it."
)
@click.option("--population", help="With --on-private-data: population of these events.")
@click.option("--owner", help="With --on-private-data: folder of the figures.  [default: owner]")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of a simulated comparison.  [default: comparison]"
)
@THREADS
@JSON
def compare(plan: str | None, **flags: Any) -> None:
    """Run several methods at several epsilons and show their error against the true counts.

    By default the comparison uses a simulated city of the declared size, on your zones, sites and window if
    they are given: it reads no private data and spends nothing. With --on-private-data it reads your events.
    The figures are then for the owner alone, and a choice based on them is not covered by the guarantee.
    """
    from shoal.engine.engine import DuckEngine
    from shoal.kinds.density.compare import compare as compare_methods
    from shoal.kinds.density.compare_report import comparison_json, write_comparison

    own = {name: flags.pop(name) for name in ("city", "out")}
    as_json, threads, private = (flags.pop(name) for name in ("as_json", "threads", "on_private_data"))
    chosen = settings_from_flags(ComparePlan, flags)
    settings = run_settings(DensityPlan, plan, flags)
    own["seed"] = chosen.get("seed", None if private else 1)
    delta = {"delta": settings["delta"]} if settings.get("delta") else {}
    comparison = ComparePlan.from_settings({**delta, **chosen, "seed": own["seed"]})
    comparison = replace(comparison, options=_options(settings))
    with Bars(quiet=as_json) as bars:
        make = _private if private else _simulated
        world, folder = make(settings, own, DuckEngine(threads=threads), bars)
        outcomes = compare_methods(world.counting, comparison, bars)
        bars.stage("draw the page")
        page, figures = write_comparison(folder, world, comparison, outcomes)
    print_comparison(comparison_json(world, comparison, outcomes), page, figures, as_json)


def _options(settings: dict[str, Any]):
    """What the plan and the flags declare about methods."""
    from dataclasses import fields

    from shoal.kinds.density.plan import MethodOptions

    names = [each.name for each in fields(MethodOptions)]
    return MethodOptions(**{name: settings[name] for name in names if settings.get(name) is not None})


def _simulated(settings: dict[str, Any], own: dict[str, Any], engine, bars):
    from shoal.kinds.density.compare import simulated_world

    world = simulated_world(
        settings,
        city=own["city"],
        users=settings.get("users"),
        seed=own["seed"],
        engine=engine,
        progress=bars,
    )
    return world, own["out"] or Path("comparison")


def _private(settings: dict[str, Any], own: dict[str, Any], engine, bars):
    from shoal.errors import PlanError
    from shoal.kinds.density.compare import private_world
    from shoal.kinds.density.prepare import prepare_density
    from shoal.kinds.owner import open_owner_folder
    from shoal.privacy.ledger import open_ledger

    if own["out"] is not None or own["city"] is not None:
        raise PlanError(
            "compare-private",
            "a comparison on private data goes to the owner's folder and uses no simulated city.",
            "Leave --out and --city out; --owner names the folder.",
        )
    settings = {**settings, "method": "gaussian", "epsilon": 1.0, "rho": None}
    prepared = prepare_density(DensityPlan.from_settings(settings))
    folder = open_owner_folder(Path(prepared.plan.owner))
    where = str(folder / "compare.html")
    return private_world(prepared, open_ledger(), where, engine=engine, progress=bars), folder


def print_comparison(summary: dict[str, Any], page: Path, figures: Path, as_json: bool) -> None:
    """One table, one line of words per method, where the page is."""
    if as_json:
        click.echo(json.dumps({**summary, "page": str(page), "figures": str(figures)}, indent=2))
        return
    from shoal.kinds.density.compare_report import CHANCE

    for warning in summary["warnings"]:
        click.echo(f"{click.style('Not private:', fg='red')} {warning}\n")
    click.secho(summary["what"], bold=True)
    for words in summary["assumptions"]:
        click.secho(words, dim=True)
    print_table(_table(summary))
    if min(row["repetitions"] for row in summary["means"]) == 1:
        click.echo(f"{CHANCE}\n")
    print_table(_methods(summary))
    eyes = (
        "owner's eyes only" if summary["on_private_data"] else "simulated: nothing private was read or spent"
    )
    click.echo(f"page     {near(page)}   ({eyes})\nfigures  {near(figures)}")


FIGURES = (
    "MRE: mean relative error, in % of the true count. corr.: correlation over the slots of a zone. EMD: how "
    "far the average person is moved on the map. bias: of the total, in % of it. off by: people per zone and "
    "slot. covered: true counts in their 95 % interval."
)
HEADINGS = ("MRE", "corr.", "EMD m", "bias", "off by", "covered")
FORMS = {
    "mre": ",.1%",
    "pc": ".3f",
    "emd_m": ",.0f",
    "bias": "+.1%",
    "mae": ",.1f",
    "coverage": ".1%",
}


def _table(summary: dict[str, Any]) -> Table:
    """Releases by epsilon, then what is there for comparison only, without an epsilon."""
    sections: dict[Any, list[dict[str, Any]]] = {}
    order = [method["name"] for method in summary["methods"]]
    for row in sorted(summary["means"], key=lambda row: (row["set_at"], order.index(row["method"]))):
        sections.setdefault(row["epsilon"], []).append(row)
    sections[None] = _once(sections.pop(None, []), summary)
    header = ("epsilon", "method", *HEADINGS)
    rows: list[tuple[str, ...]] = []
    marks: dict[int, str] = {}
    for epsilon, listed in sections.items():
        for row in listed:
            if epsilon is None:
                marks[len(rows)] = "dim"
            figures = (_number(row[name], form) for name, form in FORMS.items())
            rows.append(("none" if epsilon is None else f"{epsilon:g}", row["method"], *figures))
        rows.append(("",) * len(header))
    return Table(header=header, rows=rows, right=(0, *range(2, len(header))), marks=marks, below=FIGURES)


def _once(rows: list[dict[str, Any]], summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Comparators by name; one row where the noise does not follow from an epsilon."""
    free = {method["name"] for method in summary["methods"] if not method["set_by_epsilon"]}
    by_label: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = row["method"]
        label = name if name in free else f"{name} ({row['set_at']:g})"
        by_label.setdefault(label, {**row, "method": label})
    return sorted(by_label.values(), key=lambda row: row["method"])


def _methods(summary: dict[str, Any]) -> Table:
    rows = []
    for method in summary["methods"]:
        words = f"{method['words']}."
        if method["kind"] != "release":
            if method["set_by_epsilon"]:
                words += " In brackets: what its authors call epsilon."
            words += f" For comparison only. {method['guarantee']}"
        rows.append((method["name"], words))
    return Table(header=(), rows=rows)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


YEAR_EXAMPLE = """\b
Examples:
  shoal density year --epsilon 4 --delta 1e-6
  shoal density year --population town --releases 12 --weeks-each 4
  shoal density year --plan town/density.toml --epsilon 2 --start 2026-03-02 --write weeks
"""
NOISE = (
    "noise: of Gaussian counts, against equal shares. The second row is what adding up epsilons allows; the "
    "third is a promise for each release alone.\n"
)


@click.command(epilog=YEAR_EXAMPLE)
@click.option("--plan", type=click.Path(), help="The plan of one release: its population, map and source.")
@click.option("--population", help="Population; without --epsilon and --rho, all that its budget has left.")
@with_options(click_options(YearPlan, only=("releases",)))
@click.option(
    "--weeks-each", type=click.IntRange(min=1), default=1, show_default=True, help="Weeks per release."
)
@with_options(click_options(YearPlan, without=("releases",)))
@click.option("--start", type=click.DateTime(["%Y-%m-%d"]), help="First day of the first window.")
@click.option(
    "--write", type=click.Path(path_type=Path), help="Folder for one plan per release; needs --plan, --start."
)
@JSON
def year(plan: str | None, write: Path | None, as_json: bool, start, **flags: Any) -> None:
    """Share a budget over many releases about the same people, such as the weeks of a year.

    Each release gets the same share of rho, which adds up, so all of them together stay within epsilon and
    delta. Release with the share as it is printed: shoal density run --rho ... Nothing is spent here.
    """
    from shoal.kinds.density.year import windows, write_week_plans
    from shoal.kinds.plan import read_plan
    from shoal.privacy.ledger import open_ledger

    base = read_plan(plan) if plan else {}
    name = flags["population"] or base.get("population")
    population = open_ledger().state().find(name) if name else None
    shares = _year(settings_from_flags(YearPlan, flags), population)
    weeks = windows(start.date(), shares.releases, flags["weeks_each"]) if start else []
    paths = write_week_plans(write, _settings(base, shares, weeks)) if write else []
    if as_json:
        summary = {**shares.as_json(population), "windows": weeks, "plans": [str(path) for path in paths]}
        click.echo(json.dumps(summary, indent=2))
        return
    _print(shares, name, population, flags["weeks_each"])
    _print_commands(shares, plan, weeks, paths)


def _year(chosen: dict[str, Any], population: Population | None) -> YearPlan:
    from shoal.errors import PlanError
    from shoal.kinds.density.year import rho_pot
    from shoal.privacy.accounting import NANO, PURE

    if population is None:
        return YearPlan.from_settings(chosen)
    pot = rho_pot(population)
    if pot.law == PURE:
        raise PlanError(
            "year-currency",
            f'"{population.name}" is counted in pure epsilon, where each of n releases gets epsilon / n.',
            "Pass that as --epsilon to `shoal density run --method laplace`.",
        )
    if not {"epsilon", "rho"} & chosen.keys():
        if pot.left_nano == 0:
            raise PlanError(
                "year-budget", f'"{population.name}" has nothing left.', "Name another population."
            )
        chosen["rho"] = pot.left_nano / NANO
    delta = {} if pot.delta is None else {"delta": pot.delta}
    return replace(YearPlan.from_settings({**delta, **chosen}), law=pot.law)


def _settings(base: dict[str, Any], shares: YearPlan, weeks: list[tuple[str, str]]) -> list[dict[str, Any]]:
    from shoal.errors import PlanError
    from shoal.kinds.density.year import week_settings

    if not base or not weeks:
        raise PlanError(
            "year-write",
            "to write plans, a plan of one release and the first day are needed.",
            "Pass --plan FILE and --start DAY with --write.",
        )
    return [
        week_settings(base, rho_nano=shares.share_nano, delta=shares.delta, window=window) for window in weeks
    ]


def _print(shares: YearPlan, name: str | None, population: Population | None, weeks_each: int) -> None:
    from shoal.privacy.accounting import show_nano

    each = "a week" if weeks_each == 1 else f"{weeks_each} weeks"
    whole = (
        f"rho = {show_nano(shares.whole_nano)}, epsilon = {shares.epsilon_year:g} at delta = {shares.delta:g}"
    )
    click.secho(f"{shares.releases} releases of {each} within {whole}", bold=True)
    share = show_nano(shares.share_nano)
    click.echo(f"each may spend  --rho {share}   (epsilon = {shares.epsilon_each:.4g} at the same delta)\n")
    ways = shares.ways()
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
        _print_ledger(shares, population)
    elif name:
        click.echo(f'The ledger has no population "{name}" yet: shoal ledger create {name} ...')


def _print_ledger(shares: YearPlan, population: Population) -> None:
    from shoal.kinds.density.year import rho_pot

    remaining = shares.in_ledger(population)
    click.secho(
        f'"{population.name}": {rho_pot(population).line}; enough for '
        f"{remaining['releases_left']:,} such releases"
        + ("." if remaining["fits"] else ", which is not all of them."),
        fg=None if remaining["fits"] else "red",
    )


def _print_commands(
    shares: YearPlan, plan: str | None, weeks: list[tuple[str, str]], paths: list[Path]
) -> None:
    from shoal.privacy.accounting import show_nano

    if paths:
        click.echo(f"{len(paths)} plans: {paths[0]} to {paths[-1]}\n  shoal density run --plan {paths[0]}")
        return
    rho, named = show_nano(shares.share_nano), f"--plan {plan or 'PLAN'}"
    shown = weeks[:2] or [("DAY", "DAY")]
    for start, end in shown:
        click.echo(
            f"  shoal density run {named} --rho {rho} --delta {shares.delta:g} --start {start} --end {end} "
            f"--out release-{start}"
        )
    if len(weeks) > len(shown):
        click.echo(f"  ... and so on, {len(weeks)} in all; --write FOLDER writes a plan for each")


@click.command(
    epilog="""\b
Examples:
  shoal density total release --zones Z0001,Z0002 --from 2026-03-02T07:00 --to 2026-03-02T10:00
  shoal density total release --bbox 4.9,47.2,5.1,47.4 --json
"""
)
@click.argument("release", type=click.Path(path_type=Path))
@click.option("--zones", metavar="ID,...", help="Zones of the sum.  [default: all]")
@with_options(WHEN)
@JSON
def total(
    release: Path,
    zones: str | None,
    bbox: tuple[float, float, float, float] | None,
    first: str | None,
    last: str | None,
    slots: str | None,
    as_json: bool,
) -> None:
    """People in zones and slots of a published density, added up, with a 95 % interval.

    A person observed at several places or in several slots is counted at each of them. The sum is computed
    from the published files of RELEASE alone and costs no budget.
    """
    from shoal.kinds.ask import parse_slots
    from shoal.kinds.density.totals import read_density

    density = read_density(release)
    named = None if zones is None else [part.strip() for part in zones.split(",") if part.strip()]
    chosen = None if slots is None else parse_slots(slots)
    people = density.total(named, chosen, bbox=bbox, start=first, end=last)
    if as_json:
        click.echo(json.dumps(asdict(people), indent=2))
        return
    ends = (f"{end:,.{density.decimals}f}" for end in (people.low, people.high))
    click.echo(f"{people.people:,.{density.decimals}f} visits   (95 % interval {' to '.join(ends)})")
    click.echo("Visits are people per zone and slot, added up: one person counts in each of them.")
