"""`shoal trajectories`: truthful records hidden among k, one command per step."""

from __future__ import annotations

import click

from shoal.cli.lazy import LazyGroup

# name -> (module, object, what it does)
STEPS = {
    "run": ("trajectories_run", "run", "Generalise records until k people look alike."),
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
