"""The owner's folder: where raw figures go, never inside a release."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.errors import OutputError
from shoal.release.manifest import MANIFEST
from shoal.release.staging import unwritable


def open_owner_folder(path: Path) -> Path:
    """The owner's folder, made and tried before anything is spent; never inside a release."""
    path = path.resolve()
    if any((folder / MANIFEST).is_file() for folder in (path, *path.parents)):
        raise OutputError(
            "owner-in-release",
            f"the owner's folder {path} lies in a release; raw figures must stay out of it.",
            "Pass another --owner.",
        )
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(path, error) from error
    return path
