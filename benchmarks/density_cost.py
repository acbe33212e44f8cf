"""What a whole release with `best` costs: seconds and peak memory against users, zones and slots.

    make bench-density-cost     `shoal density run` from start-up to the owner's report, in its own process

Events are simulated before the clock starts; noise is the system's; epsilon 1, delta 2e-6. Zones are squares
over the city where their number is varied, else the city's own. Slots are of six hours, one hour, a quarter
of one. A full run writes docs/results/density-cost.md and .svg.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.city import simulated_city
from benchmarks.density_cost_plot import Panel, cost_svg
from benchmarks.real_cities import PARIS_USERS
from benchmarks.table import OUT, machine_class, report

DOCS = Path(__file__).parents[1] / "docs" / "results"
BASE_USERS = 200_000
SLOT_MINUTES = {28: 360, 168: 60, 672: 15}
FULL = {
    "users": (50_000, 200_000, 800_000, PARIS_USERS),
    "zones": (100, 300, 1000, 3000),
    "slots": (28, 168, 672),
}
QUICK = {"users": (50_000, 200_000), "zones": (100, 1000), "slots": (28, 168)}
SECONDS_TARGET, GB_TARGET = 90, 2  # at Paris size


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of the command; zones None: the city's own."""

    against: str
    users: int = BASE_USERS
    zones: int | None = None
    slots: int = 168


def main(quick: bool) -> None:
    jobs = [
        Job(against=name, **{name: size})
        for name, sizes in (QUICK if quick else FULL).items()
        for size in sizes
    ]
    rows = []
    for job in jobs:
        rows.append(_run(job))
        print(f"{job.against} {getattr(job, job.against):,}: {rows[-1]['seconds']:.1f} s", flush=True)
    report("density_cost", rows, "shoal density run, method best: cost of the whole command")
    largest = max(rows, key=lambda row: row["users"])
    if largest["users"] == PARIS_USERS:
        met = largest["seconds"] < SECONDS_TARGET and largest["peak_gb"] < GB_TARGET
        print(
            f"Paris size: asked for under {SECONDS_TARGET} s and {GB_TARGET} GB: {'met' if met else 'missed'}"
        )
    if not quick:
        _write_docs(rows)


def _run(job: Job) -> dict:
    work = OUT / "density-cost"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    city = simulated_city("paris", job.users)
    plan = work / "plan.toml"
    plan.write_text(_plan(city, job, work), "utf-8")
    environment = {**os.environ, "SHOAL_LEDGER": str(work / "ledger.sqlite")}
    environment.pop("OPENBLAS_NUM_THREADS", None)  # as a user would run it
    shoal = [sys.executable, "-m", "shoal.cli.main"]
    subprocess.run(
        [*shoal, "ledger", "create", "bench", "--rho", "10"], env=environment, check=True, stdout=-3
    )
    start = time.perf_counter()
    command = [*shoal, "density", "run", "--plan", str(plan), "--json"]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)  # its own peak memory, not that of all children so far
    seconds = time.perf_counter() - start
    if status != 0:
        sys.exit("the command failed.")
    utility = json.loads((work / "owner" / "utility.json").read_text("utf-8"))
    card = json.loads((city / "city.json").read_text("utf-8"))
    return {
        "against": job.against,
        "users": job.users,
        "zones": utility["zones"],
        "slots": utility["slots"],
        "rows": card["sources"]["events"]["rows"],
        "seconds": seconds,
        "peak_gb": used.ru_maxrss * 1024 / 1e9,
        "mre": utility["mean_relative_error"],
    }


def _plan(city: Path, job: Job, work: Path) -> str:
    card = json.loads((city / "city.json").read_text("utf-8"))
    return f"""population = "bench"
epsilon = 1.0
delta = 2e-6
method = "best"
users = {job.users}
out = {json.dumps(str(work / "release"))}
owner = {json.dumps(str(work / "owner"))}

[source]
paths = [{json.dumps(str(city / card["sources"]["events"]["glob"]))}]

[space]
sites = {json.dumps(str(city / "sites.csv"))}
{_zones(city, job.zones)}

[window]
start = "{card["window"]["start"][:19]}"
end = "{card["window"]["end"][:19]}"
time_zone = "{card["time_zone"]}"
slot_minutes = {SLOT_MINUTES[job.slots]}
"""


def _zones(city: Path, zones: int | None) -> str:
    """The city's own zones, or squares over its box, about as many."""
    from shoal.space.places import read_zones

    file = city / "zones.geojson"
    if zones is None:
        return f"zones = {json.dumps(str(file))}"
    west, south, east, north = map(float, read_zones(file).bounds)
    across = (east - west) * 111_320 * math.cos(math.radians((south + north) / 2))
    cell_m = math.sqrt(across * (north - south) * 111_320 / zones)
    return f"box = [{west}, {south}, {east}, {north}]\ncell_m = {cell_m:.1f}"


def _write_docs(rows: list[dict]) -> None:
    panels = [
        Panel(
            title=f"{figure} against {name}",
            points=[(row[name], row[column]) for row in rows if row["against"] == name],
        )
        for column, figure in (("seconds", "seconds"), ("peak_gb", "peak GB"))
        for name in FULL
    ]
    (DOCS / "density-cost.svg").write_text(cost_svg(panels, columns=len(FULL)), "utf-8")
    lines = [
        f"| {row['against']} | {row['users']:,} | {row['zones']:,} | {row['slots']} | {row['rows']:,} | "
        f"{row['seconds']:.1f} | {row['peak_gb']:.2f} | {row['mre']:.3f} |"
        for row in rows
    ]
    text = f"""# Cost of a density

{time.strftime("%Y-%m-%d")}, {machine_class()}; `make bench-density-cost`: the whole `shoal density run`
with `best` in a process of its own, from start-up to the owner's report, events already simulated, noise of
the system, epsilon 1. One of users, zones and slots is varied. Asked for at Paris size: under
{SECONDS_TARGET} s and {GB_TARGET} GB.

![seconds and memory against users, zones and slots](density-cost.svg)

| against | users | zones | slots | rows | seconds | peak GB | mean relative error |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
    (DOCS / "density-cost.md").write_text(text + "\n".join(lines) + "\n", "utf-8")
    print("written: density-cost.md, density-cost.svg")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
