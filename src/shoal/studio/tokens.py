"""The token of a session, and tickets: addresses that open one file for a short while.

Neither is noise: they come from the operating system and only keep others out.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

TICKET_SECONDS = 120
MOST_TICKETS = 200


def new_token() -> str:
    return secrets.token_urlsafe(32)


def same_token(given: str, token: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def new_name() -> str:
    """The name of a run."""
    return secrets.token_hex(8)


@dataclass(frozen=True)
class Ticket:
    """What may be opened: a page to look at, or a file or folder to save."""

    path: Path
    save_as: str | None  # None: shown in a tab of its own
    until: float


@dataclass
class Tickets:
    """A browser cannot send our header when it opens a tab or saves a file; a ticket stands for it."""

    _open: dict[str, Ticket] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def issue(self, path: Path, save_as: str | None = None) -> str:
        name, now = secrets.token_urlsafe(32), time.monotonic()
        with self._lock:
            self._open = {key: each for key, each in self._open.items() if each.until > now}
            while len(self._open) >= MOST_TICKETS:
                self._open.pop(next(iter(self._open)))
            self._open[name] = Ticket(path, save_as, now + TICKET_SECONDS)
        return name

    def find(self, name: str) -> Ticket | None:
        with self._lock:
            found = self._open.get(name)
        return found if found is not None and found.until > time.monotonic() else None
