"""Signatures of a manifest in the format of `ssh-keygen -Y sign`, made and checked by that program.

manifest.json.sig    beside the manifest of a published copy; no part of the manifest, which it covers
namespace            shoal-release: a signature made for anything else is refused
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from shoal.errors import GuaranteeError, OutputError, PlanError
from shoal.release.manifest import MANIFEST

SIGNATURE = f"{MANIFEST}.sig"
NAMESPACE = "shoal-release"
LARGEST = 1 << 16  # bytes of a signature
_SECONDS = 60


def sign(manifest: bytes, key: Path) -> bytes:
    """The signature of a manifest by an SSH key: its file, or the .pub file of a key that an agent holds."""
    _check_file(key, "key-missing", "key")
    # No time limit: the program may ask for a passphrase at the terminal.
    made = _run(["-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE], manifest, seconds=None)
    if made.returncode != 0 or b"BEGIN SSH SIGNATURE" not in made.stdout:
        raise OutputError(
            "not-signed",
            f"ssh-keygen did not sign with {key}: {_reason(made)}",
            "Check the key and its passphrase; a key in an agent is named by its .pub file.",
        )
    return made.stdout


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
        asked = ["-Y", "verify", "-f", signers, "-I", name, "-n", NAMESPACE, "-s", str(path)]
        answer = _run(asked, manifest)
        if answer.returncode == 0:
            return name
        reason = _reason(answer)
    raise _refused(reason)


def _principals(path: Path, signers: str) -> list[str]:
    found = _run(["-Y", "find-principals", "-s", str(path), "-f", signers], b"")
    return found.stdout.decode(errors="replace").splitlines() if found.returncode == 0 else []


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
