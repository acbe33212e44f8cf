"""Runs: one process at a time, the others wait. Each has a folder that outlives the page and the server.

run.json         the job and the time of the request
progress.jsonl   stages and how far they are; facts that must be known if it dies
result.json      how it ended; missing: it runs, waits, or died with the server
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.errors import LedgerError, PlanError, SourceError
from shoal.privacy.ledger import open_ledger
from shoal.studio.guard import new_name
from shoal.studio.worker import aftermath, now
from shoal.studio.workspace import Workspace, read_json, write_json

MOST_WAITING = 20
MOST_SHOWN = 100
KILL_AFTER_S = 15.0


@dataclass
class Live:
    """A run of this server that has not ended."""

    id: str
    process: subprocess.Popen | None = None  # None: it waits
    cancelled: bool = False


@dataclass
class Runs:
    """Starts, follows and stops runs."""

    work: Workspace
    _live: dict[str, Live] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    def start(self, job: dict[str, Any], title: str) -> dict[str, Any]:
        """Queue a job and return its snapshot."""
        with self._lock:
            if len(self._live) >= MOST_WAITING:
                raise PlanError("too-many-runs", f"{MOST_WAITING} runs wait already.", "Wait, or cancel one.")
            run = new_name()
            folder = self.work.runs / run
            folder.mkdir(mode=0o700)
            write_json(folder / "run.json", {"id": run, "title": title, "job": job, "asked_at": now()})
            self._live[run] = Live(run)
        self._next()
        return self.snapshot(run)

    def cancel(self, run: str) -> dict[str, Any]:
        """Request the run to stop, and kill it after a while. Reserved budget stays spent."""
        self._folder(run)
        with self._lock:
            live = self._live.get(run)
            if live is not None:
                live.cancelled = True
                if live.process is None:
                    self._live.pop(run)
                    self._end(run, {"status": "stopped"})
                else:
                    with contextlib.suppress(ProcessLookupError):
                        live.process.terminate()
                    timer = threading.Timer(KILL_AFTER_S, _kill, (live.process,))
                    timer.daemon = True
                    timer.start()
        return self.snapshot(run)

    def close(self) -> None:
        """Stop all runs when the server stops."""
        with self._lock:
            self._closed = True
            processes = [live.process for live in self._live.values() if live.process is not None]
        for process in processes:
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()  # its sign that the server is gone
        for process in processes:
            try:
                process.wait(KILL_AFTER_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def all(self) -> list[dict[str, Any]]:
        """All runs, newest first."""
        folders = [path for path in self.work.runs.iterdir() if (path / "run.json").is_file()]
        folders.sort(key=lambda path: path.stat().st_ctime, reverse=True)
        known = [(path, read_json(path / "run.json")) for path in folders[: 2 * MOST_SHOWN]]
        known = [(path, request) for path, request in known if isinstance(request, dict)]
        known.sort(key=lambda each: each[1]["asked_at"], reverse=True)
        return [self.snapshot(path.name) for path, _ in known[:MOST_SHOWN]]

    def snapshot(self, run: str) -> dict[str, Any]:
        """Current state of a run, for the page."""
        folder = self._folder(run)
        request, result = read_json(folder / "run.json"), read_json(folder / "result.json")
        stages, facts = _progress(folder)
        live = self._live.get(run)
        status = result["status"] if result else "waiting" if live and live.process is None else "running"
        if result is None and live is None:
            status = "interrupted"
        snapshot = {
            "id": run,
            "title": request["title"],
            "job": request["job"]["do"],
            "about": {
                k: v
                for k, v in request["job"].items()
                if k in ("city", "source", "adversary", "name", "form")
            },
            "asked_at": request["asked_at"],
            "status": status,
            "stages": stages,
            "cancelling": bool(live and live.cancelled and result is None),
            "error": (result or {}).get("error"),
            "result": (result or {}).get("result"),
            "ended_at": (result or {}).get("at"),
            "aftermath": None,
        }
        if status in ("interrupted", "stopped", "failed"):
            snapshot["aftermath"] = self._aftermath(request, facts)
        return snapshot

    def ended(self, run: str) -> bool:
        return run not in self._live or (self._folder(run) / "result.json").is_file()

    def _aftermath(self, request: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
        """Whether the run of a release spent and published; other jobs spend nothing."""
        if request["job"]["do"] != "release" or "reservation" not in facts:
            return {"words": "Nothing was reserved and nothing was spent.", "spent": "", "released": False}
        out = Path(facts["out"])
        try:
            outcome = aftermath(open_ledger(), facts["population"], facts["reservation"], out)
        except LedgerError as error:
            return {"words": error.message, "spent": "", "released": False}
        return vars(outcome)

    def _folder(self, run: str) -> Path:
        folder = self.work.runs / run
        if not run.isalnum() or not (folder / "run.json").is_file():
            raise SourceError("no-such-run", "there is no such run.", "Choose one that is listed.")
        return folder

    def _next(self) -> None:
        """Start the run that has waited longest, if none is running."""
        with self._lock:
            if self._closed or any(live.process is not None for live in self._live.values()):
                return
            live = next(iter(self._live.values()), None)
            if live is None:
                return
            log = open(self.work.runs / live.id / "worker.log", "wb")  # noqa: SIM115
            live.process = subprocess.Popen(
                # -P: nothing in the folder we are in is ever taken for a module
                [sys.executable, "-P", "-m", "shoal.studio.worker", str(self.work.root), live.id],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C at the server's terminal reaches the server alone
            )
            log.close()
        threading.Thread(target=self._wait, args=(live,), daemon=True).start()

    def _wait(self, live: Live) -> None:
        process = live.process
        assert process is not None
        code = process.wait()
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
        if not (self.work.runs / live.id / "result.json").is_file():
            self._end(live.id, _died(code, live.cancelled))
        with self._lock:
            self._live.pop(live.id, None)
        self._next()

    def _end(self, run: str, outcome: dict[str, Any]) -> None:
        write_json(self.work.runs / run / "result.json", {**outcome, "at": now()})


def _died(code: int, cancelled: bool) -> dict[str, Any]:
    if cancelled:
        return {"status": "stopped"}
    how = "was killed, perhaps for want of memory" if code in (-9, 137) else f"ended with code {code}"
    error = {
        "code": "run-died",
        "message": f"the process of the run {how}.",
        "remedy": "See its log, try again.",
    }
    return {"status": "failed", "error": error}


def _kill(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.kill()


def _progress(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Stages in order with their progress, and the facts that the run noted."""
    stages: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    try:
        with open(folder / "progress.jsonl", encoding="utf-8") as file:
            lines = file.read(4_000_000).splitlines()
    except OSError:
        return stages, facts
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the last line of a process that died
        if "note" in entry:
            facts |= entry["note"]
        elif "at" in entry:
            stages.append(entry)
        elif stages:
            stages[-1] |= {"done": entry["done"]}
    return stages, facts
