"""Tampering: any byte of any row, rows gone, swapped, replaced; and the triggers that refuse it."""

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fuzz.ledger import edit as edit_file
from tests.fuzz.ledger import journal_to
from tests.unit.privacy.ledger.rows import HASH, reserved

from shoal.errors import LedgerError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import Ledger, StoredRow, open_ledger
from shoal.privacy.ledger.state import GENESIS, canonical, digest, link, read_chain


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = open_ledger(tmp_path / "ledger.sqlite")
    made.create("town", currency="rho", limit_nano=100)
    made.commit(reserved(made.reserve("town", Loss(10), "a", "density")), HASH, "/release")
    made.disclose("town", "exact")
    made.reserve("town", Loss(10), "b", "density")
    return made


def edit(ledger: Ledger, *statements: tuple) -> None:
    """Change the file as an intruder with the file in hand would: triggers dropped and put back."""
    edit_file(Path(ledger.store.where()), *statements)


def drop_trigger(ledger: Ledger, name: str) -> None:
    with closing(sqlite3.connect(ledger.store.where(), isolation_level=None)) as connection:
        connection.execute(f"DROP TRIGGER {name}")


def codes(ledger: Ledger, head: str | None = None) -> set[str]:
    return {finding.code for finding in ledger.verify(expected_head=head)}


def test_an_edit_that_changes_nothing_is_not_found_and_an_old_head_stays(ledger):
    edit(ledger)
    assert codes(ledger) == set()
    head = ledger.head()
    ledger.disclose("town", "more")
    assert codes(ledger, head) == set()
    assert codes(ledger, GENESIS) == set()


def test_any_byte_of_any_row(ledger: Ledger) -> None:
    rows = ledger.store.rows()
    assert len(rows) == 5
    for index, row in enumerate(rows):
        for column in ("content", "digest"):
            text = getattr(row, column)
            for place in range(len(text)):
                changed = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
                edited = [*rows[:index], replace(row, **{column: changed}), *rows[index + 1 :]]
                findings = read_chain(edited)[1]
                assert any(each.code == "digest" and each.seq >= row.seq for each in findings), (row, place)


@pytest.mark.parametrize("column", ["content", "digest"])
@pytest.mark.parametrize("seq", [1, 3, 5])
def test_a_byte_in_the_file(ledger: Ledger, column: str, seq: int) -> None:
    text = getattr(ledger.store.rows()[seq - 1], column)
    changed = text[:-2] + ("1" if text[-2] == "0" else "0") + text[-1]
    edit(ledger, (f"UPDATE rows SET {column} = ? WHERE seq = ?", changed, seq))
    assert "digest" in codes(ledger)
    edit(ledger, (f"UPDATE rows SET {column} = ? WHERE seq = ?", text, seq))
    assert codes(ledger) == set()


def test_nothing_is_spent_on_a_damaged_ledger(ledger: Ledger) -> None:
    content = ledger.store.rows()[1].content.replace('"cost_nano":10', '"cost_nano":1')
    edit(ledger, ("UPDATE rows SET content = ? WHERE seq = 2", content))
    with pytest.raises(LedgerError, match="ledger-damaged"):
        ledger.reserve("town", Loss(1), "c", "density")
    with pytest.raises(LedgerError, match="ledger-damaged"):
        ledger.state()


SWAP = ((4, 99), (5, 4), (99, 5))  # numbers of rows, old and new


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        *(([f"DELETE FROM rows WHERE seq = {seq}"], {"order", "digest"}) for seq in (1, 2, 3, 4)),
        (["DELETE FROM rows WHERE seq = 2", "UPDATE rows SET seq = seq - 1 WHERE seq > 2"], {"digest"}),
        ([f"UPDATE rows SET seq = {to} WHERE seq = {seq}" for seq, to in SWAP], {"digest"}),
    ],
)
def test_rows_gone_renumbered_or_swapped(ledger: Ledger, statements: list[str], found: set[str]) -> None:
    edit(ledger, *((statement,) for statement in statements))
    assert found <= codes(ledger)


def test_the_last_row_cut_off(ledger: Ledger) -> None:
    head = ledger.head()
    edit(ledger, ("DELETE FROM rows WHERE seq = 5",))
    assert codes(ledger) == {"truncated", "witness"}
    # With the counter set back as well, the file beside it still names the row.
    edit(ledger, ("UPDATE sqlite_sequence SET seq = 4",))
    assert codes(ledger) == {"witness"}
    with pytest.raises(LedgerError, match=r"names row 5, and the ledger ends at row 4"):
        ledger.state()
    # An intruder who removes that file too is caught only by a head that was noted elsewhere.
    witness(ledger).unlink()
    assert codes(ledger) == set()
    assert codes(ledger, head) == {"head"}
    assert codes(ledger, ledger.head()) == set()


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (["DELETE FROM rows WHERE seq = 5"], "truncated"),
        (["DELETE FROM rows"], "truncated"),
        (["CREATE TRIGGER more AFTER INSERT ON rows BEGIN SELECT 1; END"], "schema"),
        (["CREATE TABLE more (x)"], "schema"),
    ],
)
def test_nothing_is_read_from_or_added_to_a_ledger_that_lost_something(
    ledger: Ledger, damage: list[str], code: str
) -> None:
    witness(ledger).unlink()  # as with a ledger that no recent version wrote to
    edit(ledger, *((statement,) for statement in damage))
    refused_for_good(ledger, code)


