"""`shoal histogram`: distinct trips in any rectangle, one command per step."""

from __future__ import annotations

import click

from shoal.cli.lazy import LazyGroup

# name -> (module, object, what it does)
STEPS = {
    "run": ("histogram_run", "run", "Release a histogram of trips: spends."),
    "query": ("histogram_query", "query", "Trips in a box, polygon or zone of a published histogram: free."),
    "report": ("histogram_report", "report", "Draw a published histogram: free."),
}


@click.group(cls=LazyGroup, steps=STEPS)
def histogram() -> None:
    """Release how many distinct trips passed any rectangle, differentially private per user or per trip.

    \b
    Example:  shoal histogram run --help
    """
