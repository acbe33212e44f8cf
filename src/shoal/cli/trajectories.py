"""Trajectories beside their release: `shoal trajectories compare`, other ways to hide records, with the same
metrics and attacks; `shoal trajectories verify`, prove or refute the claim window by window.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.main import JSON, click_options, out_option, source_options, with_options
from shoal.cli.printing import Bars
from shoal.cli.run import plan_options, run_settings
from shoal.events.schema import SourcePlan
from shoal.kinds.trajectories.compare import TrajectoryComparison
from shoal.kinds.trajectories.plan import TrajectoryPlan
from shoal.space.plan import SitesPlan

if TYPE_CHECKING:
    from shoal.kinds.trajectories.verify import TrajectoryVerdict

COMPARE_EXAMPLE = """\b
Examples:
  shoal trajectories compare --plan trajectories.toml
  shoal trajectories compare samples/ --start 2026-03-02 --end 2026-03-09 --time-zone Africa/Abidjan \\
      --origin -4.4,5.1 --methods raw,grid-k,km2,kte --k 2 --users 3000
"""
CHOSEN = ("methods", "users", "seed")
SHARED = ("space", "window", "step_minutes", "k", "tau_minutes", "epoch_minutes")


@click.command(epilog=COMPARE_EXAMPLE)
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
    "at random": ".1%",
}
COST_LEGEND = (
    "kept: whether the promise holds, recomputed from the boxes. suppressed: samples in no box of their own "
    "record. km, minutes: quartiles of Dx + Dy and Dt of the other boxes. density off: share of people in "
    "the wrong square of the map, hour by hour."
)
ATTACK_LEGEND = (
    "1 to 4: people linked to their record by that many of their samples, known exactly; 4 at 1 km: known to "
    "1 km and 1 hour. below k: share of windows of {tau} min that fewer than {k} records fit. learned: share "
    "of a person's other samples in the record that fits such a window best; at random: in a record drawn "
    "at random."
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
        "at random": row["window"]["by_chance"],
    }


def _quartiles(spread: dict[str, float | None], unit: float, form: str) -> str:
    values = [spread[name] for name in ("q1", "median", "q3")]
    return " / ".join("-" if value is None else format(value / unit, form) for value in values)


SITES = ("sites", "site_id", "site_lon", "site_lat", "sites_crs")

VERIFY_EXAMPLE = """\b
Examples:
  shoal trajectories verify samples.parquet out/release --key out/owner/record_key.parquet
  shoal trajectories verify samples/ release --key record_key.parquet --k 3 --tau-minutes 60 --json
