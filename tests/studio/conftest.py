"""A live server on a folder of its own, and a small city for it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import httpx
import pytest

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city
from shoal.privacy.accounting import rho_for
from shoal.privacy.ledger import open_ledger


@pytest.fixture(autouse=True)
def own_ledger(tmp_path, monkeypatch):
    """No test looks at the ledger of the person who runs it."""
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))


class Live:
    """A server in a process of its own."""

    def __init__(self, folder, environment, cwd=None):
        self.folder, self.environment, self.cwd = folder, environment, cwd
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "shoal.cli.main",
                "studio",
                "--port",
                "0",
                "--no-open",
                "--folder",
                self.folder,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=self.cwd,
        )
        said = ""
        while (found := re.search(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", said)) is None:
            line = self.process.stdout.readline()
            assert line, f"the server ended: {said}"
            said += line
        self.address, self.port, self.token = found.group(0), int(found.group(1)), found.group(2)
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}/api", headers={"x-shoal-token": self.token}, timeout=60
        )

    def get(self, path):
        return self.client.get(path)

    def post(self, path, body=None):
        return self.client.post(path, json=body or {})

    def ended(self, run, seconds=120):
        """The run once it has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            told = self.get(f"/runs/{run}").json()
            if told["status"] not in ("waiting", "running"):
                return told
            time.sleep(0.1)
        raise AssertionError(f"the run did not end: {told}")

    def kill(self):
        """kill -9: nothing is told to anybody."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)


@pytest.fixture
def serve():
    """Starts servers, and stops them at the end."""
    started = []

    def start(folder, cwd=None, **environment):
        started.append(Live(folder, {**os.environ, **environment}, cwd))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def live(tmp_path, serve):
    """A server on an empty folder."""
    return serve(tmp_path / "work")


@pytest.fixture(scope="session")
def small_city(tmp_path_factory):
    """Phone events of a few people for two weeks, zones and sites; made once, copied by who needs it."""
    folder = tmp_path_factory.mktemp("small") / "city"
    preset = replace(preset_named("town"), users=800, weeks=2, zones=30, sites=40, what=("events",))
    simulate_city(preset, folder, seed=1, parts=1)
    return folder


SOURCE = {
    "name": "Small town",
    "paths": ["city/events/*.parquet"],
    "zones": "city/zones.geojson",
    "sites": "city/sites.csv",
    "time_zone": "Europe/Paris",
    "start": "2026-03-09",
    "end": "2026-03-16",
    "users": 800,
    "population": "town",
}


@pytest.fixture
def town_form():
    return dict(SOURCE)


@pytest.fixture
def town(live, small_city):
    """The server with a small town registered, and a population for it."""
    shutil.copytree(small_city, live.folder / "city")
    open_ledger().create("town", currency="rho", limit_nano=rho_for(4.0, 1e-6), delta=1e-6)
    live.source = live.post("/sources", SOURCE).json()["id"]
    return live
