"""The command `run` of any kind of release: a plan of file and flags, then a dry run or a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import click

from shoal.cli.options import (
    COLUMNS_FILE,
    DRY_RUN,
    ENGINE_OPTIONS,
    JSON,
    PLAN,
    Option,
    check_named,
    click_options,
    opened_spark,
    over_columns_file,
    settings_from_flags,
    with_options,
)
from shoal.errors import PlanError
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

    def run(plan: str | None, dry_run: bool, as_json: bool, threads: int = 0, **flags: Any) -> None:
        engine = opened_spark(*(flags.pop(name) for name in ("engine", "spark_conf", "partitions")))
        for_report = {name: flags.pop(name) for name in report}
        if plan_from is not None:
            asked = plan_from(plan or "", flags)
        else:
            check_named(flags)
            asked = _plan_of(kind, run_settings(KINDS[kind].plan, plan, flags), plan)
        release(asked, kind, engine, threads, dry_run=dry_run, as_json=as_json, **for_report)

    if plan_from is None:
        options = (PLAN, *plan_options(KINDS[kind].plan), *options)
    decorated = with_options((*options, *ENGINE_OPTIONS, DRY_RUN, JSON))(run)
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


FOREIGN = {"plan-name", "plan-method", "histogram-method", "synthetic-method"}  # of a plan of another kind


def _plan_of(kind: str, settings: dict[str, Any], path: str | None) -> Any:
    """The plan of a kind; says so where the file is a plan of another one."""
    error = _refused(kind, settings)
    if error is None:
        return KINDS[kind].plan.from_settings(settings)
    others = [name for name, each in KINDS.items() if each.is_drawn and name != kind]
    refusals = {name: _refused(name, settings) for name in others}
    fits = [name for name, refusal in refusals.items() if refusal is None]
    fits = fits or [name for name, refusal in refusals.items() if refusal and not _codes(refusal) & FOREIGN]
    if path is None or not fits or not _codes(error) & FOREIGN:
        raise error
    titles = " or ".join(KINDS[name].title.lower() for name in fits)
    ways = " or ".join(f"`{KINDS[name].command} --plan {path}`" for name in fits)
    raise PlanError("plan-kind", f"{path} is a plan of another kind: {titles}.", f"Use {ways}.")


def _refused(kind: str, settings: dict[str, Any]) -> PlanError | None:
    try:
        KINDS[kind].plan.from_settings(settings)
    except PlanError as error:
        return error
    return None


def _codes(error: PlanError) -> set[str]:
    return {error.code, *(fault.code for fault in error.faults)}


def release(
    plan: Any,
    kind: str,
    opened: AbstractContextManager[Any],
    threads: int,
    *,
    dry_run: bool,
    as_json: bool,
    **shown: Any,
) -> None:
    """Prepare the plan, then say what a run would do, or run it; `shown` is for the owner's report."""
    from shoal.cli.printing import print_dry_run, print_result
    from shoal.privacy.ledger import open_ledger

    with opened as spark:
        prepared = KINDS[kind].prepare(plan, spark)
        ledger = open_ledger()
        if dry_run:
            click.get_current_context().exit(print_dry_run(prepared, ledger, as_json))
        from shoal.cli.printing import Bars
        from shoal.engine.engine import DuckEngine  # with its compiled kernels: not for a dry run
        from shoal.kinds.run import run_build

        bars, engine = Bars(quiet=as_json), spark or DuckEngine(threads=threads)
        making = KINDS[prepared.kind].build(prepared, bars, bars.confirm, engine, **shown)
        for words in () if as_json else making.notes(ledger):
            click.echo(f"note     {words}")
        with bars:
            result = run_build(making, ledger)
    print_result(prepared, result, ledger, as_json)
