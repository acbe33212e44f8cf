"""The protocol of a release: what is paid, what is visible, what is left after a failure."""

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

from shoal.errors import GuaranteeError, LedgerError, OutputError, PlanError, ShoalError
from shoal.privacy.accounting import Loss
from shoal.privacy.guarantee import Guarantee, Unit
from shoal.privacy.ledger import Ledger, open_ledger, sqlite
from shoal.privacy.ledger import chain as runs
from shoal.release.folder import Committed, ReleaseRequest, preflight, release, write_for_owner
from shoal.release.manifest import Manifest
from shoal.release.verify import check_release

LOSS = Loss.pure(100_000)
COST = 5


def manifest(**change) -> Manifest:
    loss = change.pop("loss", LOSS)
    guarantee = Guarantee.of(loss, delta=change.pop("delta", None), unit=Unit())
    spend = {"name": "counts", "mechanism": "some", "rho": loss.rho}
    if loss.pure_epsilon_nano is not None:
        spend["epsilon"] = loss.pure_epsilon_nano / 1e9
    fields = {
        "unit": Unit().sentence,
        "promise": guarantee.sentence,
        "guarantee": guarantee.to_manifest(),
        "public": {},
        "spends": [spend],
        "population": "town",
        "input": {},
        "columns": {},
    }
    return Manifest(**(fields | change))


def build(folder: Path) -> Manifest:
    (folder / "maps").mkdir()
    (folder / "maps" / "zones.json").write_text("{}")
    (folder / "density.csv").write_text("zone,people\n")
    return manifest()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = open_ledger(tmp_path / "private" / "ledger.sqlite")
    made.create("town", currency="rho", limit_nano=100)
    return made


@pytest.fixture
def asked(tmp_path: Path) -> ReleaseRequest:
    return ReleaseRequest(
        population="town", loss=LOSS, key="k", out=tmp_path / "place" / "out", what="density"
    )


def spent(ledger: Ledger) -> int:
    return ledger.state().population("town").spent_nano


def with_(asked: ReleaseRequest, **change) -> ReleaseRequest:
    return ReleaseRequest(**{**vars(asked), **change})


def left(asked: ReleaseRequest) -> list[str]:
    return sorted(path.name for path in asked.out.parent.iterdir()) if asked.out.parent.exists() else []


def test_release_then_the_same_again_for_free(ledger: Ledger, asked: ReleaseRequest) -> None:
    old = os.umask(0)
    try:
        first = release(ledger, asked, build)
    finally:
        os.umask(old)
    assert (first.path, first.reused, spent(ledger)) == (asked.out, False, COST)
    assert check_release(asked.out).manifest_sha256 == first.manifest_sha256
    assert {path.stat().st_mode & 0o777 for path in asked.out.rglob("*") if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in [asked.out, asked.out / "maps"]} == {0o700}
    again = release(ledger, with_(asked, out=asked.out.parent / "elsewhere"), build)
    assert (again.path, again.reused, spent(ledger)) == (asked.out, True, COST)
    assert again.manifest_sha256 == first.manifest_sha256
    assert left(asked) == ["out"]


def test_nothing_is_spent_when_the_folder_cannot_be_used(ledger: Ledger, asked: ReleaseRequest) -> None:
    asked.out.mkdir(parents=True)
    with pytest.raises(OutputError, match="folder-exists"):
        release(ledger, asked, build)
    asked.out.rmdir()
    asked.out.symlink_to("nowhere")
    with pytest.raises(OutputError, match="folder-exists"):
        release(ledger, asked, build)
    with pytest.raises(OutputError, match="unwritable-folder"):
        release(ledger, with_(asked, out=Path(ledger.store.where()) / "out"), build)
    with pytest.raises(OutputError, match="folder-name"):
        release(ledger, with_(asked, out=Path("/")), build)
    assert spent(ledger) == 0


