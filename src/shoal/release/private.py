"""Files and folders of the owner: raw figures that no other account may read, replace or redirect."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from shoal.errors import OutputError
from shoal.release.staging import fsync, unwritable

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
