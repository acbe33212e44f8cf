"""`shoal attack`: what a release gives away, one command per adversary."""

from __future__ import annotations

from importlib import import_module

import click

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
    "unicity": ("attack_unicity", "unicity", "How many people a few known points single out."),
}


class LazyAttacks(click.Group):
    """Imports an attack only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(ATTACKS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ATTACKS:
            return None
        module, name, _ = ATTACKS[cmd_name]
        return getattr(import_module(f"shoal.cli.{module}"), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, _, words) in ATTACKS.items()])


@click.group(cls=LazyAttacks)
def attack() -> None:
    """Attack a release, or raw counts, as an adversary would.

    Results tell about people in the data: they go to the owner's folder and are never part of a release.

    \b
    Example:  shoal attack inference --help
    """
