"""`shoal histogram`: distinct trips in any rectangle, one command per step."""

from __future__ import annotations

from importlib import import_module

import click

# name -> (module, object, what it does)
STEPS = {
    "run": ("histogram_run", "run", "Release a histogram of trips: spends."),
    "query": ("histogram_query", "query", "Trips in a box, polygon or zone of a published histogram: free."),
    "report": ("histogram_report", "report", "Draw a published histogram: free."),
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
def histogram() -> None:
    """Release how many distinct trips passed any rectangle, differentially private per user or per trip.

    \b
    Example:  shoal histogram run --help
    """
