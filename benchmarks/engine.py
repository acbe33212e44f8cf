"""Events to bounded counts: our kernel over buckets of users against the plain two-window SQL in DuckDB.

Both read the same Parquet files and end with counts per site and slot, one visit per user and slot, at
most 30 per user. Each runs in a process of its own, one after the other; peak memory is the process's.
The compiled kernel is loaded from its cache before the clock starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.city import simulated_city
from benchmarks.table import report

ELL = 30
QUICK_USERS = 200_000


def main(quick: bool) -> None:
    city = simulated_city("paris", QUICK_USERS if quick else None)
    ours, baseline = (_measure(which, city) for which in ("ours", "baseline"))
    if ours["visits"] != baseline["visits"]:
        sys.exit(
            f"the two disagree on the number of bounded visits: {ours['visits']} and {baseline['visits']}"
        )
    row = {
        "rows": ours["rows"],
        "ours_s": ours["seconds"],
        "baseline_s": baseline["seconds"],
        "ratio": baseline["seconds"] / ours["seconds"],
        "ours_peak_gb": ours["peak_gb"],
        "baseline_peak_gb": baseline["peak_gb"],
    }
    report("engine", [row], "events to bounded counts: ours against two-window SQL in DuckDB")


def _measure(which: str, city: Path) -> dict:
    command = [sys.executable, "-m", "benchmarks.engine", "--only", which, str(city)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def ours(city: Path) -> tuple[int, int, float]:
    import numpy as np
    import pyarrow as pa

    from shoal.engine.engine import DuckEngine
    from shoal.engine.visits import VisitKernel
    from shoal.events.readers import scan
    from shoal.events.source import open_source
    from shoal.space.clock import Clock
    from shoal.space.places import read_sites

    card = json.loads((city / "city.json").read_text())
    start, end = (card["window"][side][:19] for side in ("start", "end"))
    clock = Clock(start=start, end=end, time_zone=card["time_zone"])
    sites = read_sites(city / "sites.csv").ids
    kernel = VisitKernel(
        edges_us=clock.edges_us, sites=len(sites), ell=ELL, cap=250, run_key=bytes(range(16))
    )
    source = open_source(str(city / "events"))
    tiny = {"user": [1], "time_us": [int(clock.edges_us[0])], "site": np.zeros(1, np.int32)}
    DuckEngine().sum_users([pa.RecordBatch.from_pydict(tiny)], kernel)
    rows = 0

    def count(what: str, n: int) -> None:
        nonlocal rows
        rows += n if what == "read" else 0

    started = time.perf_counter()
    window = (int(clock.edges_us[0]), int(clock.edges_us[-1]))
    sums = DuckEngine().sum_users(scan(source, sites=sites, window_us=window), kernel, count)
    return rows, int(sums["counts"].sum()), time.perf_counter() - started


TWO_WINDOWS = """
with placed as (
    select "user", site, random() as first, random() as second,
        (epoch_us(time) - {start}) // 3600000000 as slot
    from read_parquet('{files}') where epoch_us(time) >= {start} and epoch_us(time) < {end}
), visits as (
    select "user", site, slot, second from placed
    qualify row_number() over (partition by "user", slot order by first) = 1
), bounded as (
    select site, slot from visits
    qualify row_number() over (partition by "user" order by second) <= {ell}
)
select site, slot, count(*) as visits from bounded group by site, slot
"""


def baseline(city: Path) -> tuple[int, int, float]:
    import duckdb

    from shoal.space.clock import Clock

    card = json.loads((city / "city.json").read_text())
    start, end = (card["window"][side][:19] for side in ("start", "end"))
    edges = Clock(start=start, end=end, time_zone=card["time_zone"]).edges_us
    files = str(city / "events" / "*.parquet")
    query = TWO_WINDOWS.format(start=edges[0], end=edges[-1], ell=ELL, files=files)
    connection = duckdb.connect()
    started = time.perf_counter()
    counts = connection.sql(query).to_arrow_table()
    seconds = time.perf_counter() - started
    rows = connection.execute(f"select count(*) from read_parquet('{files}')").fetchone()[0]
    return rows, int(sum(counts["visits"].to_pylist())), seconds


def _only(which: str, city: Path) -> None:
    import resource

    rows, visits, seconds = {"ours": ours, "baseline": baseline}[which](city)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"rows": rows, "visits": visits, "seconds": seconds, "peak_gb": peak}))


if __name__ == "__main__":
    if "--only" in sys.argv:
        _only(sys.argv[-2], Path(sys.argv[-1]))
    else:
        main(quick="--quick" in sys.argv)