"""


@click.command(epilog=VERIFY_EXAMPLE)
@source_options
@click.argument("release", type=click.Path(path_type=Path))
@click.option("--key", required=True, type=click.Path(path_type=Path), help="The owner's record_key.parquet.")
@click.option("--k", type=int, help="k to check.  [default: that of the manifest]")
@click.option("--tau-minutes", type=int, help="Length of windows to check.  [default: that of the manifest]")
@with_options(click_options(SitesPlan))
@click.option(
    "--windows",
    type=click.IntRange(min=0),
    default=5000,
    show_default=True,
    help="Random windows for the measured figures; 0: none.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of these windows."
)
@JSON
@click.pass_context
def verify(
    context: click.Context, source_options: SourcePlan, release: Path, as_json: bool, **options: Any
) -> None:
    """Check RELEASE against the samples in SOURCE: k records fit every person in every window of tau.

    The check is exhaustive over users and starts of windows, and shares no code with the anonymisation. It
    prints counter-examples, and measured figures that the guarantee does not cover. The output names people,
    so it is for the owner alone. Exits with 1 if the claim does not hold.
    """
    from shoal.kinds.trajectories.verify import verify_trajectories

    settings = {name: value for name, value in vars(source_options).items() if name != "source_name"}
    paths = settings.pop("paths")
    with Bars(quiet=as_json) as bars:
        verdict = verify_trajectories(
            paths,
            release,
            options["key"],
            k=options["k"],
            tau_minutes=options["tau_minutes"],
            source=settings,
            sites={name: options[name] for name in SITES if options[name] is not None},
            windows=options["windows"],
            seed=options["seed"],
            progress=bars,
        )
    if as_json:
        click.echo(json.dumps(verdict.to_plain(), indent=2))
    else:
        for line in (*in_words(verdict), *_replaced(release)):
            click.echo(line)
    context.exit(0 if verdict.passed else 1)


def _replaced(release: Path) -> list[str]:
    """The promise of a release that was composed with others, which a verdict on it alone does not keep."""
    from shoal.release.manifest import MANIFEST

    promise = str(json.loads((release / MANIFEST).read_text("utf-8")).get("promise", ""))
    return [f"This is about the release taken alone. {promise}"] if promise.startswith("Nothing is") else []


def in_words(verdict: TrajectoryVerdict) -> list[str]:
    """The outcome, line by line."""
    plain = verdict.to_plain()
    what = f"k = {verdict.k}, tau = {verdict.tau_minutes} minutes"
    lines = [
        f"PASSED  {what}" if plain["passed"] else f"FAILED  {what}",
        f"{plain['users']:,} users, {plain['samples']:,} samples, {plain['boxes']:,} boxes; "
        f"{plain['pairs_checked']:,} pairs of user and start checked.",
    ]
    if plain["violations"]:
        lines.append(
            f"{plain['violations']:,} pairs have fewer than {verdict.k} records that fit; "
            f"{plain['users_hit']:,} users are hit."
        )
    elif plain["passed"]:
        lines.append(f"At least {verdict.k} records fit every user in every window.")
    if plain["structure"].get("boxes_without_own_sample", 0) > plain["boxes"] / 10:
        lines.append("Many boxes hold no sample of their user: is the key, RAW or --time-zone another one's?")
    lines += _structure(plain) + [line for each in plain["examples"] for line in _example(each)]
    if plain["measured"] is not None:
        lines += _measured(plain["measured"], verdict.k)
    return [*lines, "", "No composition, no protection beyond the stated adversary."]


def _structure(plain: dict[str, Any]) -> list[str]:
    from shoal.attacks.tracker.files import KEY_STRUCTURE
    from shoal.attacks.tracker.tables import STRUCTURE

    texts = {**STRUCTURE, **KEY_STRUCTURE}
    broken = {name: count for name, count in plain["structure"].items() if count}
    if not broken:
        return ["Boxes and key are sound: truthful, disjoint in time, one record per user."]
    lines = [f"{count:,} {texts[name]}" for name, count in broken.items()]
    for each in plain["structure_examples"]:
        whose = f"user {each['user']}" if "user" in each else f"record {each['record']}"
        lines.append(f"  {whose} at {each['time']}: one of the {texts[each['kind']]}")
    return lines


def _example(example: dict[str, Any]) -> list[str]:
    head = (
        f"  user {example['user']}, window from minute {example['start_minute']} ({example['start_time']}): "
        f"{example['fits']} fit"
    )
    return [head, *(f"    record {miss['record']}: {miss['why']}" for miss in example["near_misses"])]


def _measured(measured: dict[str, Any], k: int) -> list[str]:
    from shoal.kinds.trajectories.prepare import measured_lines

    lines = ["", f"Measured on {measured['windows']:,} random windows, never promised:"]
    lines += [f"  {line}" for line in measured_lines(measured, k)]
    same = measured["same_record"]
    if same["largest_share_quartiles"] is not None:
        low, middle, high = same["largest_share_quartiles"]
        lines.append(
            f"  one same other record fits {low:.0%} / {middle:.0%} / {high:.0%} of a user's windows"
        )
        lines.append(
            f"  users hidden by the same record in every window: {same['always_same']:,} of {same['users']:,}"
        )
    for pair in same["worst"][:3]:
        lines.append(
            f"    user {pair['user']}: record {pair['record']} fits {pair['share']:.0%} of the windows, "
            f"and {pair['back']:.0%} the other way round"
        )
    return lines
