"""Damage to a ledger's files: it is noticed, or what is shown is true; never a state with fewer spends.

Left out is what no file beside the ledger can show: an older copy restored together with its head, and a
chain forged as a whole, head included.
"""

import functools
import json
import os
import random
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shoal.auditing.planted.ledger import raw_spent
from shoal.errors import LedgerError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import Ledger, Reservation, open_ledger
from shoal.privacy.ledger.pots import pots_within
from shoal.privacy.ledger.state import digest

HASH = "ab" * 32


@dataclass(frozen=True)
class Snapshot:
    """The files of a ledger at rest, and what they add up to."""

    file: bytes
    head: bytes
    shown: str


def damage_a_ledger(rng: random.Random) -> None:
    history, path = _history(), _place()
    true = history[-1]
    for leftover in path.parent.iterdir():
        leftover.unlink()
    path.write_bytes(true.file)
    _head(path).write_bytes(true.head)
    damage = rng.choice(DAMAGES)
    damage(path, rng)
    ledger = open_ledger(path)
    findings = ledger.verify()
    try:
        shown = _shown(ledger)
    except LedgerError:
        assert findings, f"{damage.__name__}: refused, and verify finds nothing"
        _assert_refused(ledger, damage.__name__)
        return
    assert shown == true.shown, f"{damage.__name__}: another state is shown"
    try:
        ledger.reserve("town", Loss(1), "after", "density", unit="user")
    except LedgerError:
        return
    assert ledger.state().population("town").spent_nano == json.loads(shown)["town"]["spent"]["one"] + 1


def _assert_refused(ledger: Ledger, damage: str) -> None:
    try:
        ledger.reserve("town", Loss(1), "after", "density", unit="user")
    except LedgerError:
        return
    raise AssertionError(f"{damage}: spent on a ledger that is not shown")


def _flip_bits(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _flip_bits_of_headers(path: Path, rng: random.Random) -> None:
    """Near the start of a page lie its number of cells, their places and its kind."""
    content = bytearray(path.read_bytes())
    page = rng.randrange(len(content) // 4096) * 4096
    for _ in range(rng.choice((1, 1, 2, 4))):
        content[page + rng.randrange(128)] = rng.randrange(256)
    path.write_bytes(content)


def _overwrite(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    at, length = rng.randrange(len(content)), rng.choice((4, 64, 512, 4096))
    fill = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length)))
    content[at : at + length] = fill[: len(content) - at]
    path.write_bytes(content)


