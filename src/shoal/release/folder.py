"""Make a release: reserve, build in a hidden folder, commit, move into place.

    look up the key -> preflight -> reserve -> build -> manifest, fsync -> commit -> rename, fsync

Nothing becomes visible before its spend is committed, and a spend is never taken back. A run that dies
between commit and rename is finished by the next run with the same key, for free.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from shoal.errors import GuaranteeError, LedgerError, OutputError, ShoalError
from shoal.privacy.accounting import NANO, Loss
from shoal.privacy.ledger import AlreadyReleased, Ledger, Reservation
from shoal.privacy.ledger.amounts import show_nano
from shoal.privacy.ledger.book import new_reservation
from shoal.release.manifest import MANIFEST, Manifest
from shoal.release.price import covers, price_problems, spent_loss
from shoal.release.staging import (
    Staging,
    check_place,
    leftovers,
    move,
    open_staging,
    staging_path,
    unwritable,
)
from shoal.release.verify import check_release, sha256_file

Build = Callable[[Path], Manifest]


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """What to release, for whom, at what cost; `key` names the run, so that asking again is free."""

    population: str
    loss: Loss | None  # None: not differentially private; listed in the ledger without a cost
    key: str
    out: Path
    what: str
    reproducible: bool = False


@dataclass(frozen=True, kw_only=True)
class Committed:
    """A release in its place. `reused`: it was stored under its key before, nothing was spent now."""

    path: Path
    manifest_sha256: str
    reused: bool


def preflight(ledger: Ledger, request: ReleaseRequest, manifest: Manifest | None = None) -> None:
    """Raise what `release` would raise before it spends, without spending or leaving anything.

    For flows with a long look at the rows before the reserve. A flow that knows its `manifest` before it
    counts has it checked too: found wrong after the reserve, the budget would be gone.
    """
    out = _absolute(request.out)
    if ledger.find(request.population, request.key) is not None:
        return  # stored before: asking again is free
    check_place(out, new_reservation())
    if request.loss is not None:
        ledger.check_fits(request.population, request.loss)
    if manifest is not None:
        _check_manifest(manifest, request)


def release(ledger: Ledger, request: ReleaseRequest, build: Build) -> Committed:
    """Spend, build into an empty folder, commit and move it to `request.out`.

    `build` writes the files of the release into the folder it is given and returns the manifest
    (without `files`). It runs after the reserve, so it may draw noise.
    """
    out = _absolute(request.out)
    stored = ledger.find(request.population, request.key)
    if stored is not None:
        return _finish(stored)
    _sweep(ledger, out)
    staging = open_staging(out, new_reservation())
    try:
        stored, reused = _fill_and_record(ledger, request, staging, out, build)
        if not reused:
            _place(stored)
            if not _is_release(out, stored):
                raise _missing(f"the release was committed, but its files vanished on the way to {out}.")
            return Committed(path=out, manifest_sha256=stored.manifest_sha256, reused=False)
    finally:
        if not _is_recorded(ledger, request, staging):
            staging.discard()
        staging.close()
    return _finish(stored)


def write_for_owner(out: Path, build: Build) -> Path:
    """The same folder without a ledger: seeded runs and other things that are not for publication."""
    out = _absolute(out)
    staging = open_staging(out, new_reservation())
    try:
        manifest = build(staging.path)
        if not manifest.reproducible:
            raise GuaranteeError("not-seeded", "only a seeded run is written without the ledger.")
        staging.seal(manifest)
        move(staging.path, out)
    except OSError as error:
        raise unwritable(out, error) from error
    finally:
        staging.discard()  # nothing is left of it once it was moved
        staging.close()
    return out


def _fill_and_record(
    ledger: Ledger, request: ReleaseRequest, staging: Staging, out: Path, build: Build
) -> tuple[AlreadyReleased, bool]:
    """Reserve, build, seal, commit; or the release that another run committed under the key just now."""
    reservation = None
    name = _name(staging)
    if request.loss is not None:
        reservation = ledger.reserve(
            request.population,
            request.loss,
            request.key,
            request.what,
            reproducible=request.reproducible,
            reservation=name,
        )
        if isinstance(reservation, AlreadyReleased):
            return reservation, True
    with _saying_what_is_spent(request, reservation):
        tuned = ledger.is_tuned(request.population)
        manifest = build(staging.path)
        _check_manifest(manifest, request)
        tuned = tuned or manifest.tuned_on_private_data
        digest = staging.seal(replace(manifest, tuned_on_private_data=tuned))
        if reservation is not None:
            return ledger.commit(reservation, digest, str(out)), False
        listed = ledger.list_release(
            request.population, request.key, request.what, digest, str(out), reservation=name
        )
        return listed, listed.reservation != name


@contextmanager
def _saying_what_is_spent(request: ReleaseRequest, reservation: Reservation | None) -> Iterator[None]:
    """After the reserve, an error says that the spend stays; a foreign one says nothing else."""
    try:
        yield
    except ShoalError as error:
        raise type(error)(error.code, f"{error.message} {_spent(reservation)}", error.remedy) from error
    except OSError as error:
        reason = unwritable(request.out, error)
        raise OutputError(reason.code, f"{reason.message} {_spent(reservation)}", reason.remedy) from error
    except Exception as error:
        raise ShoalError("release-failed", f"the release failed. {_spent(reservation)}") from error


def _spent(reservation: Reservation | None) -> str:
    if reservation is None:
        return "Nothing was released."
    amount = f"{reservation.currency} = {show_nano(reservation.cost_nano)}"
    return f"It failed after the budget was reserved: {amount} is recorded as spent."


def _check_manifest(manifest: Manifest, request: ReleaseRequest) -> None:
    if manifest.reproducible:
        raise LedgerError("seeded-release", "a seeded run cannot be released.", "Leave the seed out.")
    if manifest.population != request.population:
        raise GuaranteeError("manifest-population", "the manifest names another population than the ledger.")
    if manifest.is_private != (request.loss is not None):
        raise GuaranteeError("manifest-kind", "the manifest's kind of guarantee is not the one asked for.")
    if request.loss is not None:
        _check_price(manifest, request.loss)


def _check_price(manifest: Manifest, loss: Loss) -> None:
    """A manifest may promise less than was paid for, never more, and lists all that was spent."""
    guarantee, spent = manifest.guarantee, spent_loss(manifest)
    rho_holds = "rho" not in guarantee or round(guarantee["rho"] * NANO) >= loss.rho_nano
    if not (rho_holds and covers(guarantee, loss)):
        raise GuaranteeError("manifest-price", "the manifest promises more than the ledger was charged for.")
    if spent is None or spent.rho_nano < loss.rho_nano:
        raise GuaranteeError("manifest-price", "the manifest lists less than the ledger was charged for.")
    problems = price_problems(manifest)
    if problems:
        raise GuaranteeError("manifest-price", f"the manifest does not agree with itself: {problems[0]}")


def _place(stored: AlreadyReleased) -> None:
    """Complete the rename of a recorded release, unless another run did."""
    out = Path(stored.path)
    waiting = staging_path(out, stored.reservation)
    try:
        if _is_release(waiting, stored):
            move(waiting, out)
    except OutputError:
        if not _is_release(out, stored):
            raise


def _finish(stored: AlreadyReleased) -> Committed:
    """The stored release in its place; completes the rename if the run that committed it died."""
    out = Path(stored.path)
    _place(stored)
    if not _is_release(out, stored) or check_release(out).problems:
        raise _missing(f"this run was released to {out} before, but that folder is gone or was changed.")
    return Committed(path=out, manifest_sha256=stored.manifest_sha256, reused=True)


def _missing(what: str) -> LedgerError:
    return LedgerError(
        "release-missing",
        what,
        "Restore it from a copy; or run again with a new --run-id, which spends again.",
    )


def _sweep(ledger: Ledger, out: Path) -> None:
    """Clear what dead runs left for `out`: what was committed is put in place, the rest is removed.

    Committed for another place (its folder was moved since), it is left alone: it was paid for.
    """
    recorded = {stored.reservation: stored for _, stored in ledger.releases()}
    for staging in leftovers(out):
        stored = recorded.get(_name(staging))
        try:
            if stored is None:
                staging.discard()
            elif stored.path == str(out):
                _place(stored)
        finally:
            staging.close()


def sweep_folder(ledger: Ledger, folder: Path) -> None:
    """Clear what dead runs left in a folder of releases; what a live process works on is left alone."""
    if not folder.is_dir():
        return
    made = re.compile(r"\.(.+)\.staging-(?:publish-)?[0-9a-f]+")
    names = {found.group(1) for path in folder.iterdir() if (found := made.fullmatch(path.name))}
    for name in sorted(names):
        with suppress(ShoalError):
            _sweep(ledger, _absolute(folder / name))


def _is_release(folder: Path, stored: AlreadyReleased) -> bool:
    try:
        return sha256_file(folder / MANIFEST) == stored.manifest_sha256
    except OSError:
        return False


def _is_recorded(ledger: Ledger, request: ReleaseRequest, staging: Staging) -> bool:
    """Whether this run reached the ledger after all; when in doubt its hidden folder is kept."""
    try:
        stored = ledger.find(request.population, request.key)
    except ShoalError:
        return True
    return stored is not None and stored.reservation == _name(staging)


def _name(staging: Staging) -> str:
    return staging.path.name.rpartition("-")[2]


def _absolute(path: Path) -> Path:
    """One spelling per folder, with links in its parents resolved."""
    path = Path(path)
    if path.name in ("", "..") or "\0" in str(path):
        raise OutputError("folder-name", f"{path} does not name a folder.", "Pass --out release, say.")
    return path.parent.resolve() / path.name
