"""One small Spark per test process; all tests here are skipped, with the reason, where it cannot run."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

HERE = Path(__file__).parent
START = 1_772_406_000_000_000  # 2026-03-02 00:00 in Paris
HOUR = 3_600_000_000
SITES = tuple(f"S{i}" for i in range(12))


def why_not() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed"
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and os.path.exists(os.path.join(home, "bin", "java")))):
        return "there is no Java here"
    return None


def pytest_collection_modifyitems(items):
    reason = why_not()
    for item in items:
        if HERE in item.path.parents and reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def spark():
    """A session on two cores of this machine, stopped at the end."""
    from shoal.engine.spark.session import open_session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    quick = "-XX:+ExitOnOutOfMemoryError -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for jobs of a second
    session, _ = open_session(
        {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": quick,
            "spark.sql.adaptive.enabled": "false",
        }
    )
    yield session
    session.stop()


@pytest.fixture
def engine(spark):
    """engine(partitions): an engine on the shared session."""
    from shoal.engine.spark.engine import SparkEngine

    made = []

    def make(partitions=None):
        made.append(SparkEngine(session=spark, partitions=partitions))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def events_table():
    """Events of 300 users at 12 sites in a week: some outside the window, some repeated."""
    rng = np.random.default_rng(5)
    count = 20_000
    user = (rng.pareto(1.0, count) * 20).astype(np.int64) % 300
    time = START + rng.integers(-HOUR, 169 * HOUR, count) // 7 * 7
    site = rng.integers(0, len(SITES), count)
    again = rng.integers(0, count, 500)
    order = np.concatenate([np.arange(count), again])
    return pa.table(
        {
            "user": user[order],
            "time": pa.array(time[order], pa.timestamp("us", "UTC")),
            "site": pa.array([SITES[i] for i in site[order]]),
        }
    )


@pytest.fixture(scope="session")
def events(tmp_path_factory, events_table):
    """events(shuffled, kind): the folder of the same events in three files."""

    def write(shuffled=False, text_users=False):
        folder = tmp_path_factory.mktemp("events")
        table = events_table
        if shuffled:
            table = table.take(np.random.default_rng(9).permutation(table.num_rows))
        if text_users:
            named = pa.array([f"user-{value}é" for value in table["user"].to_pylist()])
            table = table.set_column(0, "user", named)
        for at in range(3):
            rows = table.slice(at * 7_000, 7_000)
            pq.write_table(rows, folder / f"part-{at}.parquet", row_group_size=2_000)
        return folder

    return write


@pytest.fixture(scope="session")
def points(tmp_path_factory):
    """Points of trips of 120 users in a city of 2 by 2 km, a few of them far away, in two files."""
    rng = np.random.default_rng(6)
    rows = []
    for user in range(120):
        at = START + int(rng.integers(0, 20 * HOUR))
        for _ in range(int(rng.integers(1, 6))):
            x, y = rng.uniform(0, 2000, 2)
            for _ in range(int(rng.integers(2, 30))):
                rows.append((user, at, x, y))
                at += int(rng.integers(10, 90)) * 1_000_000
                x, y = x + rng.normal(0, 80), y + rng.normal(0, 80)
            at += HOUR
    rng.shuffle(rows)
    user, time, x, y = zip(*rows, strict=True)
    table = pa.table({"user": user, "time": pa.array(time, pa.timestamp("us", "UTC")), "x": x, "y": y})
    folder = tmp_path_factory.mktemp("points")
    half = table.num_rows // 2
    pq.write_table(table.slice(0, half), folder / "part-0.parquet")
    pq.write_table(table.slice(half), folder / "part-1.parquet")
    return folder
