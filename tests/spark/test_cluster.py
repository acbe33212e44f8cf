"""A real cluster on loopback: a worker is killed in mid-run; the run key is written nowhere."""

import base64
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from tests.spark.conftest import HOUR, SITES, START

from shoal.engine.engine import DuckEngine
from shoal.engine.visits import VisitKernel
from shoal.events.readers import SiteEvents
from shoal.events.source import open_source
from shoal.privacy.ledger import open_ledger
from shoal.scratch import Scratch

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "cluster.py"
KEY = b"\x9e\x01Qz\xf3\x88kk\x10\xd2\xc5\x07JJ\xe1\x99"  # sixteen bytes that nothing else writes
SIGNED = [byte - 256 if byte > 127 else byte for byte in KEY]  # as Java writes bytes
FORMS = (
    *(base64.b64encode(b"x" * shift + KEY).decode()[4:-4] for shift in range(3)),
    *(", ".join(map(str, SIGNED)), " ".join(map(str, SIGNED)), ",".join(map(str, SIGNED))),
    *(KEY.hex(), KEY.hex(" "), base64.b64encode(KEY).decode()[:-3], repr(KEY)[2:-1]),
    *(str(list(KEY))[1:-1], str(int.from_bytes(KEY[:8], "little")), str(int.from_bytes(KEY[8:], "little"))),
)
PARTS = 64

RUN = """
import json, sys, urllib.request
import numpy as np
from shoal.engine.spark.engine import SparkEngine
from shoal.engine.visits import VisitKernel
from shoal.events.readers import SiteEvents
from shoal.events.schema import SourcePlan

master, folder, out, logs = sys.argv[1:5]
conf = {
    "spark.master": master, "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.log.level": "INFO", "spark.ui.enabled": "true",
    "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false",
    "spark.eventLog.dir": "file://" + logs,
}
sites = tuple(f"S{i}" for i in range(12))
start, hour = 1_772_406_000_000_000, 3_600_000_000
key = bytes.fromhex(sys.stdin.readline().strip())
kernel = VisitKernel(
    edges_us=np.arange(start, start + 169 * hour, hour), sites=12, ell=7, cap=40, run_key=key
)
with SparkEngine(conf, partitions=64) as engine:
    print("page", engine.jobs.session.sparkContext.uiWebUrl, flush=True)
    source = engine.open_source(SourcePlan(paths=(folder,)))
    events = SiteEvents(source=source, sites=sites, window_us=(start, start + 168 * hour))
    print("summing", flush=True)
    sums = engine.sum_users(events, kernel)
    np.savez(out, **sums)
    print("done", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The example's cluster: its folder and address."""
    monkeypatch.setenv("SPARK_DAEMON_JAVA_OPTS", "-XX:TieredStopAtLevel=1")  # for runs of seconds
    named = importlib.util.spec_from_file_location("example_cluster", EXAMPLE)
    example = importlib.util.module_from_spec(named)
    named.loader.exec_module(example)
    folder = tmp_path / "cluster"
    address = example.start(folder, memory="512m")
    yield example, folder, address
    example.stop(folder)


def stages_of(page):
    """Stages with their tasks, from the page of the driver."""

    def asked(path):
        return json.load(urllib.request.urlopen(f"{page}/api/v1/applications{path}", timeout=10))

    name = asked("")[0]["id"]
    return asked(f"/{name}/stages"), asked, name


@pytest.mark.exhaustive
def test_a_killed_worker_changes_nothing_and_the_key_is_nowhere(cluster, events, tmp_path):
    example, folder, address = cluster
    data, out, logs = events(), tmp_path / "sums.npz", tmp_path / "events-log"
    logs.mkdir()
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, address, str(data), str(out), str(logs)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    heard: list[str] = []
    listener = threading.Thread(target=lambda: heard.append(run.stderr.read()), daemon=True)
    listener.start()
    run.stdin.write(KEY.hex() + "\n")
    run.stdin.flush()
    page = run.stdout.readline().split()[1]
    assert run.stdout.readline() == "summing\n"
    killed = kill_in_the_middle(example, folder, page)
    assert run.stdout.readline() == "done\n", heard
    shown = read_page(page)
    run.communicate("\n", timeout=60)
    listener.join()

    kernel = VisitKernel(
        edges_us=np.arange(START, START + 169 * HOUR, HOUR), sites=12, ell=7, cap=40, run_key=KEY
    )
    described = SiteEvents(source=open_source(data), sites=SITES, window_us=(START, START + 168 * HOUR))
    here = DuckEngine().sum_users(described, kernel)
    with np.load(out) as there:
        for name, values in here.items():
            np.testing.assert_array_equal(values, there[name], err_msg=name)
    assert 0 < killed < PARTS, "the worker was not killed in the middle"
    log = "".join(path.read_text() for path in logs.rglob("*") if path.is_file())
    assert "SparkListenerExecutorRemoved" in log
    texts = {"event log": log, "page": shown, "driver's log": "".join(heard)}
    for path in [*folder.rglob("*.log"), *folder.rglob("stderr"), *folder.rglob("stdout")]:
        texts[str(path.relative_to(folder))] = path.read_text(errors="replace")
    assert any("MapInArrow" in text for text in texts.values())
    assert len(texts) >= 6
    for where, text in texts.items():
        for form in (
            KEY.hex(),
            KEY.hex(" "),
            base64.b64encode(KEY).decode()[:-3],
            repr(KEY)[2:-1],
            str(list(KEY))[1:-1],
        ):
            assert form not in text, where


