"""The audit at several claims: how close the proved bounds come, and how long it takes.

`make bench-audit` takes about twenty minutes on two cores; QUICK=1 about four.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks.table import report
from shoal.auditing.run import AuditPlan, audit_mechanism
from shoal.mechanisms.registry import REGISTRY

DELTA = 1e-6
EPSILONS = (0.5, 1.0, 2.0, 4.0)
QUICK_EPSILONS = (1.0, 4.0)


def main(quick: bool) -> None:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        pending = [pool.submit(_one, *task) for task in _tasks(quick)]
        done = [each.result() for each in pending]
    report("audit", [row for row, _ in done], "what is claimed, and what many runs prove")
    problems = [problem for _, found in done for problem in found]
    if problems:
        sys.exit("\n".join(problems))


def _tasks(quick: bool) -> list[tuple[str, AuditPlan]]:
    """Mechanisms and what to claim."""
    tasks = []
    for epsilon in QUICK_EPSILONS if quick else EPSILONS:
        for name, entry in REGISTRY.items():
            if not entry.thorough and epsilon != 1.0:
                continue  # the same primitives; one claim is enough
            if quick:
                plan = AuditPlan.quick(epsilon, DELTA, runs=100_000 if entry.thorough else None)
            elif entry.thorough:
                runs = 1_000_000 if entry.pure or epsilon > 1 else 4_000_000
                plan = AuditPlan(epsilon=epsilon, delta=DELTA, runs=runs, whole_runs=3000, extra_pairs=100)
            else:
                plan = AuditPlan(epsilon=epsilon, delta=DELTA, extra_pairs=100)
            tasks.append((name, plan))
    return tasks


def _one(name: str, plan: AuditPlan) -> tuple[dict, tuple[str, ...]]:
    start = time.perf_counter()
    found = audit_mechanism(name, plan)
    return _row(found, time.perf_counter() - start), found.problems


def _row(found, seconds: float) -> dict:
    tight = found.lower_bound / found.claimed_epsilon
    if found.claimed_mu is not None and found.mu_lower_bound is not None:
        tight = found.mu_lower_bound / found.claimed_mu
    return {
        "mechanism": found.mechanism,
        "claimed_epsilon": found.claimed_epsilon,
        "delta": found.delta,
        "lower_bound": found.lower_bound,
        "claimed_mu": found.claimed_mu,
        "mu_lower_bound": found.mu_lower_bound,
        "tightness": tight,  # of mu where there is one, else of epsilon
        "runs": found.runs,
        "replay_pairs": found.replay_pairs,
        "mutants_planted": found.mutants_planted,
        "mutants_caught": found.mutants_caught,
        "seconds": seconds,
    }


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
