"""`shoal attack`: what a release gives away, one command per adversary."""

from __future__ import annotations

import click

from shoal.cli.lazy import LazyGroup

# name -> (module, object, what it does)
ATTACKS = {
    "inference": (
        "attack_inference",
        "inference",
        "Where people are, from what is known of them and counts.",
    ),
    "recovery": ("attack_recovery", "recovery", "Whole trajectories from counts alone."),
    "reconstruct": ("attack_reconstruct", "reconstruct", "Single visits from answers to counting queries."),
    "membership": ("attack_membership", "membership", "Whether a person is in the counts at all."),
    "synthetic": (
        "attack_synthetic",
        "synthetic",
        "Whose trips synthetic ones were made from, and whether they copy them.",
    ),
    "unicity": ("attack_unicity", "unicity", "How many people a few known points single out."),
}


@click.group(cls=LazyGroup, steps=ATTACKS)
def attack() -> None:
    """Attack a release, or raw counts, as an adversary would.

    Results tell about people in the data: they go to the owner's folder and are never part of a release.

    \b
    Example:  shoal attack inference --help
    """
