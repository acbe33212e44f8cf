"""The protocol of a release: what is paid, what is visible, what is left after a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.small import COST, build, manifest
from tests.unit.release.conftest import left, spent, with_

from shoal.errors import GuaranteeError, LedgerError, OutputError, PlanError, ShoalError
from shoal.privacy.accounting import Loss
from shoal.privacy.guarantee import Guarantee, Unit
from shoal.privacy.ledger import Ledger, open_ledger
from shoal.release.folder import ReleaseRequest, preflight, release, write_for_owner
from shoal.release.manifest import Manifest
from shoal.release.verify import check_release


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


def test_nothing_is_spent_when_the_folder_cannot_be_used_or_the_budget_is_gone(ledger, asked):
    with pytest.raises(LedgerError, match="budget-exceeded"):
        release(ledger, with_(asked, loss=Loss(101)), build)
    with pytest.raises(LedgerError, match="seeded-release"):
        release(ledger, with_(asked, reproducible=True), build)
    assert left(asked) == []
    assert spent(ledger) == 0
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


def test_tuning_is_carried_and_seeded_runs_are_the_owners(ledger, asked, tmp_path):
    ledger.remember_tuning("town", "ell chosen on raw counts")
    release(ledger, asked, build)
    found = check_release(asked.out).manifest
    assert found is not None
    assert found.tuned_on_private_data == "recorded"
    owners = tmp_path / "owners"
    owners.mkdir()
    out = write_for_owner(owners / "seeded", lambda folder: manifest(reproducible=True))
    assert check_release(out).problems == ()
    with pytest.raises(GuaranteeError, match="not-seeded"):
        write_for_owner(owners / "second", lambda folder: manifest())
    assert [path.name for path in owners.iterdir()] == ["seeded"]


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
