"""Check a release folder as its recipient: every hash, no file too many, a manifest that its files bear out.

Needs no ledger. That the manifest is the owner's is shown by its hash, which the owner gave to the recipient
(`sha256`), or by the owner's signature (release/signature.py).
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shoal.errors import GuaranteeError, OutputError, PlanError
from shoal.release.audit_cases import case_problems
from shoal.release.contents import content_problems
from shoal.release.manifest import MANIFEST, Manifest, sha256_file
from shoal.release.price import price_problems
from shoal.release.signature import SIGNATURE


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check of a folder found: its manifest if it can be read, and every problem."""

    manifest: Manifest | None
    manifest_sha256: str
    problems: tuple[str, ...]


def check_release(folder: Path, *, sha256: str | None = None, contents: bool = True) -> Checked:
    """Read everything in `folder` and compare it with its manifest, and the manifest with itself.

    `sha256` is the manifest's hash as the owner gave it. `contents`: not hashes and prices alone.
    """
    folder = Path(folder)
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256.strip()):
        raise PlanError(
            "hash-malformed",
            "a SHA-256 hash has 64 hexadecimal digits.",
            "Pass the hash that the owner gave you; `shoal publish` prints it.",
        )
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
        problems = (*_other_hash(digest, sha256), error.message)
        return Checked(manifest=None, manifest_sha256=digest, problems=problems)
    except OSError as error:
        raise _unreadable(folder, error) from error
    try:
        problems = _file_problems(folder, manifest) + price_problems(manifest) + case_problems(manifest)
        if contents and not problems:
            problems = content_problems(folder, manifest)
    except OSError as error:
        raise _unreadable(folder, error) from error
    return Checked(
        manifest=manifest, manifest_sha256=digest, problems=(*_other_hash(digest, sha256), *problems)
    )


def _other_hash(digest: str, expected: str | None) -> tuple[str, ...]:
    if expected is None or expected.strip().lower() == digest:
        return ()
    return (
        f"this is not the release that the owner published: the SHA-256 of {MANIFEST} is {digest}, the hash "
        f"given is {expected.strip().lower()}.",
    )


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
        linked = path.is_symlink()
        known = name in folders if path.is_dir() and not linked else name in named | {MANIFEST}
        if not known and (linked or path.is_dir() or name != SIGNATURE):
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
