"""One file beside the ledger per run in progress: a lock that a dead process drops, and an unfinished commit.

A second run of the same key finds the file locked and waits, so it never pays for what the first one makes.
A run whose commit fails leaves the token of its reserve in the file: the next run of the key commits with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import LedgerError

WAIT_SECONDS = 30.0  # for another run of the same key, before this one is refused
_POLL_SECONDS = 0.1


@dataclass
class RunFile:
    """A locked file of one key. What is kept in it survives the process; an empty file is removed."""

    handle: int = -1  # of no file: a store without a place for one

    def keep(self, record: dict[str, Any]) -> None:
        """Write the record and sync it. A disk that takes no more costs only the free retry."""
        with suppress(OSError):
            self._write(json.dumps(record).encode())

    def kept(self) -> dict[str, Any] | None:
        """The record of a run that could not commit, if there is a whole one."""
        return _record(os.pread(self.handle, 1 << 16, 0)) if self._is_private() else None

    def forget(self) -> None:
        with suppress(OSError):
            self._write(b"")

    def _write(self, text: bytes) -> None:
        if not self._is_private():
            return
        os.ftruncate(self.handle, 0)
        os.pwrite(self.handle, text, 0)
        os.fsync(self.handle)

    def _is_private(self) -> bool:
        """Whether there is a file, and nobody else made it or may read it: it will hold a token."""
        if self.handle < 0:
            return False
        status = os.fstat(self.handle)
        return status.st_uid == os.geteuid() and status.st_mode & 0o077 == 0


@contextmanager
def hold(ledger: Path, population: str, key: str) -> Iterator[RunFile]:
    """Lock the file of a key; refuses if another live run keeps it for longer than `WAIT_SECONDS`."""
    name = hashlib.sha256(json.dumps([population, key]).encode()).hexdigest()[:32]
    path = ledger.with_name(f"{ledger.name}.run-{name}")
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while (handle := _lock(path)) is None:
            if time.monotonic() >= deadline:
                raise LedgerError(
                    "run-busy",
                    "another process is making this release: same plan, run id and population.",
                    "Wait until it ends and run the same command again: if it succeeded, that costs nothing.",
                )
            time.sleep(_POLL_SECONDS)
    except OSError as error:
        raise LedgerError(
            "ledger-unwritable",
            f"{path} could not be opened ({error.strerror}).",
            "Check the folder of the ledger and its permissions.",
        ) from error
    try:
        yield RunFile(handle)
    finally:
        if os.fstat(handle).st_size == 0:
            path.unlink(missing_ok=True)
        os.close(handle)


def unfinished(ledger: Path) -> list[dict[str, Any]]:
    """The records of all runs that could not commit."""
    found = []
    for path in sorted(ledger.parent.glob(f"{ledger.name}.run-*")):
        with suppress(OSError):
            found.append(_record(path.read_bytes()))
    return [record for record in found if record is not None]


def _lock(path: Path) -> int | None:
    """The locked file, or None if another process has it (or removed it just now)."""
    handle = open_or_create(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(handle)):
                return handle
    except BlockingIOError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def open_or_create(path: Path) -> int:
    """The file to read and write; 0600 if it is new, and never behind a link."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            with suppress(FileExistsError):  # made just now by another process
                return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)


def _record(text: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(text)
    except ValueError:
        return None
    fields = {"population", "reservation", "token", "cost_nano", "currency", "manifest_sha256", "path"}
    return record if isinstance(record, dict) and record.keys() == fields else None
