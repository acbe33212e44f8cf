"""kill -9 at every step of a release, 500 times: no release without its spend, no spend lost.

The child counts the lines it executes in the ledger and in the release package and kills itself at line N;
N walks evenly over the whole run; `make test` has every tenth of these lines, others on another day. Nothing
in the code under test knows about it. A kill cannot lose what the system holds in memory, so the folders lie
on a memory file system where there is one: on a disk most of the time is fsync.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from tests.loops import tiers
from tests.small import LOSS, manifest, request_for

from shoal.privacy.ledger import Ledger, open_ledger
from shoal.release.folder import ReleaseRequest, release
from shoal.release.manifest import Manifest
from shoal.release.readme import recipient_readme
from shoal.release.verify import check_release

KILLS = 500
DAILY = 10  # in every run each tenth kill, from another one each day
LIMIT = 1000
WATCHED = tuple(os.path.join("shoal", *package) + os.sep for package in (("privacy", "ledger"), ("release",)))


def build(folder: Path) -> Manifest:
    (folder / "density.csv").write_text("zone,people\n1,2\n")
    written = manifest()
    (folder / "README.md").write_text(recipient_readme(written, {}))
    return written


class Telling(Ledger):
    """Tells the parent through a pipe what the ledger has acknowledged."""

    pipe = -1

    def reserve(self, *given, **named):
        answer = super().reserve(*given, **named)
        os.write(self.pipe, b"r")
        return answer

    def commit(self, *given, **named):
        answer = super().commit(*given, **named)
        os.write(self.pipe, b"c")
        return answer


def run(folder: Path, pipe: int) -> None:
    ledger = Telling(open_ledger(folder / "ledger.sqlite").store)
    ledger.pipe = pipe
    release(ledger, request(folder), build)


def request(folder: Path) -> ReleaseRequest:
    return request_for(folder / "out", "week 1")


def child(folder: Path, kill_at: int | None) -> tuple[int, bytes]:
    """Run a release in a fork that dies at its line `kill_at`; its wait status, and what it was told."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        lines = 0

        def on_line(frame, event, _):
            nonlocal lines
            if event == "line":
                lines += 1
                if lines == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return on_line

        def on_call(frame, event, _):
            return on_line if any(package in frame.f_code.co_filename for package in WATCHED) else None

        status = 1
        try:
            sys.settrace(on_call)
            run(folder, write)
            sys.settrace(None)
            os.write(write, b"%d" % lines)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        told = stream.read()
    return os.waitpid(pid, 0)[1], told


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="shoal-kill-") as folder:
        yield Path(folder)


@pytest.fixture
def template(place: Path) -> Path:
    folder = place / "template"
    folder.mkdir()
    open_ledger(folder / "ledger.sqlite").create("town", currency="rho", limit_nano=LIMIT)
    return folder


def check_after_kill(folder: Path, told: bytes) -> str:
    """The promises that must hold at any moment; returns where the kill left the release."""
    ledger = open_ledger(folder / "ledger.sqlite")
    assert ledger.verify() == []
    population = ledger.state().population("town")
    reserves = len(population.spends)
    stored = population.released.get("week 1")
    assert population.spent_nano == reserves * LOSS.rho_nano
    if b"r" in told:
        assert reserves == 1, "an acknowledged reserve was lost"
    if b"c" in told:
        assert stored is not None, "an acknowledged commit was lost"
    visible = [path for path in folder.iterdir() if not path.name.startswith((".", "ledger"))]
    for path in visible:
        checked = check_release(path)
        assert checked.problems == ()
        assert stored is not None
        assert stored.manifest_sha256 == checked.manifest_sha256, "a release without its commit"
    for path in folder.glob(".out.staging-*"):
        assert path.stat().st_mode & 0o077 == 0
    if visible:
        return "in place"
    if stored:
        return "committed"
    if ledger.unfinished() & {spend.reservation for spend in population.spends}:
        return "sealed"
    return "reserved" if reserves else "nothing"


def check_run_again(folder: Path, stage: str) -> None:
    """The same command again finishes for free what was sealed, and pays again for what was not."""
    ledger = open_ledger(folder / "ledger.sqlite")
    before = ledger.state().population("town")
    answer = release(ledger, request(folder), build)
    after = ledger.state().population("town")
    assert answer.reused == (stage in ("sealed", "committed", "in place"))
    paid_now = 0 if answer.reused else LOSS.rho_nano
    assert after.spent_nano == before.spent_nano + paid_now
    assert check_release(folder / "out").manifest_sha256 == answer.manifest_sha256
    assert ledger.find("town", "week 1").manifest_sha256 == answer.manifest_sha256
    assert sorted(path.name for path in folder.iterdir()) == [
        "ledger.sqlite",
        "ledger.sqlite.head",
        "out",
    ]
    assert ledger.verify() == []


@pytest.mark.exhaustive
def test_kill_at_every_step(template: Path, place: Path) -> None:
    stages = kill_at_steps(template, place, range(KILLS))
    assert set(stages) == {"nothing", "reserved", "sealed", "committed", "in place"}


def test_kill_at_a_tenth_of_the_steps(template: Path, place: Path) -> None:
    stages = kill_at_steps(template, place, range(date.today().toordinal() % DAILY, KILLS, DAILY))
    assert {"nothing", "reserved", "in place"} <= set(stages)


def kill_at_steps(template: Path, place: Path, kills: range) -> dict[str, int]:
    """How many kills left the release at each stage."""
    shutil.copytree(template, place / "whole")
    status, told = child(place / "whole", None)
    assert status == 0
    lines = int(told.lstrip(b"rc"))
    assert lines > KILLS
    stages: dict[str, int] = {}
    for kill in kills:
        folder = place / f"kill{kill}"
        shutil.copytree(template, folder)
        status, told = child(folder, 1 + kill * (lines - 1) // (KILLS - 1))
        assert os.WIFSIGNALED(status)
        assert os.WTERMSIG(status) == signal.SIGKILL
        stage = check_after_kill(folder, told)
        stages[stage] = stages.get(stage, 0) + 1
        check_run_again(folder, stage)
        shutil.rmtree(folder)
    print(f"{len(kills)} kills over {lines} lines: {stages}")
    return stages


@pytest.mark.parametrize("kills", tiers([15, 60], (15,)))
def test_kill_at_any_moment(kills: int, template: Path, place: Path) -> None:
    """Kills by the clock also land inside SQLite and the system calls."""
    shutil.copytree(template, place / "whole")
    began = time.perf_counter()
    child(place / "whole", None)
    seconds = time.perf_counter() - began
    for kill in range(kills):
        folder = place / f"kill{kill}"
        shutil.copytree(template, folder)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                run(folder, write)
            finally:
                os._exit(0)
        os.close(write)
        time.sleep(seconds * kill / kills)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with os.fdopen(read, "rb") as stream:
            told = stream.read()
        check_run_again(folder, check_after_kill(folder, told))
        shutil.rmtree(folder)
