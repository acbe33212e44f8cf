"""One run in a process of its own: it does the job, writes how far it is, and leaves its result.

    python -m shoal.studio.worker ROOT RUN

It ends with the server: the pipe that the server holds at its standard input closes when the server dies, and
the run then stops as if it had been cancelled. What was reserved stays spent; the ledger knows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

EVERY_S = 0.15  # between two lines of progress
PATIENCE_S = 10.0  # from being asked to stop to being stopped


class Told:
    """Progress as lines of JSON; stops where a stop was asked for."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.stopped = threading.Event()
        self.orphaned = threading.Event()  # the server is gone
        self._stage: dict[str, Any] = {}
        self._told = 0.0

    def stage(self, name: str, total: float | None = None) -> None:
        self.check()
        self._stage = {"stage": name, "total": total, "done": 0.0}
        self._write({**self._stage, "at": now()})

    def advance(self, amount: float) -> None:
        self.check()
        if not self._stage:
            return
        self._stage["done"] += amount
        if time.monotonic() - self._told > EVERY_S:
            self._write(dict(self._stage))

    def note(self, **facts: Any) -> None:
        """Something that must be known even if this process dies now."""
        self._write({"note": facts})
        os.fsync(self.file.fileno())

    def check(self) -> None:
        """An interrupt that landed inside a library's callback is swallowed there; here it is not lost."""
        if self.stopped.is_set() and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def _write(self, line: dict[str, Any]) -> None:
        self._told = time.monotonic()
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def main() -> None:
    root, run = Path(sys.argv[1]), sys.argv[2]
    from shoal.studio.workspace import Workspace, read_json, write_json

    work = Workspace(root)
    folder = work.runs / run
    with open(folder / "progress.jsonl", "a", encoding="utf-8") as file:
        told = Told(file)
        _listen(told)
        outcome = _outcome(work, read_json(folder / "run.json"), told)
        write_json(folder / "result.json", {**outcome, "at": now()})
    os._exit(0)  # threads of libraries must not keep a finished run alive


def _outcome(work: Any, asked: dict[str, Any], told: Told) -> dict[str, Any]:
    from shoal.errors import ResourceError, ShoalError

    try:
        from shoal.studio.jobs import do

        return {"status": "done", "result": do(asked["job"], work, told)}
    except KeyboardInterrupt:
        return {"status": _stop_of(told)}
    except ShoalError as error:
        if told.stopped.is_set():  # a flow wrapped the interrupt
            return {"status": _stop_of(told)}
        return {"status": "failed", "error": told_error(error)}
    except MemoryError:
        error = ResourceError("out-of-memory", "this machine has not enough memory for it.")
        return {"status": "failed", "error": told_error(error)}
    except Exception as error:
        if told.stopped.is_set():  # what a library made of it
            return {"status": _stop_of(told)}
        if os.environ.get("SHOAL_DEBUG"):
            raise
        return {
            "status": "failed",
            "error": {
                "code": "internal-error",
                "message": f"shoal met a {type(error).__name__} it did not expect.",
                "remedy": "Start the page with SHOAL_DEBUG=1 to see where, and please report it.",
            },
        }


def _stop_of(told: Told) -> str:
    return "interrupted" if told.orphaned.is_set() else "stopped"


def told_error(error: Any) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "remedy": error.remedy}


def _listen(told: Told) -> None:
    """Stop on SIGINT, SIGTERM, and when the server is gone; for good if that takes too long."""

    def stop(*_: object) -> None:
        told.stopped.set()
        threading.Timer(PATIENCE_S, os._exit, (137,)).start()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)

    def watch() -> None:
        sys.stdin.buffer.read()  # returns when the server's end is closed
        told.orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


if __name__ == "__main__":
    main()
