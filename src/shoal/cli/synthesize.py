"""`shoal synthesize`: trips that nobody made, one command per step."""

from __future__ import annotations

import click

from shoal.cli.lazy import LazyGroup

# name -> (module, object, what it does)
STEPS = {
    "run": ("synthesize_run", "run", "Release synthetic trips: spends."),
    "report": ("synthesize_report", "report", "Draw published synthetic trips: free."),
}


@click.group(cls=LazyGroup, steps=STEPS)
def synthesize() -> None:
    """Release synthetic trips with times and stays, differentially private per user or per trip.

    \b
    Example:  shoal synthesize run --help
    """