def kill_in_the_middle(example, folder, page):
    """Kill a worker with its executor once tasks of the second stage are done; how many were."""
    processes = json.loads((folder / "cluster.json").read_text())
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            stages, _, _ = stages_of(page)
        except (OSError, IndexError):
            time.sleep(0.05)
            continue
        summing = [stage for stage in stages if stage["numTasks"] == PARTS and stage["numCompleteTasks"]]
        if summing:
            example.kill(processes["worker-2"])
            return summing[0]["numCompleteTasks"]
        time.sleep(0.05)
    return 0


def read_page(page):
    """All that the driver's page tells: environment, jobs, stages, executors, plans."""
    _, asked, name = stages_of(page)
    parts = (
        "environment",
        "jobs",
        "stages",
        "executors",
        "allexecutors",
        "sql?details=true&planDescription=true",
    )
    return "".join(json.dumps(asked(f"/{name}/{part}")) for part in parts)


def exposed(root, since):
    """Files below `root`, written since then, that another account may read."""
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if os.lstat(os.path.join(folder, name)).st_mode & 0o011]
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                about = os.lstat(path := os.path.join(folder, name))
                if about.st_mode & 0o044 and about.st_mtime >= since and about.st_uid == os.geteuid():
                    yield path


def check_nothing_is_exposed(temp, since):
    """In the run's own temporary folder no file at all, and elsewhere none with a user's id."""
    assert list(exposed(temp, since)) == []
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        for left in (*Path(place).glob("blockmgr-*"), *Path(place).glob("*spark*")):
            for path in exposed(left, since):
                with contextlib.suppress(FileNotFoundError):
                    assert b"user-" not in Path(path).read_bytes(), path


@pytest.mark.exhaustive
def test_a_lost_driver_leaves_the_reserve_spent_and_nothing_written(tmp_path, events):
    """Killed while Spark sums: the ledger has the spend, no release and no draft that looks like one.

    Nothing that another account can read is left, now or before, and no module of the working directory ran.
    """
    data, since, temp = events(text_users=True), time.time(), tmp_path / "temp"
    temp.mkdir()
    temp.chmod(0o1777)
    for module in ("numpy", "pyarrow", "pandas", "pyspark", "shoal"):
        (tmp_path / f"{module}.py").write_text(
            f"open({str(tmp_path / 'planted')!r}, 'w')\nraise ImportError\n"
        )
    (tmp_path / "sites.csv").write_text(
        "site,lon,lat\n" + "".join(f"S{i},{2.3 + 0.01 * i},{48.8 + 0.005 * i}\n" for i in range(12))
    )
    ledger_path = tmp_path / "ledger.sqlite"
    environment = {**os.environ, "SHOAL_LEDGER": str(ledger_path), "TMPDIR": str(temp)}
    ledger = open_ledger(ledger_path)
    ledger.create("town", currency="rho", limit_nano=10**9)
    run = subprocess.Popen(
        [
            Path(sys.executable).with_name("shoal"), "density", "run", str(data), "--sites", "sites.csv",
            "--box", "2.2,48.7,2.5,48.9", "--cell-m", "2000", "--start", "2026-03-02", "--end", "2026-03-09",
            "--time-zone", "Europe/Paris", "--population", "town", "--epsilon", "1", "--method", "gaussian",
            "--out", "release", "--owner", "owner", "--engine", "spark", "--partitions", "200",
            "--spark-conf", "spark.master=local[1]",
            "--spark-conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
        ],
        env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 180
    while not open_ledger(ledger_path).state().population("town").spends and time.monotonic() < end:
        assert run.poll() is None, run.stderr.read()
        time.sleep(0.05)
    while not list(temp.glob("shoal-scratch-*/blockmgr-*/*/shuffle_*.data")) and time.monotonic() < end:
        assert run.poll() is None, run.stderr.read()
        time.sleep(0.05)
    check_nothing_is_exposed(temp, since)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    check_nothing_is_exposed(temp, since)
    (left,) = temp.glob("shoal-scratch-*/blockmgr-*")
    shuffled = [path.read_bytes() for path in left.rglob("shuffle_*.data")]
    assert any(shuffled)
    assert not any(b"user-" in content for content in shuffled), "files of the shuffle are not encrypted"
    assert not (tmp_path / "planted").exists()
    with Scratch(temp):  # as the next session makes it
        assert not left.parent.exists()
    population = open_ledger(ledger_path).state().population("town")
    assert population.spent_nano > 0
    assert not population.released
    assert not (tmp_path / "release").exists()
    assert open_ledger(ledger_path).verify() == []
