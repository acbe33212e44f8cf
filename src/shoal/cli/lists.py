"""How lists on the command line are read."""

from __future__ import annotations

import click


def names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names, repeated or separated by commas."""
    return tuple(name.strip() for each in value for name in each.split(",") if name.strip())


def numbers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in value.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter("give numbers separated by commas, such as 0.1,0.3,1.") from None
