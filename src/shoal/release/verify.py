"""Check a release folder as its recipient: every hash, no file too many, a manifest that its files bear out.

Needs no ledger. That the manifest is the owner's is shown by its hash, which the owner gave to the recipient
(`sha256`), or by the owner's signature (`sign` and `check_signature` below).

Signatures of a manifest in the format of `ssh-keygen -Y sign`, made and checked by that program.

manifest.json.sig    beside the manifest of a published copy; no part of the manifest, which it covers
namespace            shoal-release: a signature made for anything else is refused
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shoal.errors import GuaranteeError, OutputError, PlanError
from shoal.release.contents import content_problems
from shoal.release.manifest import MANIFEST, Manifest, case_problems, price_problems, sha256_file


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


SIGNATURE = f"{MANIFEST}.sig"
NAMESPACE = "shoal-release"
LARGEST = 1 << 16  # bytes of a signature
_SECONDS = 60


def sign(manifest: bytes, key: Path) -> bytes:
    """The signature of a manifest by an SSH key: its file, or the .pub file of a key that an agent holds."""
    _check_file(key, "key-missing", "key")
    # No time limit: the program may ask for a passphrase at the terminal.
    answer = _run(["-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE], manifest, seconds=None)
    if answer.returncode != 0 or b"BEGIN SSH SIGNATURE" not in answer.stdout:
        raise OutputError(
            "not-signed",
            f"ssh-keygen did not sign with {key}: {_reason(answer)}",
            "Check the key and its passphrase; a key in an agent is named by its .pub file.",
        )
    return answer.stdout


def check_signature(folder: Path, allowed_signers: Path, signer: str | None = None) -> str:
    """The identity among `allowed_signers` that signed the manifest in `folder`."""
    _check_file(allowed_signers, "signers-missing", "file of allowed signers")
    path = folder / SIGNATURE
    if path.is_symlink() or not path.is_file():
        raise GuaranteeError(
            "not-signed", f"the release has no {SIGNATURE}.", "Ask the owner, or compare its hash (--sha256)."
        )
    if path.stat().st_size > LARGEST:
        raise _refused("it is too large to be one")
    manifest = (folder / MANIFEST).read_bytes()
    signers = str(allowed_signers)
    names = [signer] if signer is not None else _principals(path, signers)
    reason = "its key is not among the allowed signers"
    for name in names:
        arguments = ["-Y", "verify", "-f", signers, "-I", name, "-n", NAMESPACE, "-s", str(path)]
        answer = _run(arguments, manifest)
        if answer.returncode == 0:
            return name
        reason = _reason(answer)
    raise _refused(reason)


def _principals(path: Path, signers: str) -> list[str]:
    answer = _run(["-Y", "find-principals", "-s", str(path), "-f", signers], b"")
    return answer.stdout.decode(errors="replace").splitlines() if answer.returncode == 0 else []


def _run(arguments: list[str], text: bytes, seconds: int | None = _SECONDS) -> subprocess.CompletedProcess:
    quiet = {**os.environ, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments],
            input=text,
            capture_output=True,
            env=quiet,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise OutputError(
            "no-ssh-keygen",
            "signatures need the program ssh-keygen, which is not on the PATH.",
            "Install OpenSSH (openssh-client on Debian), version 8.2 or newer.",
        ) from None
    except subprocess.TimeoutExpired:
        raise OutputError("not-checked", f"ssh-keygen did not answer within {_SECONDS} s.") from None


def _reason(answer: subprocess.CompletedProcess) -> str:
    lines = (answer.stderr or answer.stdout).decode(errors="replace").split("\n")
    shown = "; ".join(line.strip() for line in lines if line.strip())[:300]
    return "".join(letter if letter.isprintable() else "?" for letter in shown) or "it gave no reason"


def _check_file(path: Path, code: str, what: str) -> None:
    if not Path(path).is_file():
        raise PlanError(code, f"there is no {what} at {path}.", "Check the path.")


def _refused(reason: str) -> GuaranteeError:
    reason = reason.rstrip(".")
    return GuaranteeError(
        "signature-refused",
        f"{SIGNATURE} is not a valid signature of this manifest by an allowed signer: {reason.rstrip('.')}.",
        "Get the release again from its owner, or check the file of allowed signers.",
    )
