"""The command `run` of any kind of release: a plan of file and flags, then a dry run or a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import click

from shoal.cli.engine_options import EngineChoice, engine_options
from shoal.cli.options import DRY_RUN, JSON, PLAN, Option, click_options, settings_from_flags, with_options
from shoal.cli.source_options import COLUMNS_FILE, check_named, over_columns_file
from shoal.kinds.kind import KINDS
from shoal.kinds.plan import merge, read_plan
from shoal.privacy.guarantee import TRIP


def run_command(
    kind: str,
    *options: Option,
    about: str,
    example: str,
    report: Sequence[str] = (),
    plan_from: Callable[[str, dict[str, Any]], Any] | None = None,
    name: str = "run",
) -> click.Command:
    """`shoal ... run` of a kind: its flags are the settings of its plan.

    Args:
        options: Further flags.
        report: Those of them that are for the owner's report and no settings of the plan.
        plan_from: The plan of a file and flags, where it is not made of the settings of both; then `options`
            are all flags.
    """

    def run(
        plan: str | None, dry_run: bool, as_json: bool, choice: EngineChoice, threads: int = 0, **flags: Any
    ) -> None:
        for_report = {name: flags.pop(name) for name in report}
        if plan_from is not None:
            asked = plan_from(plan or "", flags)
        else:
            check_named(flags)
            asked = KINDS[kind].plan.from_settings(run_settings(KINDS[kind].plan, plan, flags))
        release(asked, kind, choice, threads, dry_run=dry_run, as_json=as_json, **for_report)

    if plan_from is None:
        options = (PLAN, *plan_options(KINDS[kind].plan), *options)
    decorated = with_options((*options, engine_options, DRY_RUN, JSON))(run)
    return click.command(name, help=about, epilog=example)(decorated)


def plan_options(plan: type, only: Collection[str] = ()) -> tuple[Option, ...]:
    """SOURCE and the flags of a plan, or of some of its settings."""
    argument = click.argument("source", nargs=-1)
    return (argument, *click_options(plan, only=("source", *only) if only else ()), COLUMNS_FILE)


def run_settings(plan: type, path: str | None, flags: dict[str, Any]) -> dict[str, Any]:
    """A plan file with the flags over it, nested as plans are; takes the flags of the plan out."""
    columns = flags.pop("columns", None)
    given = settings_from_flags(plan, flags)
    if columns is not None or "source" in given:
        given["source"] = over_columns_file(columns, given.get("source", {}))
    settings = read_plan(path) if path else {}
    if given.get("unit") == TRIP:  # bounds per user in the file make no sense then
        settings = {name: value for name, value in settings.items() if not name.startswith("trips_")}
    return merge(settings, given)


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
            print_dry_run(prepared, ledger, as_json)
            return
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