def _truncate(path: Path, rng: random.Random) -> None:
    size = path.stat().st_size
    os.truncate(path, rng.choice((0, rng.randrange(size), rng.randrange(size // 4096) * 4096)))


def _swap_pages(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    pages = [content[at : at + 4096] for at in range(0, len(content), 4096)]
    one, other = rng.randrange(len(pages)), rng.randrange(len(pages))
    pages[one], pages[other] = pages[other], pages[one]
    path.write_bytes(b"".join(pages))


def _old_pages(path: Path, rng: random.Random) -> None:
    """Some pages as they were before: writes that a disk acknowledged and lost."""
    content, old = bytearray(path.read_bytes()), rng.choice(_history()[:-1]).file
    for at in range(0, len(old), 4096):
        if rng.random() < 0.5:
            content[at : at + 4096] = old[at : at + 4096]
    if rng.random() < 0.3:
        content = content[: len(old)]
    path.write_bytes(content)


def _old_copy(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.choice(_history()[:-1]).file)


def _no_file(path: Path, rng: random.Random) -> None:
    path.unlink()


def _old_journal(path: Path, rng: random.Random) -> None:
    """A journal of an earlier transaction, whole or of some pages, which SQLite plays back."""
    old = rng.choice(_history()[:-1]).file
    pages = list(range(len(old) // 4096))
    if rng.random() < 0.3:
        pages = sorted(rng.sample(pages, rng.randrange(1, len(pages) + 1)))
    journal = bytearray(journal_to(old, pages))
    if rng.random() < 0.2:
        journal[rng.randrange(len(journal))] ^= 1 << rng.randrange(8)
    Path(f"{path}-journal").write_bytes(journal)


def journal_to(old: bytes, pages: list[int]) -> bytes:
    """A rollback journal that brings pages of a ledger back to `old`, in the format of SQLite."""
    numbers = (len(pages), 0, len(old) // 4096, 512, 4096)  # records, nonce, pages before, sector, page size
    header = bytes.fromhex("d9d505f920a163d7") + b"".join(each.to_bytes(4) for each in numbers)
    records = []
    for page in pages:
        content = old[page * 4096 : page * 4096 + 4096]
        total = sum(content[at] for at in range(4096 - 200, 0, -200))
        records.append((page + 1).to_bytes(4) + content + total.to_bytes(4))
    return header.ljust(512, b"\0") + b"".join(records)


def edit(path: Path, *statements: tuple) -> None:
    """Through SQLite, with the triggers dropped and put back."""
    connection = sqlite3.connect(path, isolation_level=None)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement, *values in statements:
        connection.execute(statement, values)
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


def _delete_rows(path: Path, rng: random.Random) -> None:
    """From the end or the middle; the counter set back, and the rest renumbered, or not."""
    count = _count(path)
    first = rng.randrange(1, count + 1)
    last = count if rng.random() < 0.5 else rng.randrange(first, count + 1)
    statements: list[tuple] = [("DELETE FROM rows WHERE seq BETWEEN ? AND ?", first, last)]
    if rng.random() < 0.5:
        gone = last - first + 1
        statements += [
            ("UPDATE rows SET seq = seq - ? WHERE seq = ?", gone, n) for n in range(last + 1, count + 1)
        ]
    if rng.random() < 0.7:
        statements.append(("UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(seq), 0) FROM rows)",))
    edit(path, *statements)


def _edit_row(path: Path, rng: random.Random) -> None:
    """A field of a row changed; the hashes after it made anew, or not."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT seq, content, digest FROM rows ORDER BY seq").fetchall()
    connection.close()
    at = rng.randrange(len(rows))
    content = json.loads(rows[at][1])
    field = rng.choice(sorted(content))
    content[field] = rng.choice((0, 1, -1, 10**30, "", "x", None, True, [], {"a": {}}, content.get("key", 2)))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    if text == rows[at][1]:
        return
    chained = rng.random() < 0.5
    previous = rows[at - 1][2] if at else digest("", "")
    statements = []
    for seq, old, _ in rows[at:] if chained else rows[at : at + 1]:
        new = text if seq == rows[at][0] else old
        previous = digest(previous, new) if chained else rows[at][2]
        statements.append(("UPDATE rows SET content = ?, digest = ? WHERE seq = ?", new, previous, seq))
    edit(path, *statements)


def _add_row(path: Path, rng: random.Random) -> None:
    """The last or another row once more, at the end."""
    count = _count(path)
    source = rng.randrange(1, count + 1)
    edit(path, ("INSERT INTO rows SELECT ?, content, digest FROM rows WHERE seq = ?", count + 1, source))


def _damage_head(path: Path, rng: random.Random) -> None:
    head = _head(path)
    content = bytearray(head.read_bytes())
    kind = rng.randrange(5)
    if kind == 0:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        content = content[: rng.randrange(len(content))]
    elif kind == 2:
        content = bytearray(rng.choice(_history()).head)
    elif kind == 3:
        content += rng.randbytes(rng.randrange(300))
    head.write_bytes(content)
    if kind == 4:
        head.unlink()


DAMAGES: list[Callable[[Path, random.Random], None]] = [
    *(_flip_bits, _flip_bits, _flip_bits_of_headers, _flip_bits_of_headers),  # twice as often
    *(_overwrite, _truncate, _swap_pages, _old_pages, _old_copy, _no_file),
    *(_old_journal, _old_journal, _delete_rows, _edit_row, _add_row, _damage_head),
]


def _count(path: Path) -> int:
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM rows").fetchone()
    connection.close()
    return count


@functools.cache
def _history() -> list[Snapshot]:
    """A ledger after each of its rows: every kind of row, and rows on several pages."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        path = Path(folder) / "ledger.sqlite"
        ledger, snapshots = open_ledger(path), []

        def keep() -> None:
            snapshots.append(Snapshot(path.read_bytes(), _head(path).read_bytes(), _shown(ledger)))

        ledger.create("town", currency="rho", limit_nano=1000, delta=1e-6)
        keep()
        ledger.create("village", currency="epsilon", limit_nano=1000)
        keep()
        ledger.create("city", pots=pots_within(2.0, 1e-6), delta=1e-6)
        keep()
        ledger.lower_limit("city", 10**6, pot="pure")
        for name, loss in (("gaussian", Loss.gaussian(30)), ("pure", Loss.pure(40))):
            ledger.reserve("city", loss, name, "density", unit="user")
            keep()
        for week in range(8):
            name, loss = ("village", Loss.pure(7)) if week % 3 == 2 else ("town", Loss(10 + week))
            held = ledger.reserve(name, loss, f"week {week}", "density " + "x" * 300, unit="user")
            keep()
            if week % 4 != 1 and isinstance(held, Reservation):
                ledger.commit(held, f"{week:064x}", f"/releases/{week}")
                keep()
        ledger.list_release("town", "paths", "trajectories", HASH, "/paths", reservation="ff", unit="user")
        ledger.look("town", "a comparison", "/owner")
        ledger.raise_limit("town", 2000)
        ledger.lower_limit("town", 1500)
        ledger.supersede("town", f"{0:064x}", f"{3:064x}")
        keep()
        # Each of these replaces a release, which stays paid for.
        held = ledger.reserve("town", Loss(9), "again", "density", unit="user", supersedes=f"{4:064x}")
        assert isinstance(held, Reservation)
        ledger.commit(held, "ef" * 32, "/again")
        keep()
        replaces = {"reservation": "fe", "unit": "user", "supersedes": f"{6:064x}"}
        ledger.list_release("town", "more", "trajectories", "cd" * 32, "/more", **replaces)
        keep()
        ledger.reserve("town", Loss(20), "last", "density", unit="user")
        keep()
    return snapshots


def _shown(ledger: Ledger) -> str:
    """Everything that a reader of the ledger sees; what is spent is the sum of the stored rows."""
    state = ledger.state()
    for each in state.populations.values():
        spent = sum(pot.spent_nano for pot in each.pots.values())
        assert spent == raw_spent(ledger, each.name), "spent is not the sum of the rows"
    told = {
        each.name: {
            "limits": {name: pot.limit_nano for name, pot in each.pots.items()},
            "spent": {name: pot.spent_nano for name, pot in each.pots.items()},
            "tuned": each.tuned,
            "spends": [(s.seq, s.key, s.cost_nano, s.unit, s.status, s.path) for s in each.spends],
            "released": {key: vars(found) for key, found in each.released.items()},
            "notes": [dict(note) for note in each.notes],
            "superseded": each.superseded,
        }
        for each in state.populations.values()
    }
    return json.dumps(told, sort_keys=True)


@functools.cache
def _kept_folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(dir=_memory(), prefix="shoal-fuzz-")


def _place() -> Path:
    return Path(_kept_folder().name) / "ledger.sqlite"


def _head(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
