"""Full disks and read-only folders: nothing half-written is visible, the ledger stays whole."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.small import manifest, request_for

from shoal.errors import ShoalError
from shoal.privacy.ledger import open_ledger
from shoal.release.folder import ReleaseRequest, release
from shoal.release.manifest import Manifest
from shoal.release.verify import check_release

DONE, REFUSED, CRASHED = 0, 1, 2
NOBODY = 65534


def build(folder: Path) -> Manifest:
    (folder / "density.csv").write_bytes(b"zone,people\n" * 1000)
    return manifest()


def asked(folder: Path) -> ReleaseRequest:
    return request_for(folder / "out")


def attempt(folder: Path, before: Callable[[], object], ledger: Path | None = None) -> int:
    """A release in a fork that first restricts itself; whether it was done, refused politely, or crashed."""
    pid = os.fork()
    if pid == 0:
        status = CRASHED
        try:
            before()
            release(open_ledger(ledger or folder / "ledger.sqlite"), asked(folder), build)
            status = DONE
        except ShoalError as error:
            status = REFUSED if error.exit_code in (4, 5) else CRASHED
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def check(folder: Path, status: int, ledger: Path | None = None) -> None:
    """Whatever happened: the chain holds, and what is visible is whole and committed."""
    book = open_ledger(ledger or folder / "ledger.sqlite")
    assert status != CRASHED
    assert book.verify() == []
    stored = book.find("town", "k")
    visible = sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", "ledger")))
    assert visible == (["out"] if status == DONE else [])
    if status == DONE:
        assert stored is not None
        assert check_release(folder / "out").manifest_sha256 == stored.manifest_sha256
    elif stored is None and not book.unfinished():
        assert not list(folder.glob(".out.staging-*")), "an uncommitted attempt leaves nothing"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    open_ledger(tmp_path / "ledger.sqlite").create("town", currency="rho", limit_nano=1000)
    return tmp_path


def test_files_that_cannot_grow(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """RLIMIT_FSIZE at many sizes stops the journal, the ledger, the data or the manifest half-way."""
    seen = set()
    sizes = "0 100 511 513 1000 2000 4000 4097 5000 8000 8192 8193 11999 12000 12289 20000"
    for limit in map(int, sizes.split()):
        copy = tmp_path_factory.mktemp("limit") / "copy"
        shutil.copytree(folder, copy)
        cap = (limit, resource.RLIM_INFINITY)
        status = attempt(copy, lambda cap=cap: resource.setrlimit(resource.RLIMIT_FSIZE, cap))
        check(copy, status)
        seen.add(status)
        book = open_ledger(copy / "ledger.sqlite")
        free = status == DONE or bool(book.unfinished())
        assert release(book, asked(copy), build).reused == free
    assert seen == {DONE, REFUSED}


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 96 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    with tempfile.TemporaryDirectory() as name:
        mount = ["mount", "-t", "tmpfs", "-o", "size=96k,mode=700", "shoal-test", name]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("this machine does not let us mount a file system")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)


def test_disk_full(small_disk: Path) -> None:
    open_ledger(small_disk / "ledger.sqlite").create("town", currency="rho", limit_nano=1000)
    seen = set()
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize
    for fill in range(free, -1, -4096):
        (small_disk / ".filler").write_bytes(b"x" * fill)
        status = attempt(small_disk, lambda: None)
        check(small_disk, status)
        seen.add(status)
        (small_disk / ".filler").unlink()
        if status == DONE:
            break
    assert seen == {DONE, REFUSED}


def as_nobody() -> None:
    os.setegid(NOBODY)
    os.seteuid(NOBODY)


def let_nobody_in(folder: Path, *owned: Path) -> None:
    """Nobody may walk down to `folder`, however deep the test runner put it, and owns the rest."""
    top = Path(tempfile.gettempdir()).resolve()
    for path in (folder, *folder.parents):
        if path == top or top not in path.parents:
            break
        path.chmod(path.stat().st_mode | 0o011)
    for path in owned:
        os.chown(path, NOBODY, NOBODY)


def test_read_only_folder_is_refused_before_anything_is_spent(folder: Path) -> None:
    place = folder / "place"
    place.mkdir()
    ledger = folder / "mine" / "ledger.sqlite"
    open_ledger(ledger).create("town", currency="rho", limit_nano=1000)
    place.chmod(0o555)
    before = lambda: None  # noqa: E731
    if os.geteuid() == 0:
        before = as_nobody
        let_nobody_in(folder, *ledger.parent.iterdir(), ledger.parent, place)
    assert attempt(place, before, ledger) == REFUSED
    check(place, REFUSED, ledger)
    assert open_ledger(ledger).state().population("town").spent_nano == 0
    place.chmod(0o755)
    assert attempt(place, before, ledger) == DONE
    check(place, DONE, ledger)


def test_read_only_ledger_stops_the_release(folder: Path) -> None:
    place = folder / "place"
    place.mkdir()
    ledger = folder / "mine" / "ledger.sqlite"
    open_ledger(ledger).create("town", currency="rho", limit_nano=1000)
    before = lambda: None  # noqa: E731
    if os.geteuid() == 0:
        before = as_nobody
        let_nobody_in(folder, *ledger.parent.iterdir(), ledger.parent, place)
    ledger.chmod(0o400)
    ledger.parent.chmod(0o500)
    assert attempt(place, before, ledger) == REFUSED
    ledger.parent.chmod(0o700)
    ledger.chmod(0o600)
    check(place, REFUSED, ledger)
    assert list(place.iterdir()) == []
