"""What is left after a failure: kept, finished or removed, and never paid for twice."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from tests.small import COST, LOSS, build, manifest
from tests.unit.release.conftest import busy, left, never, spent, with_

from shoal.errors import LedgerError, OutputError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import Ledger, sqlite
from shoal.release.folder import Committed, ReleaseRequest, preflight, release
from shoal.release.manifest import Manifest
from shoal.release.verify import check_release


def test_a_release_whose_commit_failed_is_finished_at_no_cost(ledger, asked, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "commit", busy)
        with pytest.raises(LedgerError) as refused:
            release(ledger, asked, build)
    said = str(refused.value)
    assert "ledger-busy" in said
    assert "rho = 0.000000005 is recorded as spent" in said
    assert "spends nothing" in said
    (kept,) = asked.out.parent.glob(".out.staging-*")
    assert ledger.unfinished() == {kept.name.rpartition("-")[2]}
    (note,) = Path(ledger.store.where()).parent.glob("ledger.sqlite.run-*")
    assert note.stat().st_mode & 0o777 == 0o600
    release(ledger, with_(asked, key="other", out=asked.out.parent / "out2"), build)
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "commit", busy)
        with pytest.raises(LedgerError, match="ledger-busy"):
            release(ledger, asked, never)
    elsewhere = with_(asked, out=asked.out.parent / "elsewhere", loss=Loss(99))  # the budget is not asked
    preflight(ledger, elsewhere)
    made = release(ledger, elsewhere, never)
    assert (made.path, made.reused, spent(ledger)) == (asked.out, True, 2 * COST)
    assert not check_release(made.path).problems
    assert ledger.unfinished() == set()
    assert not note.exists()
    assert left(asked) == ["out", "out2"]


def test_no_token_is_written_to_a_file_that_others_can_read(ledger, asked, monkeypatch) -> None:
    place = Path(ledger.store.where())
    name = hashlib.sha256(json.dumps(["town", "k"]).encode()).hexdigest()[:32]
    prepared = place.with_name(f"{place.name}.run-{name}")
    prepared.touch(0o644)
    monkeypatch.setattr(ledger, "commit", busy)
    with pytest.raises(LedgerError, match="ledger-busy"):
        release(ledger, asked, build)
    assert not prepared.exists()  # it was locked, left empty and removed
    assert left(asked) == []


def test_a_kept_release_that_was_changed_is_paid_for_again(ledger, asked, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "commit", busy)
        with pytest.raises(LedgerError):
            release(ledger, asked, build)
    (kept,) = asked.out.parent.glob(".out.staging-*")
    (kept / "density.csv").write_text("changed")
    made = release(ledger, asked, build)
    assert (made.reused, spent(ledger)) == (False, 2 * COST)
    assert left(asked) == ["out"]


def test_a_commit_waits_for_a_ledger_in_use_much_longer_than_a_reserve(ledger, asked, monkeypatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(ledger.store.where(), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerError, match="ledger-busy"):
        ledger.reserve("town", LOSS, "another", "density")
    other.execute("ROLLBACK")

    def build_and_lock(folder: Path) -> Manifest:
        made = build(folder)
        other.execute("BEGIN EXCLUSIVE")
        return made

    notes: list[str] = []

    def note(line: str) -> None:
        notes.append(line)
        if len(notes) == 3:
            other.execute("ROLLBACK")

    assert not release(ledger, asked, build_and_lock, waiting=note).reused
    assert len(notes) == 3
    assert "in use" in notes[0]
    other.close()


def test_a_second_run_of_a_live_key_is_refused_and_does_not_pay(ledger, asked, monkeypatch) -> None:
    monkeypatch.setattr(sqlite, "WAIT_SECONDS", 0.0)

    def build_twice(folder: Path) -> Manifest:
        with pytest.raises(LedgerError, match="run-busy"):
            release(ledger, with_(asked, out=asked.out.parent / "second"), build)
        return build(folder)

    assert not release(ledger, asked, build_twice).reused
    assert spent(ledger) == COST
    assert release(ledger, with_(asked, out=asked.out.parent / "second"), build).reused
    assert not list(Path(ledger.store.where()).parent.glob("ledger.sqlite.run-*"))


def test_a_second_run_waits_for_a_short_one_and_gets_its_release(ledger, asked) -> None:
    second: list[Committed] = []
    again = with_(asked, out=asked.out.parent / "second")
    thread = threading.Thread(target=lambda: second.append(release(ledger, again, never)))

    def build_while_waiting(folder: Path) -> Manifest:
        thread.start()
        time.sleep(0.3)
        return build(folder)

    first = release(ledger, asked, build_while_waiting)
    thread.join()
    assert second[0].path == first.path
    assert second[0].reused
    assert spent(ledger) == COST


def test_a_run_that_was_killed_pays_again_and_leaves_no_lock(ledger, asked) -> None:
    child = os.fork()
    if child == 0:
        release(ledger, asked, lambda _: os._exit(9))
    os.waitpid(child, 0)
    assert spent(ledger) == COST
    assert not release(ledger, asked, build).reused
    assert spent(ledger) == 2 * COST
    assert left(asked) == ["out"]
    assert not list(Path(ledger.store.where()).parent.glob("ledger.sqlite.run-*"))


def test_files_gone_between_commit_and_rename_are_no_success(ledger, asked, monkeypatch) -> None:
    commit = ledger.commit

    def commit_then_lose(*given, **named):
        stored = commit(*given, **named)
        for path in asked.out.parent.glob(".out.staging-*"):
            shutil.rmtree(path)
        return stored

    monkeypatch.setattr(ledger, "commit", commit_then_lose)
    with pytest.raises(LedgerError, match="release-missing"):
        release(ledger, asked, build)
    assert not asked.out.exists()


def test_committed_but_gone_or_changed(ledger: Ledger, asked: ReleaseRequest) -> None:
    release(ledger, asked, build)
    (asked.out / "density.csv").write_text("changed")
    with pytest.raises(LedgerError, match="release-missing"):
        release(ledger, asked, build)
    asked.out.rename(asked.out.parent / "moved")
    with pytest.raises(LedgerError, match=r"(?s)release-missing.*--run-id"):
        release(ledger, asked, build)
    assert spent(ledger) == COST


def die_before_rename(ledger: Ledger, asked: ReleaseRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.release import folder

    with monkeypatch.context() as patch:
        patch.setattr(folder, "move", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            release(ledger, asked, build)
    assert not asked.out.exists()
    assert len(left(asked)) == 1


def test_dead_between_commit_and_rename_is_finished_for_free(ledger, asked, monkeypatch) -> None:
    die_before_rename(ledger, asked, monkeypatch)
    assert release(ledger, asked, build).reused
    assert left(asked) == ["out"]
    assert spent(ledger) == COST


def test_another_run_puts_a_dead_but_committed_one_in_place(ledger, asked, monkeypatch) -> None:
    die_before_rename(ledger, asked, monkeypatch)
    with pytest.raises(OutputError, match="folder-exists"):
        release(ledger, with_(asked, key="other"), build)
    assert left(asked) == ["out"]
    assert check_release(asked.out).manifest_sha256 == ledger.find("town", "k").manifest_sha256
    assert spent(ledger) == COST


def test_a_folder_in_the_way_after_the_commit(ledger, asked, monkeypatch) -> None:
    die_before_rename(ledger, asked, monkeypatch)
    asked.out.mkdir()
    with pytest.raises(OutputError, match="folder-exists"):
        release(ledger, asked, build)
    asked.out.rmdir()
    assert release(ledger, asked, build).reused


def test_leftover_of_an_uncommitted_run_is_removed_never_moved(ledger, asked) -> None:
    dead = ledger.reserve("town", LOSS, "dead", "density")
    folder = asked.out.parent / f".out.staging-{dead.reservation}"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(manifest().to_json())
    release(ledger, asked, build)
    assert left(asked) == ["out"]
    assert (asked.out / "density.csv").exists()


def test_a_committed_leftover_is_never_removed(ledger, asked, monkeypatch) -> None:
    """Its folder was moved, so it was committed for another place: paid for, and only its owner knows."""
    die_before_rename(ledger, asked, monkeypatch)
    moved = asked.out.parent.rename(asked.out.parent.parent / "moved")
    names = [path.name for path in moved.iterdir()]
    release(ledger, with_(asked, key="other", out=moved / "out"), build)
    assert sorted(path.name for path in moved.iterdir()) == sorted([*names, "out"])
    assert (moved / names[0] / "density.csv").exists()


def test_a_committed_leftover_that_was_changed_is_left_too(ledger, asked, monkeypatch) -> None:
    die_before_rename(ledger, asked, monkeypatch)
    (hidden,) = asked.out.parent.iterdir()
    (hidden / "manifest.json").write_text("{}")
    release(ledger, with_(asked, key="other"), build)
    assert left(asked) == [hidden.name, "out"]


def test_only_names_of_staging_folders_are_swept(ledger, asked) -> None:
    kept = [
        ".out.staging-notes",
        ".out.staging-12-34",
        ".out.staging-",
        ".out.staging-ab.staging-12",
        ".outX",
    ]
    for name in [*kept, ".out.staging-12ab", ".out.staging-publish-12ab"]:
        (asked.out.parent / name).mkdir(parents=True)
    release(ledger, asked, build)
    assert left(asked) == sorted([*kept, "out"])


def test_a_live_run_on_the_same_folder_is_left_alone(ledger, asked) -> None:
    folder = asked.out.parent / ".out.staging-1234"
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(OutputError, match="folder-busy"):
        release(ledger, asked, build)
    os.close(handle)
    assert folder.exists()
    assert spent(ledger) == 0
