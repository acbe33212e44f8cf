"""`shoal trajectories`: truthful records hidden among k, one command per step."""

from __future__ import annotations

import click

from shoal.cli.engine_options import engine_options
from shoal.cli.lazy import LazyGroup
from shoal.cli.options import JSON, PLAN, SUPERSEDES
from shoal.cli.run import run_command
from shoal.cli.source_options import SITE_OPTIONS, source_options

# name -> (module, object, what it does)
STEPS = {
    "run": ("trajectories", "run", "Generalise records until k people look alike."),
    "verify": ("trajectories_verify", "verify", "Prove or refute the claim of a release, window by window."),
    "compare": ("trajectories_compare", "compare", "Other ways to hide records, with the same attacks."),
}


@click.group(cls=LazyGroup, steps=STEPS)
def trajectories() -> None:
    """Release truthful records that k people share, against an adversary who tracked one for a time tau.

    This is not differential privacy: it protects against the stated adversary and no other.

    \b
    Example:  shoal trajectories run --help
    """


SPACE = ("origin", "cell_m", "sites", "site_id", "site_lon", "site_lat", "sites_crs")


def two_numbers(context: click.Context, parameter: click.Parameter, value: str | None):
    if value is None:
        return None
    try:
        first, second = (float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter("give two numbers: lon,lat (or x,y in metres).") from None
    return first, second


PLAN_OPTIONS = (
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
ABOUT = """Generalise the records in SOURCE until k people look alike to anyone who tracked one for a
time tau.

Records stay truthful: boxes in space and time around real samples, no noise, no made-up points. What
cannot be hidden is suppressed. Every window of every person is verified before anything is written. A run
that was killed goes on where it was.
"""
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


run = run_command(
    "trajectories",
    PLAN,
    source_options(required=False, names_run=True),
    click.option(
        "--population", help="Whose records; see `shoal ledger create`. Nothing is spent, it is listed."
    ),
    *PLAN_OPTIONS,
    click.option("--price", type=float, help="Of losing a sample: higher keeps more, in larger boxes."),
    click.option(
        "--forget-days",
        type=int,
        help="Two people may hide each other again after so many days.  [default: never]",
    ),
    click.option("--block-users", type=int, help="Hide among blocks of so many users.  [default: all]"),
    click.option("--unit", help="What a record stands for.  [default: user]"),
    click.option("--out", help="Folder of the release; must not exist.  [default: release]"),
    click.option("--owner", help="Folder for record key and report.  [default: owner]"),
    click.option("--run-id", help="Another id makes another release of the same plan."),
    SUPERSEDES,
    click.option(
        "--compose-with",
        multiple=True,
        metavar="RELEASE",
        help="Folder of an earlier release of the same people whose window overlaps (or the SHA-256 of its "
        "manifest); repeatable. The promise is then replaced by the measured result of linking them.",
    ),
    click.option("--licence", help="Licence of the release, one line."),
    click.option(
        "--keep-unsafe", is_flag=True, default=None, help="Write what the verifier refuted, marked so."
    ),
    engine_options,
    click.option("--dry-run", is_flag=True, help="Print the plan; read no rows."),
    JSON,
    about=ABOUT,
    example=EXAMPLE,
    space=SPACE,
)
