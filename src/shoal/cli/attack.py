"""`shoal attack`: one command per adversary, made from the settings of its plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.attacks.runs.adversaries import ADVERSARIES, Adversary
from shoal.cli.main import JSON, LazyGroup, click_options, out_option, settings_from_flags, with_options
from shoal.cli.printing import Bars
from shoal.cli.run import plan_options, run_settings

if TYPE_CHECKING:
    from shoal.attacks.runs.findings import Findings

Decorator = Callable[[Callable], Callable]
TRIPS = (
    *("trip_rule", "unit", "trips_cap", "trips_per_user", "trips", "jump_m", "step_s", "window"),
    *("space.box", "space.cells", "space.cell_m", "space.planar"),
)
FILES = {"html": "page", "json": "figures", "parquet": "table"}
OUTPUT_OPTIONS = (
    out_option("owner/attack", "Owner's folder."),
    JSON,
)


class Adversaries(LazyGroup):
    """A command for each adversary, made when it is called."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_of(ADVERSARIES[cmd_name]) if cmd_name in self.steps else None


@click.group(
    cls=Adversaries,
    steps={each.name: ("", "", each.title) for each in ADVERSARIES.values() if each.reads != "release"},
)
def attack() -> None:
    """Attack a release, or raw counts, as an adversary would.

    Results tell about people in the data: they go to the owner's folder and are never part of a release.

    \b
    Example:  shoal attack inference --help
    """


def command_of(adversary: Adversary) -> click.Command:
    """The command: what it reads, the settings of its plan, and where the findings go."""
    reading, settings_from = READ[adversary.reads]()

    def run(out: Path, as_json: bool, **flags: Any) -> None:
        plan = adversary.plan(**_given(adversary.plan, flags))
        data = settings_from(flags)
        with Bars(quiet=as_json) as bars:
            findings = adversary.run(data, plan, out, bars)
        paths = findings.write(out, adversary.name)
        if as_json:
            click.echo(json.dumps({**findings.figures, **_files(paths)}, indent=2))
        else:
            _print(findings, paths)

    decorated = with_options((*reading, *click_options(adversary.plan), *OUTPUT_OPTIONS))(run)
    examples = adversary.examples.strip().replace("\n", "\n  ").replace("\n  \b\n  ", "\n\b\n")
    epilog = f"\b\nExamples:\n  {examples}\n"
    return click.command(adversary.name, help=adversary.plan.__doc__, epilog=epilog)(decorated)


def _given(plan: type, flags: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given, taken out of `flags`; `--defence ""` is an empty list."""
    log = {"log": flags.pop("log")} if "log" in flags else {}
    return settings_from_flags(plan, flags) | log


Reading = tuple[tuple[Decorator, ...], Callable[[dict[str, Any]], Mapping[str, Any] | None]]


def _plan_option(words: str) -> Decorator:
    return click.option("--plan", type=click.Path(), help=words)


def _density() -> Reading:
    """Events, zones and a window, as a density reads them."""
    from shoal.kinds.density.plan import DensityPlan

    plan = _plan_option("A TOML plan of a density; flags win over it.")
    options = plan_options(DensityPlan, only=("space", "window"))
    return (plan, *options), lambda flags: run_settings(DensityPlan, flags.pop("plan"), flags)


def _trips() -> Reading:
    """Trips, a grid and a window, as synthetic trips read them."""
    from shoal.kinds.synthetic.plan import SyntheticPlan

    plan = _plan_option("A TOML plan of synthetic trips; flags win over it.")
    options = plan_options(SyntheticPlan, only=TRIPS)
    return (plan, *options), lambda flags: run_settings(SyntheticPlan, flags.pop("plan"), flags)


def _log() -> Reading:
    """A log of queries; the events of a density plan only where one is given."""

    def settings_from(flags: dict[str, Any]) -> Mapping[str, Any] | None:
        from shoal.kinds.plan import read_plan

        return read_plan(flags["plan"]) if flags["plan"] else None

    log = click.argument("log", required=False, type=click.Path())
    return (
        log,
        _plan_option("A TOML plan of a density: hold the findings against its events."),
    ), settings_from


READ: dict[str, Callable[[], Reading]] = {"density": _density, "trips": _trips, "log": _log}


def _files(paths: Mapping[str, Path]) -> dict[str, Any]:
    """The files in `--json`: one, a list, or by their endings where there is a page."""
    named = {ending: str(path) for ending, path in paths.items()}
    if list(named) == ["json"]:
        return {"file": named["json"]}
    return {"files": named if "html" in named else [*named.values()]} if named else {}


def _print(findings: Findings, paths: Mapping[str, Path]) -> None:
    """The sentence, the tables, what no table says, and the files."""
    from shoal.cli.printing import print_table
    from shoal.kinds.describe import near

    if findings.sentence:
        click.echo(f"{findings.sentence}\n")
    for table in findings.tables:
        print_table(table)
    for line in findings.notes:
        click.echo(line)
    for number, (ending, path) in enumerate(paths.items()):
        before, after = ("", "") if number else ("\n", "   (owner's eyes only)")
        click.echo(f"{before}{FILES[ending]:<9}{near(path)}{after}")
