"""The whole command `shoal density run` at Paris size: seconds, peak memory and error of both methods."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.city import simulated_city
from benchmarks.table import OUT, report

QUICK_USERS = 200_000


def main(quick: bool) -> None:
    city = simulated_city("paris", QUICK_USERS if quick else None)
    report("command", [_run(city, method) for method in ("gaussian", "laplace")], "shoal density run")


def _run(city: Path, method: str) -> dict:
    from shoal.kinds.simulated import write_city_plan

    work = OUT / "command"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    plan = write_city_plan(city, population="bench", out=str(work / "release"), owner=str(work / "owner"))
    environment = {**os.environ, "SHOAL_LEDGER": str(work / "ledger.sqlite")}
    shoal = [sys.executable, "-m", "shoal.cli.main"]
    price = ["--epsilon", "1"] + (["--delta", "1e-6"] if method == "gaussian" else [])
    if method == "laplace":
        plan.write_text(plan.read_text().replace("delta = 1e-6\n", ""))
    subprocess.run(
        [*shoal, "ledger", "create", "bench", "--rho", "10"], env=environment, check=True, stdout=-3
    )
    started = time.perf_counter()
    command = [*shoal, "density", "run", "--plan", str(plan), "--method", method, *price, "--json"]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    output, _ = child.communicate()
    seconds = time.perf_counter() - started
    if child.returncode != 0:
        sys.exit(f"the command failed: {output!r}")
    utility = json.loads((work / "owner" / "utility.json").read_text())
    card = json.loads((city / "city.json").read_text())
    return {
        "method": method,
        "rows": card["sources"]["events"]["rows"],
        "users": card["users"],
        "zones": card["zones"]["count"],
        "seconds": seconds,
        "peak_gb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20,
        "mre": utility["mean_relative_error"],
        "pearson": utility["pearson"],
        "bias": utility["total_bias_share"],
        "coverage": utility["coverage"],
    }


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
