"""`shoal trajectories`: truthful records hidden among k, one command per step."""

from __future__ import annotations

from importlib import import_module

import click

# name -> (module, object, what it does)
STEPS = {
    "run": ("trajectories_run", "run", "Generalise records until k people look alike."),
    "verify": ("trajectories_verify", "verify", "Prove or refute the claim of a release, window by window."),
    "compare": ("trajectories_compare", "compare", "Other ways to hide records, with the same attacks."),
}


class LazySteps(click.Group):
    """Imports a step only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(STEPS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in STEPS:
            return None
        module, name, _ = STEPS[cmd_name]
        return getattr(import_module(f"shoal.cli.{module}"), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, _, words) in STEPS.items()])


@click.group(cls=LazySteps)
def trajectories() -> None:
    """Release truthful records that k people share, against an adversary who tracked one for a time tau.

    This is not differential privacy: it protects against the stated adversary and no other.

    \b
    Example:  shoal trajectories run --help
    """
