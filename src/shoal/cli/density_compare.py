"""`shoal density compare`: utility of several methods against epsilon, on a simulated city by default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shoal.cli.options import JSON, THREADS, names, numbers, with_options
from shoal.cli.printing import Bars, print_table
from shoal.cli.run import plan_options, run_settings
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.describe import Table, near
from shoal.privacy.accounting import check_delta

EXAMPLE = """\b
Examples:
  shoal density compare --city town --users 20000
  shoal density compare --plan density.toml --users 200000 --out comparison
  shoal density compare --city rough --method efpag,gaussian,threshold --epsilon 0.1,1
  shoal density compare --plan density.toml --on-private-data
"""
CITIES = ("town", "paris", "rough")


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of a density; flags win over it.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    callback=names,
    metavar="NAME,...",
    help="Methods, repeatable.  [default: best, efpag, gaussian, laplace, if installed]",
)
@click.option(
    "--epsilon",
    "epsilons",
    default="0.1,0.3,1",
    callback=numbers,
    metavar="NUMBER,...",
    show_default=True,
    help="Values of epsilon.",
)
@click.option("--delta", type=float, help="Delta of methods that have one.  [default: 1e-6]")
@click.option("--repetitions", type=int, default=3, show_default=True, help="Runs per method and epsilon.")
@click.option(
    "--city", type=click.Choice(CITIES), help="Simulated city.  [default: town, or paris on your zones]"
)
@with_options(plan_options(DensityPlan, ("ell", "cap", "nights", "users", "space", "window")))
@click.option(
    "--seed", type=click.IntRange(min=0), help="Seed of the simulated city and the noise.  [default: 1]"
)
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
    from shoal.kinds.density.compare import ComparePlan
    from shoal.kinds.density.compare import compare as compare_methods
    from shoal.kinds.density.compare_report import comparison_json, write_comparison
    from shoal.kinds.plan import DEFAULT_DELTA

    own = {name: flags.pop(name) for name in ("methods", "epsilons", "repetitions", "city", "seed", "out")}
    as_json, threads, private = (flags.pop(name) for name in ("as_json", "threads", "on_private_data"))
    settings = run_settings(DensityPlan, plan, flags)
    asked = ComparePlan(
        methods=own["methods"],
        epsilons=own["epsilons"],
        delta=check_delta(settings.get("delta") or DEFAULT_DELTA),
        repetitions=own["repetitions"],
        seed=own["seed"] if private else _seed(own),
        options=_options(settings),
    )
    with Bars(quiet=as_json) as bars:
        make = _private if private else _simulated
        world, folder = make(settings, own, DuckEngine(threads=threads), bars)
        found = compare_methods(world.counting, asked, bars)
        bars.stage("draw the page")
        page, figures = write_comparison(folder, world, asked, found)
    print_comparison(comparison_json(world, asked, found), page, figures, as_json)


def _seed(own: dict[str, Any]) -> int:
    return 1 if own["seed"] is None else own["seed"]


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
        seed=_seed(own),
        engine=engine,
        progress=bars,
    )
    return world, own["out"] or Path("comparison")


def _private(settings: dict[str, Any], own: dict[str, Any], engine, bars):
    from shoal.errors import PlanError
    from shoal.kinds.density.compare import private_world
    from shoal.kinds.density.prepare import prepare_density
    from shoal.kinds.run import open_owner_folder
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


def print_comparison(told: dict[str, Any], page: Path, figures: Path, as_json: bool) -> None:
    """One table, one line of words per method, where the page is."""
    if as_json:
        click.echo(json.dumps({**told, "page": str(page), "figures": str(figures)}, indent=2))
        return
    from shoal.kinds.density.compare_report import CHANCE

    for warning in told["warnings"]:
        click.echo(f"{click.style('Not private:', fg='red')} {warning}\n")
    click.secho(told["what"], bold=True)
    for words in told["assumptions"]:
        click.secho(words, dim=True)
    print_table(_table(told))
    if min(row["repetitions"] for row in told["means"]) == 1:
        click.echo(f"{CHANCE}\n")
    print_table(_methods(told))
    eyes = "owner's eyes only" if told["on_private_data"] else "simulated: nothing private was read or spent"
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


def _table(told: dict[str, Any]) -> Table:
    """Releases by epsilon, then what is there for comparison only, without an epsilon."""
    sections: dict[Any, list[dict[str, Any]]] = {}
    order = [method["name"] for method in told["methods"]]
    for row in sorted(told["means"], key=lambda row: (row["set_at"], order.index(row["method"]))):
        sections.setdefault(row["epsilon"], []).append(row)
    sections[None] = _once(sections.pop(None, []), told)
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


def _once(rows: list[dict[str, Any]], told: dict[str, Any]) -> list[dict[str, Any]]:
    """Comparators by name; one row where the noise does not follow from an epsilon."""
    free = {method["name"] for method in told["methods"] if not method["set_by_epsilon"]}
    kept: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = row["method"]
        label = name if name in free else f"{name} ({row['set_at']:g})"
        kept.setdefault(label, {**row, "method": label})
    return sorted(kept.values(), key=lambda row: row["method"])


def _methods(told: dict[str, Any]) -> Table:
    rows = []
    for method in told["methods"]:
        words = f"{method['words']}."
        if method["kind"] != "release":
            if method["set_by_epsilon"]:
                words += " In brackets: what its authors call epsilon."
            words += f" For comparison only. {method['guarantee']}"
        rows.append((method["name"], words))
    return Table(header=(), rows=rows)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
