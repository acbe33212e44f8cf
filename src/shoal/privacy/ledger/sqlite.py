"""The owner's ledger in one SQLite file, and the files of its runs in progress.

Rollback journal, synchronous=EXTRA, one immediate transaction per row. WAL at NORMAL may lose a commit in a
power cut, so the journal is DELETE. A connection lives for one call: nothing is inherited over a fork, and a
killed process leaves at most a journal that the next one rolls back.

A second file, `ledger.sqlite.head`, names the last row. It is written after each row, so it may lag behind by
rows that chain onto it. It is ahead only of a ledger that lost rows: an older copy was put in its place, or
SQLite played back an old journal.

One file beside the ledger per run in progress: a lock that a dead process drops, and an unfinished commit. A
second run of the same key finds the file locked and waits, so it never pays for what the first one makes. A
run whose commit fails leaves the token of its reserve in the file: the next run of the key commits with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import LedgerError
from shoal.privacy.ledger.state import Decide, Finding, StoredRow

BUSY_SECONDS = 120.0
APPLICATION_ID = 0x53484F4C  # "SHOL"

_SCHEMA = {
    # AUTOINCREMENT remembers the largest number ever used, so a cut-off tail shows.
    "rows": """CREATE TABLE rows (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  content TEXT NOT NULL CHECK (typeof(content) = 'text'),
  digest TEXT NOT NULL CHECK (length(digest) = 64)
)""",
    # Also stops INSERT OR REPLACE, which would not fire the delete trigger.
    "append_at_end": """CREATE TRIGGER append_at_end BEFORE INSERT ON rows
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM rows)
BEGIN SELECT RAISE(ABORT, 'a ledger row is added at the end'); END""",
    "no_update": """CREATE TRIGGER no_update BEFORE UPDATE ON rows
BEGIN SELECT RAISE(ABORT, 'a ledger row is never changed'); END""",
    "no_delete": """CREATE TRIGGER no_delete BEFORE DELETE ON rows
BEGIN SELECT RAISE(ABORT, 'a ledger row is never deleted'); END""",
}


class SqliteStore:
    """A `Store` in a file of mode 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def where(self) -> str:
        return str(self.path)

    def file(self) -> Path:
        """Behind any links, as the journal is: all names of a ledger share its locks and its head."""
        return Path(os.path.realpath(self.path))

    def rows(self, *, unchecked: bool = False) -> list[StoredRow]:
        rows, findings = self._read()
        if not unchecked:
            self._refuse_if(findings)
        return rows

    def append(self, decide: Decide) -> None:
        self._make_file()
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not _has_schema(connection):
                    for statement in (*_SCHEMA.values(), f"PRAGMA application_id={APPLICATION_ID}"):
                        connection.execute(statement)
                before = _read(connection)
                witness = self._witness()
                self._refuse_if(_altered(connection) + _lost(witness, before))
                row = decide(before)
                if row is not None:
                    stored = row.seq, row.content, row.digest
                    connection.execute("INSERT INTO rows VALUES (?, ?, ?)", stored)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        after = before if row is None else [*before, row]
        if after and witness != (written := _head_line(after[-1])):
            self._write_witness(len(after), written)

    def problems(self) -> list[Finding]:
        """Damage of the file, triggers or table changed, rows cut off at the end, wide permissions."""
        if not self._exists():
            return self._read()[1]
        findings = []
        if self.path.stat().st_mode & 0o077:
            findings.append(Finding(0, "permissions", "other users may open the file; it should be 0600."))
        try:
            findings += self._read()[1]
        except LedgerError as error:
            findings.append(Finding(0, error.code, error.message))
        return findings

    def _read(self) -> tuple[list[StoredRow], list[Finding]]:
        """All rows, and what is wrong with the file: the checks that also come before each new row."""
        witness = self._witness()  # first: rows that are added meanwhile are not missing
        if not self._exists():
            return [], _lost(witness, [])
        with self._connection() as connection:
            connection.execute("BEGIN")  # one state for all checks, whatever is added meanwhile
            if not _has_schema(connection):
                return [], _lost(witness, [])
            rows = _read(connection)
            return rows, _altered(connection) + _lost(witness, rows)

    def _refuse_if(self, findings: list[Finding]) -> None:
        """A file that lost rows or triggers is neither read nor added to: a new row would hide the loss."""
        if findings:
            raise LedgerError(
                "ledger-damaged",
                f"the ledger {self.path} does not verify: {findings[0].message}",
                _OLDER_COPY if findings[0].code == "witness" else _RESTORE,
            )

    def _witness(self) -> str:
        """The line of `ledger.sqlite.head`; empty if none was written yet."""
        try:
            with _locked(os.open(_beside(self.file()), os.O_RDONLY), fcntl.LOCK_SH) as handle:
                return os.pread(handle, 200, 0).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise _explain(error, _beside(self.path)) from error

    def _write_witness(self, count: int, line: str) -> None:
        """Name a later row, in place: all lines are of one length and lie within one sector of the disk.

        The row itself is safe by now, so a failure only leaves an older head.
        """
        path = _beside(self.file())
        with suppress(OSError):
            fresh = not path.exists()
            with _locked(open_or_create(path), fcntl.LOCK_EX) as handle:
                known = _HEAD.fullmatch(os.pread(handle, 200, 0).decode("utf-8", "replace"))
                if known is None or int(known[1]) < count:  # else of a row that another process added since
                    os.pwrite(handle, line.encode(), 0)
                    os.fsync(handle)
            if fresh:
                fsync(path.parent)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise _explain(error, self.path) from error
        try:
            connection.execute("PRAGMA synchronous=EXTRA")
            connection.execute("PRAGMA fullfsync=ON")
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
            if mode != "delete":
                raise LedgerError("ledger-journal", f"the ledger {self.path} cannot use a rollback journal.")
            yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _explain(error, self.path) from error
        finally:
            connection.close()

    def _exists(self) -> bool:
        try:
            return self.path.exists()
        except OSError as error:
            raise _explain(error, self.path) from error

    def _make_file(self) -> None:
        """An empty file 0600 in a folder 0700, or the file as it is with its mode put right.

        A second file descriptor is never opened on an existing ledger: closing it would drop this
        process's locks.
        """
        try:
            if self.path.exists():
                if self.path.stat().st_mode & 0o077:
                    self.path.chmod(0o600)
                return
            missing = [folder for folder in self.path.parents if not folder.exists()]
            for folder in reversed(missing):
                folder.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            for folder in [self.path.parent, *(folder.parent for folder in missing)]:
                fsync(folder)
        except FileExistsError:
            return  # another process made it just now
        except OSError as error:
            raise _explain(error, self.path) from error


