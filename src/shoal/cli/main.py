"""The command `shoal`. Commands are imported when they are called, so that help is quick."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    sys.path.pop(0)  # python -m puts the working directory first, and it may hold anything

import difflib
import json
from collections.abc import Mapping
from importlib import import_module

import click

from shoal import __version__
from shoal.cli.printing import exit_code, interrupted, listen_for_signals
from shoal.errors import REPORT_IT, ResourceError, ShoalError
from shoal.scratch import sweep

STOPPED = (
    "stopped. What was reserved before counts as spent, and `shoal ledger show` lists it; a release that was "
    "committed is there, and the same command gives it back."
)

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


# name -> (module, object, what it does)
COMMANDS = {
    "demo": ("simulate", "demo", "The whole way on a simulated city."),
    "simulate": ("simulate", "simulate", "Write a simulated city: zones, sites, and records of its people."),
    "inspect": (
        "inspect",
        "inspect",
        "Schema and validity of a source; guarantee and contents of a release.",
    ),
    "density": ("run", "density", "Release people per zone and slot."),
    "trajectories": (
        "run",
        "trajectories",
        "Release k-anonymous trajectories.",
    ),
    "histogram": ("run", "histogram", "Release distinct trips in any rectangle."),
    "synthesize": ("run", "synthesize", "Release synthetic trips."),
    "query": ("run", "query", "Answer one counting query on private events: spends."),
    "attack": ("attack", "attack", "Attack counts or a release as an adversary would."),
    "audit": ("audit", "audit", "Check our mechanisms against their claims."),
    "ledger": ("ledger", "ledger", "Populations, their budgets, and what was spent on them."),
    "evidence": ("publish", "evidence", "One page for the file: manifest, plan, accounting, audit."),
    "publish": ("publish", "publish", "Copy a committed release to its public place."),
    "verify": ("publish", "verify", "Check a release as its recipient."),
    "studio": ("studio", "studio", "The local page: publish, look, attack and account."),
}


class Commands(LazyGroup):
    """All commands; a wrong name is answered with the nearest one."""

    def resolve_command(self, ctx: click.Context, args: list[str]):
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, steps=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shoal")
def shoal() -> None:
    """Publish the movement of a crowd without giving away a person.

    \b
    Start here:
      shoal demo                          a release of a simulated city, with its report
      shoal studio                        the same functions on a local web page
      shoal inspect events.parquet        columns, row counts and malformed rows of a file
      shoal density run --help            release people per zone and hour
      shoal trajectories run --help       release k-anonymous trajectories
      shoal histogram run --help          release distinct trips in any rectangle
      shoal synthesize run --help         release synthetic trips

    Exit codes: 0 success; 2 plan or usage; 3 input; 4 ledger; 5 output; 6 a guarantee does not hold;
    7 a missing dependency; 8 the cluster; 9 memory or disk; 1 other errors, and a claim that
    `trajectories verify` refuted.
    """


def main() -> None:
    """Run the command; an error is one message on standard error and an exit code, never a traceback."""
    listen_for_signals()
    os.environ["PYTHONSAFEPATH"] = "1"  # nor do processes that we start import from the working directory
    sweep()
    try:
        code = shoal.main(standalone_mode=False)
        if isinstance(code, int) and code:  # a command that said context.exit(code): click hands it back
            sys.exit(code)
    except (click.Abort, KeyboardInterrupt) as stop:
        _fail("\n".join([STOPPED, *_notes(stop)]), exit_code())
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ShoalError as error:
        if "--json" in sys.argv and not error.after_results:
            click.echo(json.dumps({"error": error.to_plain()}, indent=2))
        _fail(error.for_command(), error.exit_code)
    except BrokenPipeError:
        os._exit(141)  # the reader of our output went away
    except MemoryError:
        _fail("out-of-memory: this machine has not enough memory for it.", ResourceError.exit_code)
    except Exception as error:
        if interrupted():  # what a library made of it
            _fail(STOPPED, exit_code())
        if os.environ.get("SHOAL_DEBUG"):
            raise
        _fail(f"internal-error: shoal met a {type(error).__name__} it did not expect.\n{REPORT_IT}", 1)


def _notes(stop: BaseException) -> list[str]:
    """What was reserved when it was stopped; click wraps an interrupt."""
    return [*getattr(stop, "__notes__", []), *getattr(stop.__context__, "__notes__", [])]


def _fail(message: str, code: int) -> None:
    click.echo(message, err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