@pytest.mark.parametrize("name", ["no_update", "no_delete", "append_at_end"])
def test_nothing_is_added_without_a_trigger(ledger: Ledger, name: str) -> None:
    drop_trigger(ledger, name)
    refused_for_good(ledger, "schema")


def refused_for_good(ledger: Ledger, code: str) -> None:
    """Every way to read or add a row is refused, and `verify` still says why afterwards."""
    before = ledger.store.rows(unchecked=True)
    calls = [
        lambda: ledger.create("other", currency="rho", limit_nano=1),
        lambda: ledger.check_fits("town", Loss(1)),
        lambda: ledger.reserve("town", Loss(1), "z", "density"),
        lambda: ledger.state(),
        lambda: ledger.find("town", "a"),
        lambda: ledger.releases(),
        lambda: ledger.head(),
        lambda: ledger.store.rows(),
    ]
    for call in calls:
        with pytest.raises(LedgerError, match="ledger-damaged"):
            call()
    assert ledger.store.rows(unchecked=True) == before
    assert codes(ledger) == {code}


def witness(ledger: Ledger) -> Path:
    return Path(ledger.store.where() + ".head")


def test_the_head_beside_the_ledger_follows_every_row(ledger: Ledger) -> None:
    assert witness(ledger).read_text() == f"{5:018d} {ledger.head()}\n"
    assert witness(ledger).stat().st_mode & 0o777 == 0o600
    late = witness(ledger).read_text()
    ledger.disclose("town", "more")
    witness(ledger).write_text(late)  # a crash between the row and the head
    assert codes(ledger) == set()
    ledger.check_fits("town", Loss(1))
    assert witness(ledger).read_text() == f"{6:018d} {ledger.head()}\n"
    assert sorted(path.name for path in witness(ledger).parent.iterdir()) == [
        "ledger.sqlite",
        "ledger.sqlite.head",
    ]


def test_an_older_copy_of_the_ledger_is_refused(ledger: Ledger) -> None:
    path = Path(ledger.store.where())
    copy = path.read_bytes()
    ledger.reserve("town", Loss(10), "c", "density")
    path.write_bytes(copy)
    for call in (ledger.state, lambda: ledger.reserve("town", Loss(10), "d", "density")):
        with pytest.raises(LedgerError, match=r"names row 6, and the ledger ends at row 5(?s:.*)newest copy"):
            call()
    path.unlink()
    with pytest.raises(LedgerError, match="ledger-damaged"):
        ledger.state()
    path.write_bytes(copy)
    witness(ledger).unlink()  # the owner accepts the loss
    assert ledger.state().population("town").spent_nano == 20


