"""Distinct trips in any rectangle: error, divergence, violations, time and memory of every histogram method.

    make bench-histogram            all data sets, 256 x 256, three repetitions; at most 90 minutes
    make bench-histogram QUICK=1    1,000 and 10,000 trips on 64 x 64; under three minutes
    python -m benchmarks.histogram --docs     also write docs/results/histogram.md from the kept rows

Finished rows are kept in benchmarks/out/histogram.jsonl and not run again while code and trips stay the same;
so a run that was stopped goes on. Worlds (histogram_cells.py) are processes, two at a time; what things cost
(histogram_cost.py) is measured alone. Truth is the number of distinct trips, of all trips. Noise is seeded
(`SeededNoise(rep)`: same distributions as released). The number of kept trips is declared, for every
method alike; unit user: at most m trips of a user are kept, and answers are scaled up to all trips.
`seconds` and `peak_gb` are of a release alone. `uniform` is the public start of PriSH, without any data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks.histogram_cells import SIZES, Run, Wanted, World, full_wanted, quick_wanted
from benchmarks.histogram_cost import CostJob, consistent_jobs, cost_jobs
from benchmarks.histogram_data import missing, trip_points
from benchmarks.histogram_docs import error_tables, write_docs
from benchmarks.histogram_rows import Kept, Row, code_of, settings_of, stamp_of

ROOT = Path(__file__).parents[1]
PARTS = ("worlds", "cost", "consistent")
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def main() -> None:
    asked = _asked()
    if asked.one:
        _one()
        return
    start = time.perf_counter()
    kept = Kept()
    made = Making(kept, again=asked.again)
    wanted = _quick() if asked.quick else _full(asked.data)
    parts = ("worlds",) if asked.quick else tuple(asked.only.split(",")) if asked.only else PARTS
    if "worlds" in parts:
        made.all_of([made.world(world, runs) for world, runs in wanted.items()], at_once=2)
    if "cost" in parts:
        made.all_of([made.cost(job) for job in cost_jobs()], at_once=1)
    if "consistent" in parts:
        made.all_of([made.cost(job) for job in consistent_jobs()], at_once=2)
    rows = [
        row
        for world, runs in wanted.items()
        for run in runs
        if (row := kept.find(settings_of(world, run), code_of(run.method), stamp_of(world.data)))
    ]
    print(error_tables(rows))
    minutes = (time.perf_counter() - start) / 60
    print(f"{made.count} rows in {minutes:.1f} minutes; {made.before} were there before")
    if asked.docs:
        write_docs(kept.file)
    if made.failed:
        sys.exit(f"{len(made.failed)} processes failed: " + "; ".join(made.failed))


class Making:
    """Runs what is not finished, each task in a process of its own; rows are kept as they come."""

    def __init__(self, kept: Kept, again: bool) -> None:
        self.kept, self.again = kept, again
        self.count, self.before = 0, 0
        self.failed: list[str] = []

    def world(self, world: World, runs: list[Run]) -> dict | None:
        """A task, or None if all its rows are there."""
        stamp = stamp_of(world.data)
        left = [run for run in runs if not self._has(settings_of(world, run), code_of(run.method), stamp)]
        self.before += len(runs) - len(left)
        return {"world": asdict(world), "runs": [asdict(run) for run in left]} if left else None

    def cost(self, job: CostJob) -> dict | None:
        if all(self._has({**job.key(), "method": step}, job.code(), "") for step in job.steps):
            self.before += len(job.steps)
            return None
        return {"cost": asdict(job)}

    def _has(self, settings: Row, code: str, stamp: str) -> bool:
        return not self.again and self.kept.find(settings, code, stamp) is not None

    def all_of(self, tasks: Iterable[dict | None], at_once: int) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(self._task, [task for task in tasks if task]))

    def _task(self, task: dict) -> None:
        name = _name(task)
        environment = {**os.environ, **(ONE_THREAD if "world" in task else {})}
        begin, number = time.perf_counter(), 0
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.histogram", "--one"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        assert child.stdin is not None
        child.stdin.write(json.dumps(task))
        child.stdin.close()
        for line in child.stdout or ():
            if line.startswith("{"):
                self.kept.add(json.loads(line))
                self.count, number = self.count + 1, number + 1
            else:
                print(line, end="", flush=True)
        if child.wait():
            self.failed.append(name)
        print(f"{name}: {number} rows, {time.perf_counter() - begin:.0f} s", flush=True)


def _one() -> None:
    """In a process of its own: the task on standard input, a row per line on standard output."""
    task = json.loads(sys.stdin.read())
    rows: Iterable[Row]
    if "world" in task:
        from benchmarks.histogram_world import rows_of

        rows = rows_of(World(**task["world"]), [Run(**run) for run in task["runs"]])
    else:
        from benchmarks.histogram_cost import cost_rows

        rows = cost_rows(CostJob(**task["cost"]))
    for row in rows:
        print(json.dumps(row), flush=True)


def _name(task: dict) -> str:
    words = task.get("world") or task["cost"]
    return ", ".join(f"{key} {value}" for key, value in words.items() if value)


def _full(only: str | None) -> Wanted:
    names = []
    for name in SIZES if only is None else only.split(","):
        reason = missing(name)
        if reason:
            print(f"skipped {name}: {reason}")
        else:
            trip_points(name)  # made before the clock of any row starts
            names.append(name)
    return full_wanted(tuple(names))


def _quick() -> Wanted:
    reason = missing("sf")
    if reason:
        print(f"simulated trips instead of cabs: {reason}")
    name = "town" if reason else "sf"
    trip_points(name)
    return quick_wanted(name)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.histogram")
    parser.add_argument("--quick", action="store_true", help="small samples of one data set, once")
    parser.add_argument("--data", help="only these data sets, separated by commas")
    parser.add_argument("--only", help=f"only these parts: {', '.join(PARTS)}")
    parser.add_argument("--again", action="store_true", help="measure what is there already, too")
    parser.add_argument("--docs", action="store_true", help="write docs/results/histogram.md")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