def test_nothing_is_written_when_the_budget_is_gone(ledger: Ledger, asked: ReleaseRequest) -> None:
    with pytest.raises(LedgerError, match="budget-exceeded"):
        release(ledger, with_(asked, loss=Loss(101)), build)
    with pytest.raises(LedgerError, match="seeded-release"):
        release(ledger, with_(asked, reproducible=True), build)
    assert left(asked) == []
    assert spent(ledger) == 0


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (ValueError("user 4711 is odd"), ShoalError, "release-failed"),
        (PlanError("some-rule", "the plan is odd."), PlanError, "some-rule"),
        (OSError(28, "No space left on device"), OutputError, "unwritable-folder"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_a_failed_build_stays_spent_and_leaves_nothing(
    ledger: Ledger, asked: ReleaseRequest, error: BaseException, kind: type, code: str | None
) -> None:
    def fail(folder: Path) -> Manifest:
        (folder / "half.csv").write_text("zone")
        raise error

    with pytest.raises(kind) as caught:
        release(ledger, asked, fail)
    if code:
        assert caught.value.code == code
        assert "4711" not in str(caught.value)
        assert "rho = 0.000000005 is recorded as spent" in str(caught.value)
    assert left(asked) == []
    assert spent(ledger) == COST
    assert not release(ledger, asked, build).reused
    assert spent(ledger) == 2 * COST


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"reproducible": True}, "seeded-release"),
        ({"population": "other"}, "manifest-population"),
        ({"loss": Loss.pure(99_999)}, "manifest-price"),
        ({"loss": Loss(4), "delta": 1e-6}, "manifest-price"),
        ({"promise": Guarantee.of(Loss.pure(99_999), delta=None, unit=Unit()).sentence}, "manifest-price"),
        ({"promise": "Nobody can be found."}, "manifest-price"),
        ({"spends": []}, "manifest-price"),
        ({"spends": [{"name": "counts", "rho": 4e-9, "epsilon": 0.0001}]}, "manifest-price"),  # too little
        ({"spends": [{"name": "counts", "rho": 6e-9, "epsilon": 0.0001}]}, "manifest-price"),  # too much
        ({"spends": [{"name": "counts", "epsilon": 0.00011}]}, "manifest-price"),
        ({"spends": [{"name": "counts", "rho": 5e-9}]}, "manifest-price"),  # no pure epsilon behind delta = 0
        (
            {
                "guarantee": {"kind": "not differentially private", "unit": "user"},
                "promise": "Hidden among 5.",
                "spends": [],
            },
            "manifest-kind",
        ),
    ],
)
def test_manifest_has_to_say_what_was_paid(
    ledger: Ledger, asked: ReleaseRequest, change: dict, code: str
) -> None:
    with pytest.raises(ShoalError) as caught:
        release(ledger, asked, lambda folder: manifest(**change))
    assert caught.value.code == code
    assert left(asked) == []
    assert ledger.find("town", "k") is None


def test_price_of_a_rho_release_is_checked_both_ways(ledger: Ledger, asked: ReleaseRequest) -> None:
    true = manifest(loss=Loss(50), delta=1e-6)
    low = {**true.guarantee, "epsilon": true.guarantee["epsilon"] * 0.99}
    asked = with_(asked, loss=Loss(50))
    with pytest.raises(GuaranteeError, match="manifest-price"):
        release(ledger, asked, lambda folder: manifest(loss=Loss(50), delta=1e-6, guarantee=low))
    assert not release(ledger, asked, lambda folder: true).reused


@pytest.mark.parametrize("name", ["link", "pipe", "manifest"])
def test_only_plain_files(ledger: Ledger, asked: ReleaseRequest, name: str) -> None:
    def odd(folder: Path) -> Manifest:
        if name == "link":
            (folder / "link").symlink_to("/etc/hostname")
        elif name == "pipe":
            os.mkfifo(folder / "pipe")
        else:
            (folder / "manifest.json").write_text("{}")
        return manifest()

    with pytest.raises(OutputError):
        release(ledger, asked, odd)
    assert left(asked) == []


@pytest.mark.parametrize("name", ["a\u00a0b", "a\u3000b", "a\tb", "a\nb"], ids=ascii)
def test_a_folder_with_an_odd_name_is_released_at_once(ledger, asked, name: str) -> None:
    asked = with_(asked, out=asked.out.parent / name)
    assert release(ledger, asked, build).path == asked.out
    assert release(ledger, asked, build).reused
    assert spent(ledger) == COST


def busy(*_given, **_named):
    raise LedgerError("ledger-busy", "the ledger is in use.", "Try again later.")


def never(folder: Path) -> Manifest:
    raise AssertionError("it was built before")


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
    monkeypatch.setattr(runs, "WAIT_SECONDS", 0.0)

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


def test_every_folder_made_for_a_release_is_synced(ledger, asked, monkeypatch) -> None:
    synced: set[tuple[int, int]] = set()
    fsync = os.fsync

    def spy(handle: int) -> None:
        told = os.fstat(handle)
        synced.add((told.st_dev, told.st_ino))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", spy)
    made = release(ledger, with_(asked, out=asked.out.parent / "a" / "b" / "out"), build).path
    for folder in [made / "maps", made, *made.parents][:6]:
        told = folder.stat()
        assert (told.st_dev, told.st_ino) in synced, folder


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