def _read(connection: sqlite3.Connection) -> list[StoredRow]:
    stored = connection.execute("SELECT seq, content, digest FROM rows ORDER BY seq").fetchall()
    return [StoredRow(*row) for row in stored]


def _has_schema(connection: sqlite3.Connection) -> bool:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if tables and "rows" not in tables:
        raise LedgerError("not-a-ledger", "the file named as the ledger is another SQLite database.")
    return bool(tables)


def _altered(connection: sqlite3.Connection) -> list[Finding]:
    """SQLite's own check, and table, triggers and counter of rows against what they must be."""
    findings = []
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        findings.append(Finding(0, "file", "SQLite finds the file damaged."))
    schema = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))
    if schema != _SCHEMA:
        findings.append(Finding(0, "schema", "the table or the triggers that protect it were changed."))
    (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM rows").fetchone()
    ever = connection.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'rows'").fetchone()[0] or 0
    if ever != last:
        findings.append(Finding(0, "truncated", f"the file once had {ever} rows and now ends at {last}."))
    return findings


def _lost(witness: str, rows: list[StoredRow]) -> list[Finding]:
    """Whether the row that the witness names is gone; it is of no row that is not there yet."""
    if not witness:
        return []
    named = _HEAD.fullmatch(witness)
    if named is None or int(named[1]) == 0:
        return [Finding(0, "witness", "the file .head beside it does not name a row.")]
    count = int(named[1])
    if count > len(rows):
        ends = f"the file .head beside it names row {count}, and the ledger ends at row {len(rows)}."
        return [Finding(0, "witness", f"{ends} Rows are lost, or this is an older copy.")]
    if _head_line(rows[count - 1]) != witness:
        return [Finding(count, "witness", "it is another row than the file .head beside the ledger names.")]
    return []


def _head_line(row: StoredRow) -> str:
    return f"{row.seq:018d} {row.digest}\n"


_HEAD = re.compile(r"([0-9]{18}) [0-9a-f]{64}\n")
_RESTORE = "See `shoal ledger verify` and restore a backup. Nothing is released until then."
_OLDER_COPY = (
    "Put the newest copy of the ledger back. If this is the newest, spends may be missing: compare it with "
    "your releases, lower the budgets by what is missing, then remove the file .head."
)


def _beside(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.head")


def _explain(error: sqlite3.Error | UnicodeDecodeError | OSError, path: Path) -> LedgerError:
    reason = (error.strerror or "error") if isinstance(error, OSError) else str(error)
    if isinstance(error, sqlite3.Error) and "locked" in reason:
        return LedgerError(
            "ledger-busy", f"the ledger {path} is in use by another process.", "Try again later."
        )
    if not isinstance(error, OSError) and any(sign in reason for sign in _DAMAGE):
        return LedgerError(
            "ledger-damaged", f"the file {path} is not a readable ledger.", "Restore it from a backup."
        )
    return LedgerError(
        "ledger-unwritable",
        f"the ledger {path} could not be opened or written ({reason}).",
        "Check the folder, its permissions and the free space, or set SHOAL_LEDGER to another file.",
    )


# What SQLite and the decoder of its texts say about a file that was overwritten.
_DAMAGE = ("malformed", "not a database", "decode", "unsupported file format")


@contextmanager
def _locked(handle: int, lock: int) -> Iterator[int]:
    try:
        fcntl.flock(handle, lock)
        yield handle
    finally:
        os.close(handle)


def fsync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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

    def record(self) -> dict[str, Any] | None:
        """The record of a run that could not commit, if there is a complete one."""
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
    known = isinstance(record, dict) and record.keys() - {"price"} == fields
    return record if known else None


def ledger_path() -> Path:
    given = os.environ.get("SHOAL_LEDGER")
    if given:
        return Path(given).expanduser()
    from platformdirs import user_data_dir

    return Path(user_data_dir("shoal")) / "ledger.sqlite"
