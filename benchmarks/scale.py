"""Events to bounded counts: Spark on a cluster of this machine against DuckDB, by events and partitions.

Both read the same Parquet files and end with the sums of a density (one visit per user and slot, at most 30
per user). Spark is a real cluster on loopback: one master, two workers, each one executor of one core and
1 GB. Each run is a process of its own; peak memory is that of all its processes together (proportional
shares), `task_gb` the most of any Python worker. `read_s` and `sum_s` are core-seconds of the two stages. The
clock starts when Spark runs and its workers have imported the package. `identical`: all sums are those of
DuckDB, bit by bit, under the same run key.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from benchmarks.city import simulated_city
from benchmarks.table import report

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each worker would compile all it imports
ROOT = Path(__file__).parents[1]
ELL = 30
KEY = bytes(range(16))
USERS = {"quick": (200_000,), "full": (200_000, 1_992_846, 7_400_000)}
PARTITIONS = {"quick": (1, 7, 64), "full": (2, 7, 16, 64, 256)}


def main(quick: bool) -> None:
    size = "quick" if quick else "full"
    rows = []
    with tempfile.TemporaryDirectory(prefix="shoal-scale-") as folder:
        for users in USERS[size]:
            city = simulated_city("paris", users)
            here = _measure("duckdb", city, 0, "")
            rows.append({**_row("duckdb", users, here), "identical": True})
            report("scale", rows[-1:])
            cluster, address = _cluster(Path(folder) / str(users))
            try:
                for partitions in _partitions(size, users == USERS[size][-1]):
                    there = _measure("spark", city, partitions, address)
                    same = there["digest"] == here["digest"]
                    rows.append({**_row("spark", users, there), "identical": same})
                    report("scale", rows[-1:])
            finally:
                cluster.stop(Path(folder) / str(users))
    report("scale", rows, "events to bounded counts: Spark, two executors of 1 GB, against DuckDB")
    if not all(row["identical"] for row in rows):
        sys.exit("the engines disagree")


def _partitions(size: str, largest: bool) -> tuple[int, ...]:
    """All of them at the largest size; at smaller ones what shows the growth."""
    return PARTITIONS[size] if largest else (7, 64)


def _row(engine: str, users: int, found: dict) -> dict:
    return {
        "engine": engine,
        "events": found["events"],
        "users": users,
        "partitions": found["partitions"],
        "seconds": found["seconds"],
        "us_per_event": found["seconds"] / found["events"] * 1e6,
        "peak_gb": found["peak_gb"],
        "task_gb": found.get("task_gb"),
        "shuffle_mb": found.get("shuffle_mb"),
        "read_s": found.get("read_s"),
        "sum_s": found.get("sum_s"),
    }


def _cluster(folder: Path):
    named = importlib.util.spec_from_file_location("cluster", ROOT / "examples" / "spark" / "cluster.py")
    assert named is not None
    assert named.loader is not None
    example = importlib.util.module_from_spec(named)
    named.loader.exec_module(example)
    return example, example.start(folder, workers=2, cores=1, memory="1g")


def _measure(which: str, city: Path, partitions: int, address: str) -> dict:
    command = [sys.executable, "-m", "benchmarks.scale", "--only", which, str(city), str(partitions), address]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def _world(city: Path):
    """Sites, window and kernel of a simulated city."""
    from shoal.engine.visits import VisitKernel
    from shoal.space.clock import Clock
    from shoal.space.places import read_sites

    card = json.loads((city / "city.json").read_text())
    start, end = (card["window"][side][:19] for side in ("start", "end"))
    clock = Clock(start=start, end=end, time_zone=card["time_zone"])
    sites = read_sites(city / "sites.csv").ids
    kernel = VisitKernel(edges_us=clock.edges_us, sites=len(sites), ell=ELL, cap=250, run_key=KEY)
    return sites, (int(clock.edges_us[0]), int(clock.edges_us[-1])), kernel


def run_duckdb(city: Path) -> dict:
    from shoal.engine.engine import DuckEngine
    from shoal.events.readers import SiteEvents
    from shoal.events.source import open_source

    sites, window, kernel = _world(city)
    events = SiteEvents(source=open_source(str(city / "events")), sites=sites, window_us=window)
    DuckEngine().sum_users([next(iter(events)).slice(0, 1000)], kernel)  # compiled kernels are loaded
    rows = 0

    def count(what: str, n: int) -> None:
        nonlocal rows
        rows += n if what == "read" else 0

    with Memory() as memory:
        began = time.perf_counter()
        sums = DuckEngine().sum_users(events, kernel, count)
        seconds = time.perf_counter() - began
    return {
        "events": rows,
        "partitions": 0,
        "seconds": seconds,
        "peak_gb": memory.peak_gb,
        "digest": _digest(sums),
    }


def run_spark(city: Path, partitions: int, address: str) -> dict:
    from shoal.engine.spark.engine import SparkEngine
    from shoal.events.readers import SiteEvents
    from shoal.events.schema import SourcePlan

    sites, window, kernel = _world(city)
    conf = {
        "spark.master": address,
        "spark.executor.memory": "1g",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "true",
    }
    with SparkEngine(conf, partitions=partitions) as engine:
        _warm(engine, kernel)
        source = engine.open_source(SourcePlan(paths=(str(city / "events"),)))
        events = SiteEvents(source=source, sites=sites, window_us=window)
        with Memory() as memory:
            began = time.perf_counter()
            sums = engine.sum_users(events, kernel)
            seconds = time.perf_counter() - began
        time.sleep(2)  # its page is a little behind
        told = _stages(engine.jobs.session.sparkContext.uiWebUrl)
        rows = source.frame().count()
    return {
        "events": rows,
        "partitions": partitions,
        "seconds": seconds,
        "peak_gb": memory.peak_gb,
        "task_gb": memory.task_gb,
        "digest": _digest(sums),
        **told,
    }


def _warm(engine, kernel) -> None:
    """Workers import what they need and load the compiled kernel."""
    import pyarrow as pa

    rows = range(1000)
    times = [int(kernel.edges_us[0])] * len(rows)
    batch = pa.record_batch(
        {"user": list(rows), "time_us": times, "site": pa.array([0] * len(rows), pa.int32())}
    )
    asked, engine.jobs.partitions = engine.jobs.partitions, 8
    engine.sum_users([batch], kernel)
    engine.jobs.partitions = asked


def _stages(page: str | None) -> dict:
    """Bytes shuffled and core-seconds of the last job's stages, as Spark counts them."""

    def asked(path: str):
        return json.load(urllib.request.urlopen(f"{page}/api/v1/applications{path}", timeout=30))

    name = asked("")[0]["id"]
    stages = asked(f"/{name}/stages?status=complete")
    reading = max(stages, key=lambda stage: stage["inputBytes"])
    after = [stage for stage in stages if stage["stageId"] > reading["stageId"]]
    return {
        "shuffle_mb": reading["shuffleWriteBytes"] / 1e6,
        "read_s": reading["executorRunTime"] / 1e3,
        "sum_s": sum(stage["executorRunTime"] for stage in after) / 1e3,
    }


