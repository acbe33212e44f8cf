"""What the whole command costs: simulated trips in files to a sealed release and the owner's report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.histogram_data import BOXES, scale_source
from benchmarks.synthetic_words import COST_FILE
from benchmarks.table import OUT, machine_class

USERS = {10_000: 500, 100_000: 5_000, 1_000_000: 51_000, 1_700_000: 86_000}  # who make about so many trips


def measure_cost(sizes: tuple[int, ...] = tuple(USERS)) -> None:
    """A row for each size, printed and kept; a run before them leaves bytecode and compiled kernels."""
    _run(scale_source(USERS[10_000]))
    for size in sizes:
        source = scale_source(USERS[size])
        row = _run(source) | {"machine": machine_class()}
        print(json.dumps(row), flush=True)
        with open(COST_FILE, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _run(source: Path) -> dict:
    """One run of the command in a child; its time and the most memory it had resident."""
    folder = Path(tempfile.mkdtemp(prefix="synthetic-cost-"))
    env = {**os.environ, "SHOAL_LEDGER": str(folder / "ledger"), "PYTHONPYCACHEPREFIX": str(OUT / "bytecode")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # as on any machine where the command has run before
    shoal = [sys.executable, "-m", "shoal.cli.main"]
    subprocess.run(
        [*shoal, "ledger", "create", "cost", "--epsilon", "10", "--delta", "1e-6"],
        env=env,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    box = ",".join(map(str, BOXES["town"]))
    asked = ["--box", box, "--start", "2026-03-02", "--end", "2026-03-09", "--time-zone", "Europe/Paris"]
    asked += ["--unit", "trip", "--epsilon", "0.5", "--population", "cost", "--json"]
    asked += ["--out", str(folder / "release"), "--owner", str(folder / "owner")]
    begin = time.perf_counter()
    child = subprocess.Popen(
        [*shoal, "synthesize", "run", f"{source}/part-*.parquet", *asked], env=env, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit("the command failed")
    found = json.loads((folder / "owner" / "utility.json").read_text("utf-8"))
    shutil.rmtree(folder)
    return {
        "trips_in": found["real_trips"],
        "trips_out": found["synthetic_trips"],
        "seconds": round(seconds, 1),
        "peak_gb": round(usage.ru_maxrss * 1024 / 1e9, 2),
    }


if __name__ == "__main__":
    measure_cost(tuple(int(size) for size in sys.argv[1:]) or tuple(USERS))
