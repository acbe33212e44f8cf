"""Fuzzing of one target: `make fuzz TARGET=csv N=100000 SEED=1`, seeded and resumable.

A target is called once per input with a generator of its own, and raises AssertionError or any other error if
the code under test does what it must not. Input I of a seed is always the same, so a failure is repeated by
`python -m tests.fuzz.run TARGET 1 --start I --here`.

Inputs run in a child process with a limit on memory, so that a crash of a library is a failure like others.
What was done is kept in tests/out/fuzz/TARGET-SEED.json; the same command goes on from there.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.ledger import damage_a_ledger
from tests.fuzz.maps import fuzz_geojson, fuzz_geopackage, fuzz_geoparquet, fuzz_shapefile, fuzz_sites
from tests.fuzz.powercut import cut_the_power
from tests.fuzz.released import fuzz_manifest, fuzz_plan, fuzz_published, fuzz_queries
from tests.fuzz.rows import fuzz_csv, fuzz_parquet

TARGETS: dict[str, Callable[[random.Random], None]] = {
    "csv": fuzz_csv,
    "parquet": fuzz_parquet,
    "geojson": fuzz_geojson,
    "shapefile": fuzz_shapefile,
    "geopackage": fuzz_geopackage,
    "geoparquet": fuzz_geoparquet,
    "sites": fuzz_sites,
    "plan": fuzz_plan,
    "queries": fuzz_queries,
    "manifest": fuzz_manifest,
    "published": fuzz_published,
    "ledger": damage_a_ledger,
    "powercut": cut_the_power,
}
ROOT = Path(__file__).parents[2]
CPU_SECONDS = 5.0  # that one input may take
MEMORY = 4 << 30
OUT = Path(os.environ.get("SHOAL_FUZZ_OUT") or Path(__file__).parents[1] / "out" / "fuzz")


class TooLong(AssertionError):
    pass


def run(target: str, count: int, *, seed: int = 1, start: int = 0) -> dict[int, str]:
    """Call a target on inputs start, start + 1, ...; what went wrong, by the number of the input."""
    failed = {}
    for number in range(start, start + count):
        why = failure(target, number, seed)
        if why is not None:
            failed[number] = why
    return failed


def failure(target: str, number: int, seed: int) -> str | None:
    took = []
    try:
        for _ in range(2):  # the first input of a process may compile kernels, so a slow one is timed again
            before = time.process_time()
            TARGETS[target](random.Random(f"{target}:{seed}:{number}"))
            took.append(time.process_time() - before)
            if took[-1] <= CPU_SECONDS:
                return None
        return f"{took[-1]:.1f} CPU seconds"
    except Exception:
        return traceback.format_exc(limit=-6)


def child(target: str, count: int, seed: int, start: int) -> None:
    """Lines of JSON: [number] before an input, [number, why] after one that failed."""

    def late(*_: object) -> None:
        raise TooLong("more CPU time than an input may take")

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, late)
    place = os.open(OUT / f"{target}-{seed}.at", os.O_RDWR | os.O_CREAT, 0o600)
    for number in range(start, start + count):
        os.pwrite(place, f"{number:12d}".encode(), 0)
        signal.setitimer(signal.ITIMER_PROF, 4 * CPU_SECONDS)
        why = failure(target, number, seed)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if why is not None:
            print(json.dumps([number, why]), flush=True)
    os.pwrite(place, f"{start + count:12d}".encode(), 0)


def fuzz(target: str, count: int, seed: int) -> dict:
    """Go on to `count` inputs of a seed, in child processes; returns and keeps the state."""
    OUT.mkdir(parents=True, exist_ok=True)
    path, place = OUT / f"{target}-{seed}.json", OUT / f"{target}-{seed}.at"
    state = json.loads(path.read_text()) if path.exists() else {"done": 0, "seconds": 0.0, "failed": {}}
    while state["done"] < count:
        size = min(2000, count - state["done"])
        before = time.monotonic()
        place.unlink(missing_ok=True)
        asked = [target, str(size), "--seed", str(seed), "--start", str(state["done"]), "--child"]
        ended = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.run", *asked],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},  # Spark's tests may have set PYTHONSAFEPATH
        )
        reached = int(place.read_text() or 0) if place.exists() else -1
        if reached < 0:
            raise SystemExit(f"the child did not start (code {ended.returncode})")
        for line in ended.stdout.splitlines():
            number, why = json.loads(line)
            state["failed"][str(number)] = why
        if ended.returncode:
            state["failed"][str(reached)] = f"the process ended with code {ended.returncode}"
            reached += 1
        state["done"] = reached
        state["seconds"] += time.monotonic() - before
        path.write_text(json.dumps(state))
        print(
            f"{target}: {reached} inputs, {len(state['failed'])} failed, {state['seconds']:.0f} s", flush=True
        )
    return state


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--here", action="store_true", help="in this process, without a state")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.target, asked.count, asked.seed, asked.start)
        return 0
    if asked.here:
        failed = run(asked.target, asked.count, seed=asked.seed, start=asked.start)
    else:
        failed = fuzz(asked.target, asked.count, asked.seed)["failed"]
    for number, why in list(failed.items())[:5]:
        print(f"--- input {number}\n{why}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
