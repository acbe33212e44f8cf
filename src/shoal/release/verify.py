"""Check a release folder as its recipient: every hash, no file too many, a manifest that makes sense.

Needs no ledger and no key. It shows that the folder is what its manifest says; that the manifest is the
owner's is shown by where the recipient got its hash from.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shoal.errors import GuaranteeError, OutputError
from shoal.release.manifest import MANIFEST, Manifest
from shoal.release.price import price_problems


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check of a folder found: its manifest if it can be read, and every problem."""

    manifest: Manifest | None
    manifest_sha256: str
    problems: tuple[str, ...]


def check_release(folder: Path) -> Checked:
    """Read everything in `folder` and compare it with its manifest, and the manifest with itself."""
    folder = Path(folder)
    if not folder.is_dir():
        raise OutputError("no-release", f"there is no release folder at {folder}.", "Check the path.")
    path = folder / MANIFEST
    if not os.path.lexists(path):
        raise OutputError(
            "not-a-release", f"{folder} is not a release folder: it has no {MANIFEST}.", "Check the path."
        )
    if path.is_symlink() or not path.is_file():
        return Checked(manifest=None, manifest_sha256="", problems=(f"{MANIFEST} is not a plain file.",))
    try:
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        manifest = Manifest.from_json(content.decode())
    except UnicodeDecodeError:
        return Checked(manifest=None, manifest_sha256=digest, problems=(f"{MANIFEST} is not text.",))
    except GuaranteeError as error:
        return Checked(manifest=None, manifest_sha256=digest, problems=(error.message,))
    except OSError as error:
        raise _unreadable(folder, error) from error
    try:
        problems = _file_problems(folder, manifest) + price_problems(manifest)
    except OSError as error:
        raise _unreadable(folder, error) from error
    return Checked(manifest=manifest, manifest_sha256=digest, problems=tuple(problems))


def sha256_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _file_problems(folder: Path, manifest: Manifest) -> list[str]:
    problems = []
    for name, entry in manifest.files.items():
        if not _is_inside(name):
            problems.append(f"{name!r} is not a name of a file in the folder.")
            continue
        path = folder / name
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name} is missing.")
        elif path.stat().st_size != entry.bytes:
            problems.append(f"{name} has {path.stat().st_size} bytes; the manifest says {entry.bytes}.")
        elif sha256_file(path) != entry.sha256:
            problems.append(f"{name} was changed: its hash is not the one in the manifest.")
    return problems + _extra(folder, set(manifest.files))


def _extra(folder: Path, named: set[str]) -> list[str]:
    """Everything in the folder that the manifest does not name, also hidden, linked and empty."""
    folders = {str(parent) for name in named for parent in PurePosixPath(name).parents}
    problems = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        known = name in folders if path.is_dir() and not path.is_symlink() else name in named | {MANIFEST}
        if not known:
            problems.append(f"{name if name.isprintable() else ascii(name)} is not in the manifest.")
    return problems


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    plain = name == str(path) and not path.is_absolute() and path.parts and "\\" not in name
    return bool(plain) and ".." not in path.parts and name != MANIFEST


def _unreadable(folder: Path, error: OSError) -> OutputError:
    return OutputError(
        "unreadable-folder", f"{folder} cannot be read ({error.strerror}).", "Check permissions."
    )
