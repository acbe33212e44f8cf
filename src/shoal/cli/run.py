"""The command `run` of any kind of release: a plan of file and flags, then a dry run or a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from shoal.cli.engine_options import EngineChoice
from shoal.cli.options import SPACE, settings_from, with_options
from shoal.events.schema import SourcePlan
from shoal.kinds.kind import KINDS


def run_command(
    kind: str,
    *options: Callable,
    about: str,
    example: str,
    space: Sequence[str] = SPACE,
    report: Sequence[str] = (),
    plan_from: Callable[[str, dict[str, Any]], Any] | None = None,
    name: str = "run",
) -> click.Command:
    """`shoal ... run` of a kind.

    Args:
        space: Flags of the map, which stand under [space] in a plan file.
        report: Flags for the owner's report, which are no settings of the plan.
        plan_from: The plan of a file and flags, where it is not made of the settings of both.
    """

    def run(
        plan: str | None,
        dry_run: bool,
        as_json: bool,
        choice: EngineChoice,
        source_options: SourcePlan | None = None,
        trip_rule: Any = None,
        threads: int = 0,
        **flags: Any,
    ) -> None:
        shown = {name: flags.pop(name) for name in report}
        if plan_from is not None:
            asked = plan_from(plan or "", flags)
        else:
            settings = settings_from(plan, source_options or SourcePlan(), trip_rule, flags, space)
            asked = KINDS[kind].plan.from_settings(settings)
        release(asked, kind, choice, threads, dry_run=dry_run, as_json=as_json, **shown)

    return click.command(name, help=about, epilog=example)(with_options(options)(run))


def release(
    plan: Any, kind: str, choice: EngineChoice, threads: int, *, dry_run: bool, as_json: bool, **shown: Any
) -> None:
    """Prepare the plan, then say what a run would do, or run it; `shown` is for the owner's report."""
    from shoal.cli.printing import print_dry_run, print_result
    from shoal.privacy.ledger import open_ledger

    with choice.opened() as spark:
        prepared = KINDS[kind].prepare(plan, spark)
        ledger = open_ledger()
        if dry_run:
            click.get_current_context().exit(print_dry_run(prepared, ledger, as_json))
        from shoal.cli.progress import Bars
        from shoal.engine.duck import DuckEngine  # with its compiled kernels: not for a dry run
        from shoal.kinds.run import run_build

        bars, engine = Bars(quiet=as_json), spark or DuckEngine(threads=threads)
        making = KINDS[prepared.kind].build(prepared, bars, bars.confirm, engine, **shown)
        for words in () if as_json else making.notes(ledger):
            click.echo(f"note     {words}")
        with bars:
            result = run_build(making, ledger)
    print_result(prepared, result, ledger, as_json)
