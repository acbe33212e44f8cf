"""Peak memory of this process, and of ten whole runs beside the estimates of their dry runs."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.table import OUT, report

WORK = OUT / "memory"
SHOAL = [sys.executable, "-m", "shoal.cli.main"]
BOX = ("--box", "2.0,48.6,2.5,49.1")
DENSITY = (
    "density",
    "run",
    "points.csv",
    *BOX,
    "--start",
    "2026-03-02",
    "--epsilon",
    "0.01",
    "--delta",
    "1e-6",
)
TRIPS = ("points.csv", *BOX, "--start", "2026-03-02", "--end", "2026-03-09", "--gap-minutes", "100000")
HISTOGRAM = ("histogram", "run", *TRIPS, "--epsilon", "0.1", "--trips", "1000")
SYNTHETIC = ("synthesize", "run", *TRIPS, "--epsilon", "0.1", "--delta", "1e-6", "--cells", "50")
PLANS = {
    "density best, 2 km, a week": (*DENSITY, "--cell-m", "2000", "--end", "2026-03-09"),
    "density best, 500 m, a week": (*DENSITY, "--cell-m", "500", "--end", "2026-03-09"),
    "density gaussian, 1 km, 60 days": (
        *DENSITY,
        *("--cell-m", "1000", "--end", "2026-05-01", "--method", "gaussian"),
    ),
    "density efpag, 500 m, 28 days": (
        *DENSITY,
        *("--cell-m", "500", "--end", "2026-03-30", "--method", "efpag"),
    ),
    "density best, 500 m, 60 days": (*DENSITY, "--cell-m", "500", "--end", "2026-05-01"),
    "histogram boxes, 256 cells": (*HISTOGRAM, "--cells", "256"),
    "histogram boxes, 1024 cells": (*HISTOGRAM, "--cells", "1024"),
    "histogram dqam, 1024 cells": (*HISTOGRAM, "--cells", "1024", "--method", "dqam"),
    "synthetic bridges, 100,000 trips": (*SYNTHETIC, "--count", "100000"),
    "synthetic bridges, 400,000 trips": (*SYNTHETIC, "--count", "400000"),
}
SMALL = ("density best, 2 km, a week", "histogram boxes, 256 cells")


def main(quick: bool) -> None:
    """Estimated and measured peak memory and release size of each plan; two of them where quick."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    _write_points(WORK / "points.csv")
    _shoal("ledger", "create", "bench", "--rho", "10")
    names = SMALL if quick else PLANS
    report(
        "memory", [_compare(name, PLANS[name]) for name in names], "Estimates of dry runs and measured peaks"
    )


def _compare(name: str, plan: tuple[str, ...]) -> dict:
    arguments = [*plan, "--time-zone", "Europe/Paris", "--population", "bench", "--run-id", name, "--json"]
    shutil.rmtree(WORK / "release", ignore_errors=True)
    estimate = json.loads(_shoal(*arguments, "--dry-run"))["resources"]
    started = time.perf_counter()
    child = subprocess.Popen([*SHOAL, *arguments], cwd=WORK, env=_environment(), stdout=-3, stderr=-3)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"the run failed: {name}")
    memory = used.ru_maxrss * 1024
    disk = sum(path.stat().st_size for path in (WORK / "release").iterdir())
    return {
        "what": name,
        "estimate_mb": estimate["memory"] / 1e6,
        "peak_mb": memory / 1e6,
        "estimate_over_peak": estimate["memory"] / memory,
        "estimate_disk_mb": estimate["disk"] / 1e6,
        "disk_mb": disk / 1e6,
        "seconds": time.perf_counter() - started,
    }


def _shoal(*arguments: str) -> str:
    ran = subprocess.run([*SHOAL, *arguments], cwd=WORK, env=_environment(), capture_output=True, text=True)
    if ran.returncode:
        sys.exit(ran.stderr)
    return ran.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "SHOAL_LEDGER": str(WORK / "ledger.sqlite")}


def _write_points(path: Path) -> None:
    """200 people with 5 points each: too few to matter, so that the peaks are those of the plans."""
    rng = random.Random(1)
    rows = [
        f"u{user},2026-03-{2 + day:02d}T{rng.randrange(24):02d}:00:00,"
        f"{2 + rng.random() / 2:.5f},{48.6 + rng.random() / 2:.5f}"
        for user in range(200)
        for day in range(5)
    ]
    path.write_text("\n".join(["user,time,lon,lat", *rows]) + "\n")


def restart_peak() -> None:
    """From here on the most memory is counted anew, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_gb() -> float:
    """Most resident memory since `restart_peak`, or of the whole process."""
    try:
        words = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()
        return int(words[0]) * 1024 / 1e9
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    main("--quick" in sys.argv)