def test_an_old_journal_played_back_is_noticed(ledger: Ledger) -> None:
    """SQLite rolls a ledger back if the journal of an earlier transaction lies beside it."""
    path = Path(ledger.store.where())
    journal = journal_to(path.read_bytes(), list(range(path.stat().st_size // 4096)))
    for key in "cdef":
        ledger.reserve("town", Loss(10), key, "density")
    assert ledger.state().population("town").spent_nano == 60
    Path(f"{path}-journal").write_bytes(journal)
    with pytest.raises(LedgerError, match=r"ledger-damaged(?s:.*)ends at row 5"):
        ledger.state()


def test_a_head_that_is_not_one_is_refused(ledger: Ledger) -> None:
    for text in (
        "5",
        "0" * 18 + " " + "0" * 64 + "\n",
        f"{5:018d} " + "0" * 64 + "\n",
        "\x00" * 67,
        "x" * 10_000,
    ):
        witness(ledger).write_text(text)
        assert codes(ledger) == {"witness"}
        with pytest.raises(LedgerError, match="ledger-damaged"):
            ledger.state()


@pytest.mark.parametrize(
    "change", [{"token": {"nested": 1}}, {"token": "\ud800"}, {"reservation": [1]}, {"at": 3}]
)
def test_fields_of_another_type_are_findings(ledger: Ledger, change: dict) -> None:
    forge(ledger, 3, change)
    assert "rule" in codes(ledger)


@pytest.mark.parametrize(
    ("seq", "change"),
    [
        (1, {"limit_nano": 15}),  # spends more than the limit
        (2, {"cost_nano": 0}),
        (2, {"cost_nano": -10}),
        (3, {"token": "stolen"}),
        (3, {"reservation": "unknown"}),
        (4, {"population": "nobody"}),
        (4, {"kind": "refund"}),
        (4, {"at": "1999"}),
        (5, {"key": "a"}),  # spends again under a released key
        (5, {"cost_nano": 1.5}),
    ],
)
def test_a_forged_chain_still_has_to_obey_the_rules(ledger: Ledger, seq: int, change: dict) -> None:
    """Hashes made anew after the edit: only the rules can tell."""
    forge(ledger, seq, change)
    assert codes(ledger) & {"rule", "time"}
    with pytest.raises(LedgerError, match="ledger-damaged"):
        ledger.reserve("town", Loss(1), "z", "density")


def forge(ledger: Ledger, seq: int, change: dict) -> None:
    """Change a row and make all hashes anew, those of the file beside it too."""
    previous = GENESIS
    statements = []
    for row in ledger.store.rows():
        content = json.loads(row.content)
        if row.seq == seq:
            content |= change
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        previous = digest(previous, text)
        statements.append(("UPDATE rows SET content = ?, digest = ? WHERE seq = ?", text, previous, row.seq))
    edit(ledger, *statements)
    witness(ledger).write_text(f"{len(statements):018d} {previous}\n")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rows SET content = '{}' WHERE seq = 2",
        "UPDATE rows SET seq = 9 WHERE seq = 5",
        "DELETE FROM rows WHERE seq = 5",
        "DELETE FROM rows",
        "INSERT OR REPLACE INTO rows VALUES (2, '{}', printf('%064d', 0))",
        "INSERT INTO rows VALUES (9, '{}', printf('%064d', 0))",
        "INSERT INTO rows VALUES (0, '{}', printf('%064d', 0))",
    ],
)
def test_triggers_refuse(ledger: Ledger, statement: str) -> None:
    before = ledger.store.rows()
    connection = sqlite3.connect(ledger.store.where())
    with pytest.raises(sqlite3.IntegrityError, match="ledger row"):
        connection.execute(statement)
    connection.close()
    assert ledger.store.rows() == before


def test_bytes_of_the_file_overwritten(ledger: Ledger) -> None:
    """Noise over the file's pages is an error or a finding, never silence about a changed row."""
    path = Path(ledger.store.where())
    whole = path.read_bytes()
    rows = ledger.store.rows()
    for place in range(0, len(whole), 509):
        path.write_bytes(
            whole[:place] + bytes(byte ^ 0xFF for byte in whole[place : place + 16]) + whole[place + 16 :]
        )
        findings = ledger.verify()
        try:
            same = ledger.store.rows() == rows
        except LedgerError:
            same = False
        assert findings or same, place
    path.write_bytes(b"not a database at all" * 100)
    assert codes(ledger)
    with pytest.raises(LedgerError, match="ledger-damaged"):
        ledger.reserve("town", Loss(1), "c", "density")


def test_permissions(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        ledger = open_ledger(tmp_path / "deep" / "er" / "ledger.sqlite")
        assert ledger.verify() == []
        assert not (tmp_path / "deep").exists(), "reading makes no file"
        ledger.create("town", currency="rho", limit_nano=100)
    finally:
        os.umask(old)
    path = Path(ledger.store.where())
    assert [each.stat().st_mode & 0o777 for each in (path, path.parent, path.parent.parent)] == [
        0o600,
        0o700,
        0o700,
    ]
    path.chmod(0o644)
    assert codes(ledger) == {"permissions"}
    ledger.disclose("town", "exact")
    assert codes(ledger) == set()


def test_journal_sync_modes_and_missing_triggers(ledger):
    with ledger.store._connection() as connection:  # type: ignore[attr-defined]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
    drop_trigger(ledger, "no_delete")
    assert codes(ledger) == {"schema"}


def test_other_databases_and_paths_of_the_environment(tmp_path, monkeypatch):
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE friends (name)")
    with pytest.raises(LedgerError, match="not-a-ledger"):
        open_ledger(path).create("town", currency="rho", limit_nano=100)
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "mine.sqlite"))
    assert open_ledger().store.where() == str(tmp_path / "mine.sqlite")
    monkeypatch.delenv("SHOAL_LEDGER")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert open_ledger().store.where().endswith("ledger.sqlite")


def test_rows_hold_no_floats_and_are_never_nested_beyond_the_parser():
    with pytest.raises(LedgerError, match="ledger-float"):
        canonical({"cost": [{"deep": 0.5}]})
    assert link(GENESIS, 1, {"b": 1, "a": "é"}).content == '{"a":"\\u00e9","b":1,"seq":1}'
    text = "[" * 100_000
    rows, findings = read_chain([StoredRow(1, text, digest(GENESIS, text))])
    assert (rows, [finding.code for finding in findings]) == ([], ["content"])
