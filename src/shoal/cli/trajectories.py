"""`shoal trajectories`: truthful records hidden among k, one command per step."""

from __future__ import annotations

import click

from shoal.cli.main import LazyGroup
from shoal.cli.run import run_command

# name -> (module, object, what it does)
STEPS = {
    "run": ("trajectories", "run", "Generalise records until k people look alike."),
    "verify": ("trajectories_verify", "verify", "Prove or refute the claim of a release, window by window."),
    "compare": ("trajectories_compare", "compare", "Other ways to hide records, with the same attacks."),
}


@click.group(cls=LazyGroup, steps=STEPS)
def trajectories() -> None:
    """Release k-anonymous trajectories, against an adversary who observed a person for any period tau.

    This is not differential privacy: it protects against the stated adversary and no other.

    \b
    Example:  shoal trajectories run --help
    """


ABOUT = """Generalise the records in SOURCE until at least k of them fit any observation of a person for a
period tau.

Records stay truthful: each is a sequence of boxes in space and time around real samples, without noise or
synthetic points. Samples that cannot be protected are suppressed. Every window of every person is verified
before anything is written. A killed run resumes where it stopped.
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


run = run_command("trajectories", about=ABOUT, example=EXAMPLE)
