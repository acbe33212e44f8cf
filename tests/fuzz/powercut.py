"""Power cuts during a small release: nothing acknowledged is lost, nothing is visible without its spend.

The recorded effects of the release are played back up to a random one. Effects that a sync covers are there;
of the others a random part is lost, in any order: sectors of writes, names in folders, renames. This is what
a file system may do that orders nothing. Then the code opens what is left and runs the same releases again.
"""

import base64
import fcntl
import functools
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.small_release import KEYS, LIMIT, LOSS, build, ledger_of, request
from tests.fuzz.trace import FIXED_ROOT, Effect, fixture, record

from shoal.privacy.ledger import open_ledger
from shoal.release.folder import release
from shoal.release.manifest import MANIFEST
from shoal.release.verify import check_release

SECTOR = 512


def cut_the_power(rng: random.Random) -> None:
    """One cut of the recorded release."""
    cut_in_place(fixture_effects(), rng)


def cut_in_place(effects: list[Effect], rng: random.Random) -> None:
    """One cut of effects in the folder of the fixture: its ledger holds the folders of its releases."""
    with _alone(FIXED_ROOT):
        cut(effects, FIXED_ROOT, rng)


@functools.cache
def fixture_effects() -> list[Effect]:
    return fixture()


def record_now() -> tuple[Path, list[Effect]]:
    """The release of the code as it is, recorded with strace, and the folder it must be played back in."""
    root = Path(tempfile.mkdtemp(dir=FIXED_ROOT.parent, prefix="shoal-powercut-"))
    return root, record(root)


def cut(effects: list[Effect], root: Path, rng: random.Random) -> None:
    """Play effects back up to a random one, lose what was not synced, and check what is left."""
    end = rng.randrange(len(effects) + 1)
    keep = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(mode=0o700)
    try:
        _write(root, *_survivors(effects[:end], rng, keep))
        check(root, [effect[1] for effect in effects[:end] if effect[0] == "mark"])
    except Exception as error:
        raise AssertionError(
            f"cut after effect {end}, {keep:.0%} of what was not synced kept: {error}"
        ) from error
    finally:
        shutil.rmtree(root)


def check(root: Path, marks: list[str]) -> None:
    """What was acknowledged is there; what is visible was committed; the same runs again end well."""
    ledger = open_ledger(ledger_of(root))
    assert ledger.verify() == []
    population = ledger.state().find("town")
    if population is None:
        assert not marks, "a population was lost"
        return
    assert population.limit_nano == LIMIT
    assert population.spent_nano == len(population.spends) * LOSS.rho_nano
    for key in KEYS:
        spends = [spend for spend in population.spends if spend.key == key]
        stored, out = population.released.get(key), request(root, key).out
        assert len(spends) <= 1, "a spend from nowhere"
        assert spends or f"reserved {key}" not in marks, "a spend was lost"
        assert stored or f"committed {key}" not in marks, "a commit was lost"
        assert out.is_dir() or f"released {key}" not in marks, "a release was lost"
        if out.is_dir():
            checked = check_release(out)
            assert not checked.problems
            assert stored is not None, "a release without its spend"
            assert checked.manifest_sha256 == stored.manifest_sha256
    for key in KEYS:
        before = ledger.state().population("town")
        made = release(ledger, request(root, key), build)
        after = ledger.state().population("town")
        paid = 0 if made.reused else LOSS.rho_nano
        assert after.spent_nano == before.spent_nano + paid
        assert made.reused or key not in before.released, "a committed release was paid for again"
        assert after.released[key].manifest_sha256 == made.manifest_sha256
        assert (made.path / MANIFEST).is_file()
    assert ledger.verify() == []


def _survivors(
    effects: list[Effect], rng: random.Random, keep: float
) -> tuple[dict[int, dict[str, int]], dict[int, bytearray]]:
    """Folders and files after a cut: effects that a later sync covers, and a random part of the others."""
    synced: dict[int, int] = {effect[1]: place for place, effect in enumerate(effects) if effect[0] == "sync"}
    folders: dict[int, dict[str, int]] = {0: {}}
    files: dict[int, bytearray] = {}

    def lasts(place: int, *of: int) -> bool:
        return any(synced.get(each, -1) > place for each in of) or rng.random() < keep

    for place, (kind, *given) in enumerate(effects):
        if kind == "link":
            folder, name, number, what = given
            if what == "folder":
                folders[number] = {}
            else:
                files[number] = bytearray()
            if lasts(place, folder):
                folders[folder][name] = number
        elif kind == "unlink":
            if lasts(place, given[0]):
                folders[given[0]].pop(given[1], None)
        elif kind == "rename":
            old, name, new, new_name = given
            moved = _linked(effects[:place], old, name)
            if lasts(place, old, new):
                folders[old].pop(name, None)
                folders[new][new_name] = moved
        elif kind == "write":
            number, offset, content = given[0], given[1], base64.b64decode(given[2])
            for start, piece in _sectors(offset, content):
                if lasts(place, number):
                    file = files[number]
                    file.extend(bytes(max(0, start + len(piece) - len(file))))
                    file[start : start + len(piece)] = piece
        elif kind == "size" and lasts(place, given[0]):
            file = files[given[0]]
            del file[given[1] :]
            file.extend(bytes(given[1] - len(file)))
    return folders, files


def _linked(effects: list[Effect], folder: int, name: str) -> int:
    """The file or folder of this name, as the running system saw it."""
    for kind, *given in reversed(effects):
        if kind == "link" and given[:2] == [folder, name]:
            return given[2]
    raise AssertionError("a rename of nothing")


def _sectors(offset: int, content: bytes) -> Iterator[tuple[int, bytes]]:
    start, end = offset, offset + len(content)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield start, content[start - offset : stop - offset]
        start = stop


def _write(root: Path, folders: dict[int, dict[str, int]], files: dict[int, bytearray]) -> None:
    def fill(path: Path, number: int) -> None:
        for name, inner in folders[number].items():
            if inner in folders:
                (path / name).mkdir(mode=0o700)
                fill(path / name, inner)
            else:
                (path / name).touch(0o600)
                (path / name).write_bytes(files[inner])

    fill(root, 0)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """One process at a time in the folder of the fixture."""
    handle = os.open(root.with_name(root.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
