"""A Spark cluster on this machine: one master and two workers on the loopback address.

    python examples/spark/cluster.py start FOLDER     prints the address of the master
    python examples/spark/cluster.py stop FOLDER

FOLDER takes logs, scratch files and the list of processes. A cluster of your own is started by its
operators; this one is for trying things and for tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HOST = "127.0.0.1"
WAIT_SECONDS = 60


def start(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> str:
    """Start master and workers; returns spark://... once all workers have registered."""
    folder.mkdir(parents=True, exist_ok=True)
    port, page = free_port(), free_port()
    address = f"spark://{HOST}:{port}"
    processes = {"page": page, "address": address}
    processes["master"] = spawn(
        folder, "master", "org.apache.spark.deploy.master.Master", "--host", HOST,
        "--port", str(port), "--webui-port", str(page),
    )  # fmt: skip
    wait_for(page, workers=0)
    for number in range(1, workers + 1):
        work = folder / f"work-{number}"
        processes[f"worker-{number}"] = spawn(
            folder, f"worker-{number}", "org.apache.spark.deploy.worker.Worker", "--host", HOST,
            "--cores", str(cores), "--memory", memory, "--webui-port", "0", "--work-dir", str(work), address,
        )  # fmt: skip
    (folder / "cluster.json").write_text(json.dumps(processes))
    try:
        wait_for(page, workers=workers)
    except TimeoutError:
        stop(folder)
        raise
    return address


def stop(folder: Path) -> None:
    """Stop what `start` has started; executors end with their worker."""
    listed = folder / "cluster.json"
    if not listed.exists():
        return
    processes = json.loads(listed.read_text())
    for name, process in processes.items():
        if name.startswith(("master", "worker")):
            kill(process)
    listed.unlink()


def kill(process: int) -> None:
    """The process and all it has started, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def spawn(folder: Path, name: str, *command: str) -> int:
    """A Java process of Spark in a group of its own; what it prints goes to a file."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "PYSPARK_PYTHON": sys.executable,
    }
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    return process.pid


def wait_for(page: int, workers: int) -> None:
    """Until the master's page counts so many workers."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            answer = urllib.request.urlopen(f"http://{HOST}:{page}/json/", timeout=5)
            if json.load(answer)["aliveworkers"] >= workers:
                return
        time.sleep(0.2)
    raise TimeoutError(f"the cluster did not come up in {WAIT_SECONDS} seconds; its logs are in the folder")


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return found.getsockname()[1]


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("start", "stop"):
        sys.exit(__doc__)
    where = Path(sys.argv[2]).resolve()
    if sys.argv[1] == "start":
        print(start(where))
    else:
        stop(where)
