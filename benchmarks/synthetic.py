"""Synthetic trips: what they keep of real ones, by method, data set and epsilon; time and memory.

    make bench-synthetic            all data sets, three repetitions; at most 90 minutes
    make bench-synthetic QUICK=1    10,000 trips; under five minutes
    python -m benchmarks.synthetic --docs     also write docs/results/synthetic.md from the kept rows

Finished rows are kept in benchmarks/out/synthetic.jsonl and not run again while the code they depend on
stays the same; so a run that was stopped goes on. Worlds are processes, two at a time; what the command costs
(synthetic_cost.py) is measured alone. Noise is seeded (same distributions as released). Synthetic trips are
as many as the real ones.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from benchmarks.histogram_data import FILES, missing, trip_points
from benchmarks.synthetic_cells import Run, Wanted, World, full_wanted, quick_wanted
from benchmarks.synthetic_docs import shown_table, write_docs
from benchmarks.synthetic_world import Row, code_of, settings_of
from benchmarks.table import OUT, machine_class

ROOT = Path(__file__).parents[1]
FILE = OUT / "synthetic.jsonl"
SETTINGS = ("data", "n", "unit", "method", "epsilon", "delta", "rep")


def main() -> None:
    asked = _asked()
    if asked.one:
        _one()
        return
    begin = time.perf_counter()
    wanted = _quick() if asked.quick else _full(asked.data)
    if asked.methods:
        only = asked.methods.split(",")
        wanted = {world: [run for run in runs if run.method in only] for world, runs in wanted.items()}
    kept = Kept()
    tasks = [task for world, runs in wanted.items() for task in kept.left(world, runs)]
    with ThreadPoolExecutor(2) as pool:
        failed = [name for name in pool.map(kept.run, tasks) if name]
    rows = [row for world, runs in wanted.items() for run in runs if (row := kept.find(world, run))]
    print(shown_table(rows))
    minutes = (time.perf_counter() - begin) / 60
    print(f"{kept.made} rows in {minutes:.1f} minutes; {kept.before} were there before")
    if not asked.quick and not asked.no_cost:
        from benchmarks.synthetic_cost import measure_cost

        measure_cost()
    if asked.docs:
        write_docs(rows, sum(map(len, wanted.values())) - len(rows))
    if failed:
        sys.exit(f"{len(failed)} processes failed: " + "; ".join(failed))


class Kept:
    """Rows done before, and where new ones go."""

    def __init__(self, file: Path = FILE) -> None:
        self.file, self._lock = file, Lock()
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]  # a line may be cut off
        self.rows = {_key(row): row for row in rows}
        self.made = self.before = 0

    def find(self, world: World, run: Run) -> Row | None:
        row = self.rows.get(_key(settings_of(world, run)))
        return row if row and row["code"] == code_of(run.method) else None

    def left(self, world: World, runs: list[Run]) -> list[dict]:
        """Tasks for what is not there: one for each method, so that its memory is its own."""
        todo = [run for run in runs if self.find(world, run) is None]
        self.before += len(runs) - len(todo)
        methods = dict.fromkeys(run.method for run in todo)
        return [
            {"world": asdict(world), "runs": [asdict(run) for run in todo if run.method == method]}
            for method in methods
        ]

    def run(self, task: dict) -> str | None:
        """The name of a task that failed."""
        where = task["world"]
        name = f"{where['data']} {where['n'] or ''} {where['unit']} {task['runs'][0]['method']}"
        begin, number = time.perf_counter(), 0
        command = [sys.executable, "-m", "benchmarks.synthetic", "--one"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        child = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **one_thread}, **pipes)
        assert child.stdin is not None
        child.stdin.write(json.dumps(task))
        child.stdin.close()
        for line in child.stdout or ():
            self._add(json.loads(line))
            number += 1
        print(f"{name}: {number} rows, {time.perf_counter() - begin:.0f} s", flush=True)
        return name if child.wait() else None

    def _add(self, row: Row) -> None:
        row |= {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine_class()}
        with self._lock:
            self.rows[_key(row)] = row
            self.made += 1
            self.file.parent.mkdir(exist_ok=True)
            with open(self.file, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def _one() -> None:
    """In a process of its own: the task on standard input, a row per line on standard output."""
    from benchmarks.synthetic_world import rows_of

    task = json.loads(sys.stdin.read())
    for row in rows_of(World(**task["world"]), [Run(**run) for run in task["runs"]]):
        print(json.dumps(row), flush=True)


def _key(row: Row) -> tuple:
    return tuple(row.get(name) for name in SETTINGS)


def _full(only: str | None) -> Wanted:
    names = []
    for name in FILES if only is None else only.split(","):
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synthetic")
    parser.add_argument("--quick", action="store_true", help="10,000 trips of one data set, once")
    parser.add_argument("--data", help="only these data sets, separated by commas")
    parser.add_argument("--methods", help="only these methods, separated by commas")
    parser.add_argument("--no-cost", action="store_true", help="do not measure what the command costs")
    parser.add_argument("--docs", action="store_true", help="write docs/results/synthetic.md")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