def _digest(sums) -> str:
    digest = hashlib.sha256()
    for name in sorted(sums):
        digest.update(name.encode() + sums[name].tobytes())
    return digest.hexdigest()


class Memory:
    """Watches the memory of this process and of all Spark processes of this user, a few times a second."""

    def __enter__(self) -> Memory:
        self.peak_gb, self.task_gb = 0.0, 0.0
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(0.3):
            every, tasks = [], [0.0]
            for process in Path("/proc").iterdir():
                if not process.name.isdecimal():
                    continue
                try:
                    command = (process / "cmdline").read_bytes()
                    mine = process.name == str(os.getpid())
                    if not mine and b"spark" not in command:
                        continue
                    share = _pss_gb(process)
                except (OSError, IndexError):
                    continue
                every.append(share)
                if b"pyspark.daemon" in command or b"pyspark/daemon" in command:
                    tasks.append(share)
            self.peak_gb = max(self.peak_gb, sum(every))
            self.task_gb = max(self.task_gb, *tasks)


def _pss_gb(process: Path) -> float:
    text = (process / "smaps_rollup").read_text()
    return int(text.split("\nPss:")[1].split()[0]) * 1024 / 1e9


if __name__ == "__main__":
    if "--only" in sys.argv:
        which, folder, parts, master = sys.argv[-4:]
        found = run_duckdb(Path(folder)) if which == "duckdb" else run_spark(Path(folder), int(parts), master)
        print(json.dumps(found))
    else:
        main(quick="--quick" in sys.argv)
