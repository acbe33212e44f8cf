"""`shoal trajectories run`: truthful records that k people share."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.engine_options import EngineChoice, engine_options
from shoal.cli.progress import bars_for
from shoal.cli.source_options import SITE_OPTIONS, source_options
from shoal.events.schema import SourcePlan

SPACE = ("origin", "cell_m", "sites", "site_id", "site_lon", "site_lat", "sites_crs")
WINDOW = ("start", "end")

EXAMPLE = """\b
Examples:
  shoal simulate abi --users 3000 --weeks 1 --out abi
  shoal ledger create abi --epsilon 4 --delta 1e-6
  shoal trajectories run --plan abi/trajectories.toml --dry-run
  shoal trajectories run --plan abi/trajectories.toml --k 3
\b
  shoal trajectories run 'samples/*.parquet' --start 2026-03-02 --end 2026-03-09
      --time-zone Africa/Abidjan --origin -4.4,5.0 --population abi
      --k 2 --tau-minutes 30 --epoch-minutes 30 --out release --owner owner
"""


def two_numbers(context: click.Context, parameter: click.Parameter, value: str | None):
    if value is None:
        return None
    try:
        first, second = (float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter("give two numbers: lon,lat (or x,y in metres).") from None
    return first, second


def plan_options(command: Any) -> Any:
    """The options that shape a trajectory release, shared by the commands that make one."""
    options = (
        click.option("--k", type=int, help="Records that look alike.  [default: 2]"),
        click.option("--tau-minutes", type=int, help="How long the adversary tracked.  [default: 30]"),
        click.option(
            "--epoch-minutes",
            type=int,
            help="People are grouped anew every so often; tau is a multiple.  [default: tau]",
        ),
        click.option(
            "--full-length",
            is_flag=True,
            default=None,
            help="k records fit a person over the whole window; tau and epoch are the window.",
        ),
        click.option("--start", help="First moment of the window, local clock."),
        click.option("--end", help="Its end, not part of it."),
        click.option(
            "--origin", callback=two_numbers, help="lon,lat of the lattice's corner, south-west of the area."
        ),
        click.option("--cell-m", type=float, help="Side of a lattice cell in metres.  [default: 100]"),
        click.option("--step-minutes", type=int, help="Step of the lattice in time.  [default: 1]"),
        *SITE_OPTIONS,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(epilog=EXAMPLE)
@click.option("--plan", type=click.Path(), help="A TOML plan; flags win over it.")
@source_options(required=False, names_run=True)
@click.option(
    "--population", help="Whose records; see `shoal ledger create`. Nothing is spent, it is listed."
)
@plan_options
@click.option("--price", type=float, help="Of losing a sample: higher keeps more, in larger boxes.")
@click.option(
    "--forget-days",
    type=int,
    help="Two people may hide each other again after so many days.  [default: never]",
)
@click.option("--block-users", type=int, help="Hide among blocks of so many users.  [default: all]")
@click.option("--unit", help="What a record stands for.  [default: user]")
@click.option("--out", help="Folder of the release; must not exist.  [default: release]")
@click.option("--owner", help="Folder for record key and report.  [default: owner]")
@click.option("--run-id", help="Another id makes another release of the same plan.")
@click.option(
    "--supersedes", metavar="SHA256", help="Manifest hash of an earlier release that this one replaces."
)
@click.option(
    "--compose-with",
    multiple=True,
    metavar="RELEASE",
    help="Folder of an earlier release of the same people whose window overlaps (or the SHA-256 of its "
    "manifest); repeatable. The promise is then replaced by the measured result of linking them.",
)
@click.option("--licence", help="Licence of the release, one line.")
@click.option("--keep-unsafe", is_flag=True, default=None, help="Write what the verifier refuted, marked so.")
@engine_options
@click.option("--dry-run", is_flag=True, help="Print the plan; read no rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def run(
    plan: str | None,
    source_options: SourcePlan,
    dry_run: bool,
    as_json: bool,
    choice: EngineChoice,
    **flags: Any,
) -> None:
    """Generalise the records in SOURCE until k people look alike to anyone who tracked one for a time tau.

    Records stay truthful: boxes in space and time around real samples, no noise, no made-up points. What
    cannot be hidden is suppressed. Every window of every person is verified before anything is written. A run
    that was killed goes on where it was.
    """
    from shoal.cli.trajectories_words import print_dry_run, print_result
    from shoal.kinds.trajectories.build import prepare_trajectories, run_trajectories
    from shoal.privacy.ledger import open_ledger

    asked = plan_from(plan, source_options, flags)
    with choice.opened() as spark:
        prepared = prepare_trajectories(asked, spark)
        if dry_run:
            print_dry_run(prepared, as_json)
            return
        ledger = open_ledger()
        with bars_for(_notes(prepared, ledger, spark is not None), as_json) as bars:
            result = run_trajectories(prepared, ledger, engine=spark, progress=bars)
    print_result(prepared, result, as_json)


def _notes(prepared: Any, ledger: Any, on_spark: bool) -> list[str]:
    """What the owner should know before the run."""
    population = prepared.plan.population
    earlier = sum(name == population for name, _ in ledger.releases())
    notes = prepared.notes()
    if earlier:
        notes.append(
            f"{population!r} has {earlier} earlier release{'s' * (earlier > 1)}; whoever holds several may "
            "combine them, and no promise covers that. `shoal ledger show` lists them."
        )
    if on_spark and prepared.plan.block_users is None:
        notes.append("all users are one block, so one task does it all; --block-users makes several.")
    return notes


def plan_from(path: str | None, source: SourcePlan, flags: dict[str, Any]):
    """A plan file with the flags over it."""
    from shoal.kinds.plan import merge, read_plan
    from shoal.kinds.trajectories.plan import TrajectoryPlan

    said = {name: value for name, value in vars(source).items() if value not in (None, (), {})}
    window = {name: flags.pop(name, None) for name in WINDOW}
    window["time_zone"] = said.get("time_zone")
    nested = {"source": said, "space": {name: flags.pop(name, None) for name in SPACE}, "window": window}
    return TrajectoryPlan.from_settings(merge(read_plan(path) if path else {}, {**flags, **nested}))
