"""Reads of the owner's files for the page, in a process of its own that can be killed.

    python -P -m shoal.studio.reading ROOT DESCRIPTOR

A file may be made to take hours or all memory. Then this process ends, not the page, and Ctrl-C ends both.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from shoal.errors import REPORT_IT, ShoalError, SourceError
from shoal.release.staging import limit_address_space

SECONDS = 60.0
MEMORY = 6 << 30  # of address space, most of which libraries reserve and never use


class Reader:
    """Sends one request after the other to the process, and starts it again after it was killed."""

    def __init__(self, root: Path, seconds: float = SECONDS) -> None:
        self.root, self.seconds = root, seconds
        self._process: subprocess.Popen | None = None
        self._pipe: Connection | None = None
        self._turn = threading.Lock()
        self._closed = False

    def __call__(self, what: str, argument: Any) -> Any:
        """The answer to a request of `_answers`; errors are raised here as there."""
        with self._turn:
            pipe = self._pipe or self.start()
            try:
                pipe.send((what, argument))
                if not pipe.poll(self.seconds):
                    raise TimeoutError
                error, value = pipe.recv()
            except (OSError, EOFError) as failure:  # TimeoutError is an OSError
                self._kill()
                late = isinstance(failure, TimeoutError)
                why = f"more than {self.seconds:g} seconds" if late else "too much memory"
                raise SourceError(
                    "read-stopped",
                    f"reading a file took {why}.",
                    "Look at the files of the source, or use the command.",
                ) from None
        if error is not None:
            raise error
        return value

    def start(self) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                # -P: nothing in the folder we are in is ever taken for a module
                [sys.executable, "-P", "-m", "shoal.studio.reading", str(self.root), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C at the server's terminal reaches the server alone
            )
        self._pipe = Connection(ours.detach())
        if self._closed:
            self._kill()
        return self._pipe

    def close(self) -> None:
        """Ends the process, and with it the request that waits for it."""
        self._closed = True
        self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._pipe = None


def _answers(root: Path) -> dict[str, Any]:
    from shoal.privacy.ledger import open_ledger
    from shoal.studio.plans import Planner
    from shoal.studio.sources import SourceCard, SourceShelf
    from shoal.studio.workspace import Workspace

    work = Workspace(root)
    shelf = SourceShelf(work)
    planner = Planner(work, shelf)
    return {
        "opened": lambda card: shelf.opened(SourceCard(**card)),
        "zones": lambda card: shelf.zones(SourceCard(**card)),
        "sites": lambda card: shelf.sites(SourceCard(**card)),
        "dry_run": lambda form: planner.dry_run(form, open_ledger()),
    }


def main() -> None:
    root, pipe = Path(sys.argv[1]), Connection(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_address_space(MEMORY)
    answers = _answers(root)
    while True:
        try:
            what, argument = pipe.recv()
        except EOFError:
            return
        signal.alarm(round(SECONDS) + 5)  # ends a read whose server was killed
        try:
            pipe.send((None, answers[what](argument)))
        except ShoalError as error:
            pipe.send((error, None))
        except MemoryError:
            return
        except Exception as error:
            message = f"shoal met a {type(error).__name__} it did not expect."
            pipe.send((ShoalError("internal-error", message, REPORT_IT), None))
        signal.alarm(0)


if __name__ == "__main__":
    main()
