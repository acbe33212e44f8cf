"""`shoal density year`: what each of many releases about the same people may spend."""

from __future__ import annotations

import click


@click.command()
def year() -> None:
    """Share a year's budget over its weeks."""
