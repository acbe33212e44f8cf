"""Rows of a ledger in one SQLite file: rollback journal, synchronous=EXTRA, one immediate transaction each.

WAL at NORMAL may lose a commit in a power cut, so the journal is DELETE. A connection lives for one call:
nothing is inherited over a fork, and a killed process leaves at most a journal that the next one rolls back.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.errors import LedgerError
from shoal.privacy.ledger.protocol import Decide, Finding, StoredRow

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

    def rows(self) -> list[StoredRow]:
        if not self._exists():
            return []
        with self._connection() as connection:
            return _read(connection) if _has_schema(connection) else []

    def append(self, decide: Decide) -> None:
        self._make_file()
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not _has_schema(connection):
                    _make_schema(connection)
                self._refuse_if_altered(connection)
                row = decide(_read(connection))
                if row is not None:
                    connection.execute(
                        "INSERT INTO rows VALUES (?, ?, ?)", (row.seq, row.content, row.digest)
                    )
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def problems(self) -> list[Finding]:
        """Damage of the file, triggers or table changed, rows cut off at the end, wide permissions."""
        if not self._exists():
            return []
        findings = []
        if self.path.stat().st_mode & 0o077:
            findings.append(Finding(0, "permissions", "other users may open the file; it should be 0600."))
        try:
            with self._connection() as connection:
                if _has_schema(connection):
                    findings += _damage(connection) + _altered(connection)
        except LedgerError as error:
            findings.append(Finding(0, error.code, error.message))
        return findings

    def _refuse_if_altered(self, connection: sqlite3.Connection) -> None:
        """Nothing is added to a file that lost rows or triggers: a new row would hide the loss."""
        found = _altered(connection)
        if found:
            raise LedgerError(
                "ledger-damaged",
                f"the ledger {self.path} does not verify: {found[0].message}",
                "See `shoal ledger verify` and restore a backup. Nothing is released until then.",
            )

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
                _fsync_folder(folder)
        except FileExistsError:
            return  # another process made it just now
        except OSError as error:
            raise _explain(error, self.path) from error


def _read(connection: sqlite3.Connection) -> list[StoredRow]:
    found = connection.execute("SELECT seq, content, digest FROM rows ORDER BY seq").fetchall()
    return [StoredRow(*row) for row in found]


def _has_schema(connection: sqlite3.Connection) -> bool:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if tables and "rows" not in tables:
        raise LedgerError("not-a-ledger", "the file named as the ledger is another SQLite database.")
    return bool(tables)


def _make_schema(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA.values():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")


def _damage(connection: sqlite3.Connection) -> list[Finding]:
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    return [] if verdict == "ok" else [Finding(0, "file", "SQLite finds the file damaged.")]


def _altered(connection: sqlite3.Connection) -> list[Finding]:
    """Table, triggers and the counter of rows against what they must be; cheap enough for every append."""
    findings = []
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))
    if found != _SCHEMA:
        findings.append(Finding(0, "schema", "the table or the triggers that protect it were changed."))
    (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM rows").fetchone()
    ever = connection.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'rows'").fetchone()[0] or 0
    if ever != last:
        findings.append(Finding(0, "truncated", f"the file once had {ever} rows and now ends at {last}."))
    return findings


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


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
