"""The audit of several mechanisms, each in a process of its own where there are cores for them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import active_children, get_context
from typing import TypeVar

from shoal.auditing import run
from shoal.auditing.run import AuditPlan, AuditResult, Progress, Silent
from shoal.errors import PlanError

Item = TypeVar("Item", bound=Hashable)
Found = TypeVar("Found")


def audit_many(
    names: Sequence[str], plan: AuditPlan, progress: Progress | None = None, jobs: int | None = None
) -> list[AuditResult]:
    """One result per name, in order. `jobs` processes at a time; by default one for each core."""
    tell = progress or Silent()
    if processes(jobs, len(names)) <= 1:
        return [run.audit_mechanism(name, plan, tell) for name in names]
    tell.stage(f"{len(names)} mechanisms", len(names))
    return in_processes(partial(_one, plan=plan), names, tell, jobs)


def processes(jobs: int | None, work: int) -> int:
    """Processes at a time."""
    if jobs is not None and jobs < 1:
        raise PlanError("audit-jobs", f"an audit runs in at least 1 process; got {jobs}.")
    return min(jobs or os.cpu_count() or 1, work)


def in_processes(
    one: Callable[[Item], Found], items: Sequence[Item], tell: Progress, jobs: int | None
) -> list[Found]:
    """The result of `one` for each item, in order, each in a process of its own."""
    # Spawned, not forked: a fork copies the locks of compiled code and of DuckDB's threads.
    at_once = processes(jobs, len(items))
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn"), initializer=_leave_stops) as pool:
        pending = {pool.submit(one, item): item for item in items}
        found: dict[Item, Found] = {}
        try:
            for done in as_completed(pending):
                found[pending[done]] = done.result()
                tell.advance(1)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise
    return [found[item] for item in items]


def _one(name: str, plan: AuditPlan) -> AuditResult:
    return run.audit_mechanism(name, plan)


def _leave_stops() -> None:
    """Ctrl-C reaches every process of a terminal; the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
