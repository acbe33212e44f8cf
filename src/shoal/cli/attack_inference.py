"""`shoal attack inference`: where people are, from prior knowledge and published counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shoal.cli.options import MAP_OPTIONS, as_settings, names, numbers, with_options
from shoal.cli.progress import Bars
from shoal.cli.source_options import source_options
from shoal.events.schema import SourcePlan

EXAMPLE = """\b
Examples:
  shoal simulate town --users 5000 --weeks 3 --out town
  shoal attack inference --plan town/density.toml
  shoal attack inference --plan town/density.toml --defence best,gaussian --epsilon 0.1,1
  shoal attack inference --plan town/density.toml --split 2026-03-16 --release release
"""
PRIOR_NAMES = "freq_roi, roi_day, roi_day_week, time_day, time_day_week, last_hour, last_day, last_week"


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan of a density; flags win over it.")
@source_options(required=False)
@with_options(MAP_OPTIONS)
@click.option(
    "--split",
    help="Local time at which observed time ends and inferred time begins.  [default: a week before the end]",
)
@click.option(
    "--prior",
    "priors",
    multiple=True,
    callback=names,
    metavar="NAME,...",
    help=f"What the adversary knows: {PRIOR_NAMES}; or all.  [default: freq_roi, roi_day_week, last_week]",
)
@click.option(
    "--inference",
    "inferences",
    multiple=True,
    callback=names,
    metavar="NAME,...",
    help="What the adversary does: prior, aggregates, bayes, max_roi, max_user.  [default: all]",
)
@click.option(
    "--defence",
    "defences",
    multiple=True,
    callback=names,
    metavar="NAME,...",
    help="Density methods to protect the counts with, such as best, fpa, scm-event, spotme.",
)
@click.option(
    "--epsilon",
    "epsilons",
    default="0.1,1",
    callback=numbers,
    metavar="NUMBER,...",
    show_default=True,
    help="What the defences are set at.",
)
@click.option("--delta", type=float, help="Delta of defences that have one.  [default: 1e-6]")
@click.option("--release", type=click.Path(path_type=Path), help="Attack this release of the inferred time.")
@click.option("--seed", type=click.IntRange(min=0), help="Of the noise of defences, for tests.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="owner/attack",
    show_default=True,
    help="The owner's folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inference(plan: str | None, source_options: SourcePlan, **flags: Any) -> None:
    """Infer where each person is from what is known of them and from counts, raw and protected.

    The adversary has observed everybody for a while (a prior), then sees counts of the time after. The report
    tells how wrong the adversary is about each person without the counts, with the raw ones, and with
    protected ones. It is computed from raw events: for the owner's eyes only. Nothing is spent.
    """
    from shoal.attacks.models.infer import INFERENCES
    from shoal.attacks.models.priors import PRIORS
    from shoal.attacks.runs.inference import InferencePlan, attack_inference, result_rows
    from shoal.attacks.runs.report import summary, write_inference
    from shoal.attacks.runs.source import note_look
    from shoal.kinds.plan import DEFAULT_DELTA, merge, read_plan

    own = {name: flags.pop(name) for name in ("split", "priors", "inferences", "defences", "epsilons")}
    out, as_json, release, seed = (flags.pop(name) for name in ("out", "as_json", "release", "seed"))
    delta = flags.pop("delta")
    settings = merge(read_plan(plan) if plan else {}, as_settings(source_options, flags))
    asked = InferencePlan(
        split=own["split"],
        priors=PRIORS if "all" in own["priors"] else own["priors"] or InferencePlan.priors,
        inferences=own["inferences"] or INFERENCES,
        defences=own["defences"],
        epsilons=own["epsilons"],
        delta=delta or DEFAULT_DELTA,
        release=release,
        seed=seed,
    )
    with Bars(quiet=as_json) as bars:
        note_look(settings, "inference", out)
        result = attack_inference(settings, asked, progress=bars)
        bars.stage("draw the page")
        title = f"Inference attack: {settings.get('population') or 'known people'}"
        paths = write_inference(out, result, title)
    rows = result_rows(result)
    if as_json:
        files = {name: str(path) for name, path in paths.items()}
        click.echo(json.dumps({"summary": summary(result), "rows": rows, "files": files}, indent=2))
        return
    _print(summary(result), rows, paths)


def _print(said: list[str], rows: list[dict[str, Any]], paths: dict[str, Path]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from shoal.kinds.owner import near

    console = Console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("knows", "does", "counts"):
        table.add_column(heading, no_wrap=True)
    for heading in ("prof.", "loss", "gain", "seen", "loc.", "loss", "gain"):
        table.add_column(heading, justify="right")
    found: dict[tuple, dict[str, dict[str, Any]]] = {}
    for row in rows:
        key = (row["prior"], row["inference"], row["defence"], row["set_at"])
        found.setdefault(key, {})[row["measure"]] = row
    strongest = _strongest(found)
    for (prior, how, defence, epsilon), of in found.items():
        if defence is not None and strongest.get(prior) != how:
            continue  # the page has all of them
        names = ("error", "privacy_loss", "privacy_gain")
        figures = [_figure(of["divergence"][name]) for name in names]
        figures += [_figure(of["seen"]["error"]), *(_figure(of["all"][name]) for name in names)]
        counts = (defence or "raw") + ("" if epsilon is None else f" {epsilon:g}")
        table.add_row(prior or "nothing", how, counts, *figures)
    console.print(table)
    console.print(
        "prof.: profiling, mean Jensen-Shannon divergence in bits; seen: in slots with a visit only; loc.: "
        "locating, 1 - F1, all places with a chance, and not being seen is a place. All from 0 (all known) "
        "to 1, means over people. loss: a person's share of the error that the counts take away. gain: of "
        "the room above the error with raw counts, the share that protection gives back; 0 where none. "
        "Of protected counts the table has the inference that gains most; the page has all.\n",
        style="dim",
        soft_wrap=True,
    )
    for line in said:
        console.print(escape(line), soft_wrap=True, highlight=False)
    console.print(
        f"\npage     {near(paths['html'])}   (owner's eyes only)\nfigures  {near(paths['json'])}\n"
        f"users    {near(paths['parquet'])}",
        soft_wrap=True,
        highlight=False,
    )


def _strongest(found: dict[tuple, dict[str, dict[str, Any]]]) -> dict[str, str]:
    """Of each prior the inference that the raw counts help most."""
    best: dict[str, tuple[float, str]] = {}
    for (prior, how, defence, _), of in found.items():
        loss = of["all"]["privacy_loss"]
        if defence is None and prior and how != "prior" and loss is not None:
            best[prior] = max(best.get(prior, (-1.0, "")), (loss, how))
    return {prior: how for prior, (_, how) in best.items()}


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
