"""Groups of commands that are imported when they are called, so that help is quick."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

Steps = Mapping[str, tuple[str, str, str]]  # name -> (module, object, what it does)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only when it is called."""

    def __init__(self, *args, steps: Steps, **more) -> None:
        super().__init__(*args, **more)
        self.steps = steps

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.steps)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.steps:
            return None
        module, name, _ = self.steps[cmd_name]
        return getattr(import_module(f"shoal.cli.{module}"), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, _, words) in self.steps.items()])