def test_preflight_raises_what_release_would_and_leaves_nothing(ledger, asked, tmp_path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    for change, code in [
        ({"out": taken}, "folder-exists"),
        ({"out": Path(ledger.store.where()) / "out"}, "unwritable-folder"),
        ({"out": tmp_path / ("x" * 250)}, "unwritable-folder"),
        ({"out": Path("/")}, "folder-name"),
        ({"population": "nobody"}, "unknown-population"),
        ({"loss": Loss(101)}, "budget-exceeded"),
    ]:
        before = ledger.head(), sorted(tmp_path.rglob("*"))
        with pytest.raises(ShoalError) as early:
            preflight(ledger, with_(asked, **change))
        assert early.value.code == code
        assert (ledger.head(), sorted(tmp_path.rglob("*"))) == before
        with pytest.raises(ShoalError) as late:
            release(ledger, with_(asked, **change), build)
        assert late.value.code == code
        if asked.out.parent.exists():  # release makes it, preflight does not
            asked.out.parent.rmdir()
    preflight(ledger, asked, manifest())
    with pytest.raises(GuaranteeError, match="manifest-price"):
        preflight(ledger, asked, manifest(promise="Nobody can be found."))
    assert not asked.out.parent.exists()
    assert spent(ledger) == 0
    release(ledger, asked, build)
    preflight(ledger, asked)  # stored before: free, although its folder exists


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


def test_tuning_is_carried_into_the_manifest(ledger, asked) -> None:
    ledger.remember_tuning("town", "ell chosen on raw counts")
    release(ledger, asked, build)
    found = check_release(asked.out).manifest
    assert found is not None
    assert found.tuned_on_private_data == "recorded"


def test_a_release_that_is_not_private_is_listed_and_costs_nothing(ledger, asked) -> None:
    def trips(folder: Path) -> Manifest:
        (folder / "trips.csv").write_text("trip\n")
        return manifest(
            guarantee={"kind": "not differentially private", "unit": "user", "k": 5},
            promise="Each trip is hidden among 5.",
            spends=[],
        )

    asked = with_(asked, loss=None)
    assert not release(ledger, asked, trips).reused
    assert release(ledger, asked, trips).reused
    assert spent(ledger) == 0
    assert [note["kind"] for note in ledger.state().population("town").notes] == ["listing"]
    with pytest.raises(GuaranteeError, match="manifest-kind"):
        release(ledger, with_(asked, key="2", out=asked.out.parent / "2"), lambda folder: manifest())


def test_seeded_run_is_written_for_the_owner_only(tmp_path: Path) -> None:
    out = write_for_owner(tmp_path / "owner", lambda folder: manifest(reproducible=True))
    assert check_release(out).problems == ()
    with pytest.raises(GuaranteeError, match="not-seeded"):
        write_for_owner(tmp_path / "second", lambda folder: manifest())
    assert [path.name for path in tmp_path.iterdir()] == ["owner"]


def test_the_owners_folder_notices_an_older_ledger(ledger, asked, tmp_path) -> None:
    owner = tmp_path / "owner"
    owner.mkdir(0o700)
    asked = with_(asked, owner=owner)
    place = Path(ledger.store.where())
    files = [place, Path(f"{place}.head")]
    before = [path.read_bytes() for path in files]
    release(ledger, asked, build)
    after = [path.read_bytes() for path in files]
    noted = owner / "ledger-head.txt"
    assert noted.stat().st_mode & 0o777 == 0o600
    assert noted.read_text().split()[1:] == ["3", ledger.head()]
    for path, content in zip(files, before, strict=True):  # the head beside it is restored too
        path.write_bytes(content)
    assert spent(ledger) == 0
    for call in (lambda: preflight(ledger, asked), lambda: release(ledger, asked, build)):
        with pytest.raises(LedgerError, match=r"ledger-older(?s:.*)had 3 when"):
            call()
    for path, content in zip(files, after, strict=True):
        path.write_bytes(content)
    assert release(ledger, asked, build).reused
    other = open_ledger(tmp_path / "other.sqlite")  # another ledger is not an older one
    other.create("town", currency="rho", limit_nano=100)
    release(other, with_(asked, out=asked.out.parent / "other"), build)
    noted.write_text("nonsense")
    preflight(ledger, asked)
