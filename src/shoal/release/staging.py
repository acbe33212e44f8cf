"""A hidden folder beside the release: filled, sealed, then moved into place in one step.

`.NAME.staging-ID` lies on the same file system as NAME, so the move is a rename. Its maker holds a lock
on it while it runs; a folder without a lock was left by a process that died.

Files and folders of the owner: raw figures that no other account may read, replace or redirect.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from shoal.errors import OutputError
from shoal.release.manifest import MANIFEST, FileEntry, Manifest, sha256_file, sha256_text


@dataclass(frozen=True)
class Staging:
    """An open staging folder; `handle` keeps the lock."""

    path: Path
    handle: int

    def seal(self, manifest: Manifest) -> str:
        """Close modes, hash every file, write the manifest last, sync all; returns the manifest's hash."""
        if (self.path / MANIFEST).exists():
            raise OutputError("reserved-name", f"{MANIFEST} is written when the release is sealed.")
        files = {}
        for path in sorted(self.path.rglob("*")):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise OutputError("strange-file", "a release holds only plain files and folders.")
            path.chmod(0o700 if path.is_dir() else 0o600)
            if path.is_file():
                name = path.relative_to(self.path).as_posix()
                files[name] = FileEntry(sha256=sha256_file(path), bytes=path.stat().st_size)
        text = replace(manifest, files=files).to_json()
        handle = os.open(self.path / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        for path in [*self.path.rglob("*"), self.path]:
            fsync(path)
        fsync(self.path.parent)
        return sha256_text(text)

    def discard(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        os.close(self.handle)


def open_staging(out: Path, name: str) -> Staging:
    """Make and lock the staging folder of `out`; says so if the release could not be written there."""
    refuse_existing(out)
    path = staging_path(out, name)
    try:
        _make_durable(out.parent)
        path.mkdir(mode=0o700)
        path.chmod(0o700)  # whatever the umask
        return Staging(path, _lock(path))
    except OSError as error:
        raise unwritable(out, error) from error


def check_place(out: Path, name: str) -> None:
    """Raise what `open_staging` would raise, by making and removing a folder; leaves nothing behind."""
    refuse_existing(out)
    try:
        above = next(folder for folder in out.parents if os.path.lexists(folder))
        probe = staging_path(above / out.name, name)
        probe.mkdir(mode=0o700)
        with suppress(FileNotFoundError):  # another run swept it away
            probe.rmdir()
    except OSError as error:
        raise unwritable(out, error) from error


def refuse_existing(out: Path) -> None:
    refuse_inside_release(out)
    if os.path.lexists(out):
        raise OutputError(
            "folder-exists",
            f"the release folder {out} exists.",
            "Name a new folder, or move the old one away.",
        )


def refuse_inside_release(out: Path) -> None:
    """Nothing may be written into a release: it would no longer be what its manifest says."""
    for folder in Path(os.path.abspath(out)).parents:
        if (folder / MANIFEST).exists():
            raise OutputError(
                "inside-release",
                f"{out} lies inside the release {folder}, which must stay as it is.",
                "Name a folder outside of it.",
            )


def staging_path(out: Path, name: str) -> Path:
    return out.parent / f".{out.name}.staging-{name}"


def leftovers(out: Path) -> Iterator[Staging]:
    """Staging folders of `out`, each locked; refuses while a live process works on one."""
    # Exactly the names made here: NAME.staging-x may be somebody's own folder, or of a longer NAME.
    made = re.compile(re.escape(staging_path(out, "").name) + r"(publish-)?[0-9a-f]+")
    try:
        found = [path for path in out.parent.iterdir() if made.fullmatch(path.name)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # nothing there, or opening the new one will say why
    for path in sorted(found):
        try:
            yield Staging(path, _lock(path))
        except BlockingIOError:
            raise OutputError(
                "folder-busy", f"another run is writing {out}.", "Wait for it, or name another folder."
            ) from None
        except FileNotFoundError:
            continue  # its owner moved it just now


def move(staging: Path, out: Path) -> None:
    """The staging folder becomes the release, atomically and durably; never over something else."""
    if os.path.lexists(out):
        raise OutputError(
            "folder-exists",
            f"{out} appeared while the release was made; the release waits beside it in {staging.name}.",
            "Move that folder away and run the same command again: it finishes and spends nothing.",
        )
    try:
        os.rename(staging, out)
        fsync(out.parent)
    except OSError as error:
        raise OutputError(
            "not-moved",
            f"the release is committed but could not be moved to {out} ({error.strerror}).",
            "Make the folder writable and run the same command again: it finishes and spends nothing.",
        ) from error


def _make_durable(folder: Path) -> None:
    """Make a folder and its parents, and sync the parent of each new one, or a power cut may lose it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        fsync(each.parent)


def fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unwritable(out: Path, error: OSError) -> OutputError:
    return OutputError(
        "unwritable-folder",
        f"a release cannot be written to {out} ({error.strerror}).",
        "Check the folder, its permissions and the free space.",
    )


def _lock(path: Path) -> int:
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


WRITABLE_BY_OTHERS = 0o022


@contextmanager
def private_file(path: Path, *, text: bool = False) -> Iterator[IO[Any]]:
    """Open a new file (0600) that takes the name `path` once it is complete and on disk.

    Whatever had that name before, a link or a file of another account included, is replaced and never
    written to. An OSError leaves the old file in place.
    """
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".draft")
    try:
        with open(handle, "w" if text else "wb", encoding="utf-8" if text else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        fsync(path.parent)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def private_folder(path: Path) -> Path:
    """Make the folder, missing parents included, for this account alone; refuse one others can write."""
    path = path.resolve()
    try:
        for folder in reversed((path, *path.parents)):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        state = path.stat()
    except OSError as error:
        raise unwritable(path, error) from error
    if state.st_uid != os.geteuid():
        raise OutputError(
            "owner-folder-foreign",
            f"the folder {path} belongs to another account, which could read or replace raw figures in it.",
            "Name a folder of your own, or take this one over with chown.",
        )
    if state.st_mode & WRITABLE_BY_OTHERS:
        raise OutputError(
            "owner-folder-open",
            f"other accounts can write into the folder {path} (mode {state.st_mode & 0o777:o}) and could "
            "replace raw figures in it.",
            f"Run: chmod go-w {path}",
        )
    return path
