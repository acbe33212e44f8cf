"""Copy a committed release to its public place: exactly the files of its manifest, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

from shoal.errors import GuaranteeError, LedgerError, OutputError
from shoal.privacy.ledger import Ledger
from shoal.privacy.ledger.sqlite import fsync
from shoal.privacy.ledger.state import new_reservation
from shoal.release.manifest import MANIFEST, SEEDED_NOTE, Manifest
from shoal.release.staging import open_staging, unwritable
from shoal.release.verify import SIGNATURE, Checked, check_release, sign


def publish(ledger: Ledger, folder: Path, dest: Path, *, sign_with: Path | None = None) -> Checked:
    """Copy the release in `folder` to `dest` (files 0644, folders 0755) and return its manifest and hash.

    The copy is checked, not only the original: what becomes visible is what was committed. `sign_with` is an
    SSH key whose signature of the manifest is written beside it.
    """
    folder, dest = Path(folder), Path(dest)
    dest = dest.parent.resolve() / dest.name
    checked = check_release(folder)
    manifest = sound_manifest(checked)
    _check_recorded(ledger, manifest, checked.manifest_sha256)
    if dest.is_relative_to(folder.resolve()):
        raise OutputError("folder-inside", "the public place lies inside the release.", "Name another place.")
    if not dest.parent.is_dir():
        raise OutputError("unwritable-folder", f"there is no folder {dest.parent}.", "Make it first.")
    staging = open_staging(dest, f"publish-{new_reservation()}")
    try:
        _copy(folder, staging.path, manifest)
        if sign_with is not None:
            signature = sign((staging.path / MANIFEST).read_bytes(), sign_with)
            (staging.path / SIGNATURE).write_bytes(signature)
        _open_to_all(staging.path)
        copied = check_release(staging.path, contents=False)
        if copied.problems or copied.manifest_sha256 != checked.manifest_sha256:
            raise GuaranteeError("release-changed", "the release changed while it was copied.", "Try again.")
        staging.path.rename(dest)
        fsync(dest.parent)
    except OSError as error:
        raise unwritable(dest, error) from error
    finally:
        staging.discard()  # nothing is left of it once it was moved
        staging.close()
    return checked


def sound_manifest(checked: Checked) -> Manifest:
    """The manifest of a folder without problems; otherwise an error that lists them all."""
    if checked.manifest is None or checked.problems:
        raise GuaranteeError(
            "release-changed",
            "the folder is not the release that its manifest describes:\n"
            + "\n".join(f"  - {problem}" for problem in checked.problems),
            "Get the release again from where it was published.",
        )
    return checked.manifest


def _check_recorded(ledger: Ledger, manifest: Manifest, manifest_sha256: str) -> None:
    if manifest.guarantee.get("verified", True) is not True:
        raise GuaranteeError(
            "unsafe-release",
            "the verifier refuted the promise of this release when it was made: it promises nothing.",
            "Release again without --keep-unsafe; nothing unsafe is written then.",
        )
    if manifest.reproducible:
        raise LedgerError(
            "seeded-release", f"this release is {SEEDED_NOTE}.", "Release again without a seed."
        )
    recorded = {(name, stored.manifest_sha256) for name, stored in ledger.releases()}
    if (manifest.population, manifest_sha256) not in recorded:
        raise LedgerError(
            "not-committed",
            f"the ledger {ledger.store.where()} has no release with exactly this manifest: it was made with "
            "another ledger, or the manifest was changed.",
            "Publish with the ledger the release was made with (SHOAL_LEDGER); see `shoal ledger show`.",
        )


def _copy(folder: Path, staging: Path, manifest: Manifest) -> None:
    for name in [*manifest.files, MANIFEST]:
        target = staging / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, target, follow_symlinks=False)


def _open_to_all(staging: Path) -> None:
    for path in [*staging.rglob("*"), staging]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        fsync(path)
