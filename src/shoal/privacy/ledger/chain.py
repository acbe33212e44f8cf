"""SHA-256 hash chain over the rows of a ledger.

Each row's digest covers the digest before it and the row's own canonical JSON, which carries its place:

>>> first = link(GENESIS, 1, {"kind": "population", "population": "town"})
>>> second = link(first.digest, 2, {"kind": "tuned", "population": "town"})
>>> [row.content["kind"] for row in read_chain([first, second])[0]]
['population', 'tuned']
>>> [finding.code for finding in read_chain([second, first])[1]]
['order', 'digest', 'order', 'digest']

The seam under the ledger: a store keeps rows in order and appends one at a time, alone.

All rules (budgets, keys, tokens) live above it in `book.py`, so a second store only has to be durable
and to run `decide` while nobody else can append.

One file beside the ledger per run in progress: a lock that a dead process drops, and an unfinished commit.

A second run of the same key finds the file locked and waits, so it never pays for what the first one makes.
A run whose commit fails leaves the token of its reserve in the file: the next run of the key commits with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shoal.errors import LedgerError

GENESIS = hashlib.sha256(b"shoal ledger 1").hexdigest()


@dataclass(frozen=True)
class Row:
    """A row read back: its content without the place, and its digest."""

    seq: int
    content: Mapping[str, Any]
    digest: str


def link(previous: str, seq: int, content: Mapping[str, Any]) -> StoredRow:
    """The stored form of `content` as row `seq` after the row with digest `previous`."""
    text = canonical({**content, "seq": seq})
    return StoredRow(seq, text, digest(previous, text))


def digest(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def canonical(content: Mapping[str, Any]) -> str:
    """JSON with sorted keys and no spaces. Floats are refused: money is exact integers."""
    _refuse_floats(content)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def read_chain(stored: Iterable[StoredRow]) -> tuple[list[Row], list[Finding]]:
    """Rows that could be read, and every break: order, digests, text that is not a row."""
    rows: list[Row] = []
    findings: list[Finding] = []
    previous = GENESIS
    for place, row in enumerate(stored, start=1):
        if row.seq != place:
            findings.append(Finding(place, "order", f"row {place} of the file is numbered {row.seq}."))
        if not isinstance(row.content, str) or digest(previous, row.content) != row.digest:
            findings.append(Finding(place, "digest", "its content does not match the chain of hashes."))
        content = _parse(row.content)
        if content is None or content.pop("seq", None) != row.seq:
            findings.append(Finding(place, "content", "its content is not a row of a ledger."))
        else:
            rows.append(Row(row.seq, content, row.digest))
        previous = row.digest
    return rows, findings


def _parse(text: object) -> dict[str, Any] | None:
    try:
        content = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _refuse_floats(value: Any) -> None:
    if isinstance(value, float):
        raise LedgerError("ledger-float", "a ledger row holds only text, whole numbers and yes or no.")
    if isinstance(value, Mapping):
        for inner in value.values():
            _refuse_floats(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_floats(inner)


@dataclass(frozen=True)
class StoredRow:
    """One row as it lies in the store: its place, its canonical JSON, and its link of the chain."""

    seq: int
    content: str
    digest: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a ledger; `seq` is the row, or 0 for the file as a whole."""

    seq: int
    code: str
    message: str


Decide = Callable[[list[StoredRow]], StoredRow | None]


class Store(Protocol):
    def where(self) -> str:
        """The place of the store, for messages."""
        ...

    def file(self) -> Path | None:
        """The file of the store, beside which runs keep their locks; None if it has none."""
        ...

    def rows(self, *, unchecked: bool = False) -> list[StoredRow]:
        """All rows in order; none if the store was never written.

        Refuses where `append` would, unless `unchecked`.
        """
        ...

    def append(self, decide: Decide) -> None:
        """Run `decide` on all rows in one exclusive transaction and add the row it returns.

        When this returns, the row survives a power cut. If `decide` raises, nothing is written. A store
        that lost rows, or what protects them, refuses.
        """
        ...

    def problems(self) -> list[Finding]:
        """What the store itself can say about damage, permissions and missing rows."""
        ...


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
    records = []
    for path in sorted(ledger.parent.glob(f"{ledger.name}.run-*")):
        with suppress(OSError):
            records.append(_record(path.read_bytes()))
    return [record for record in records if record is not None]


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
