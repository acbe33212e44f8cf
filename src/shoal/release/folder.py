"""Make a release: reserve, build in a hidden folder, commit, move into place.

    lock the key -> look it up -> preflight -> prepare -> reserve -> build, seal -> commit -> rename, fsync

Nothing becomes visible before its spend is committed, and a spend is never taken back. A run that fails
after its manifest was written is finished by the next run with the same key, at no further cost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from shoal.errors import GuaranteeError, LedgerError, OutputError, ResourceError, ShoalError
from shoal.privacy.ledger import AlreadyReleased, Ledger, Reservation
from shoal.privacy.ledger.book import new_reservation
from shoal.privacy.ledger.chain import RunFile
from shoal.privacy.ledger.names import show_nano
from shoal.release.manifest import MANIFEST, NONE_RECORDED, RECORDED, Manifest, is_tuned
from shoal.release.readme import state_looks
from shoal.release.request import Committed, ReleaseRequest, check_head, check_manifest, note_head
from shoal.release.resources import OUT_OF_MEMORY, check_needs, nothing_spent
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


def preflight(ledger: Ledger, request: ReleaseRequest, manifest: Manifest | None = None) -> None:
    """Raise what `release` would raise before it spends, without spending or leaving anything.

    For runs that read all rows before the reserve. A run that knows its `manifest` before it
    counts has it checked too: found wrong after the reserve, the budget would be gone.
    """
    out = _absolute(request.out)
    check_head(ledger, request.owner)
    if stored_release(ledger, request) is not None:
        return  # stored before: asking again is free
    if ledger.unfinished():
        with ledger.running(request.population, request.key) as run:
            if _unfinished(ledger, request, run) is not None:
                return  # paid for and complete: `release` commits it
    check_place(out, new_reservation())
    if request.needs is not None:
        check_needs(request.needs, out)
    if request.loss is not None:
        ledger.check_fits(request.population, request.loss, unit=request.unit)
    if manifest is not None:
        check_manifest(manifest, request)


def release(
    ledger: Ledger,
    request: ReleaseRequest,
    build: Build,
    *,
    waiting: Callable[[str], None] | None = None,
) -> Committed:
    """Spend, build into an empty folder, commit and move it to `request.out`.

    `request.prepare` writes the public files into that folder and tries the noisy ones without data, before
    the reserve. `build` adds the noisy files and returns the manifest (without `files`); it runs after it.
    `waiting` receives a line for each time that the commit finds the ledger in use.
    """
    out = _absolute(request.out)
    check_head(ledger, request.owner)
    with ledger.running(request.population, request.key) as run:
        stored = stored_release(ledger, request)
        stored = stored or _commit_unfinished(ledger, request, run, waiting)
        if stored is None:
            made = _make(ledger, request, run, out, build, waiting)
        else:
            run.forget()
            made = _finish(stored, request)
        note_head(ledger, request.owner)
        return made


def _make(
    ledger: Ledger,
    request: ReleaseRequest,
    run: RunFile,
    out: Path,
    build: Build,
    waiting: Callable[[str], None] | None,
) -> Committed:
    _sweep(ledger, out)
    staging = open_staging(out, new_reservation())
    try:
        stored, reused = _fill_and_record(ledger, request, run, staging, out, build, waiting)
        if not reused:
            _place(stored)
            if not _is_release(out, stored):
                raise _missing(f"the release was committed, but its files vanished on the way to {out}.")
            return Committed(path=out, manifest_sha256=stored.manifest_sha256, reused=False)
    finally:
        if _is_recorded(ledger, request, staging):
            run.forget()
        elif run.kept() is None:
            staging.discard()
        staging.close()
    return _finish(stored, request)


def stored_release(ledger: Ledger, request: ReleaseRequest) -> AlreadyReleased | None:
    """What was released before under the key of this run, or under the key that the first version gave it.

    Keys of the first version hash the contents of the source. They find releases of that version only:
    for those, and no others, whether a run is free depends on the data.
    """
    population = ledger.state().population(request.population)
    found = population.released.get(request.key)
    undigested = any(each.source_digest is None for each in population.released.values())
    if found is None and undigested and request.earlier_key is not None:
        found = population.released.get(request.earlier_key())
        if found is not None and found.source_digest is not None:
            return None
    return found


def write_for_owner(out: Path, build: Build) -> Path:
    """The same folder without a ledger: seeded runs and other things that are not for publication."""
    out = _absolute(out)
    staging = open_staging(out, new_reservation())
    try:
        manifest = build(staging.path)
        if not manifest.reproducible:
            raise GuaranteeError("not-seeded", "only a seeded run is written without the ledger.")
        staging.seal(replace(manifest, tuned_on_private_data=RECORDED))  # it is a look itself
        move(staging.path, out)
    except OSError as error:
        raise unwritable(out, error) from error
    finally:
        staging.discard()  # nothing is left of it once it was moved
        staging.close()
    return out


def _fill_and_record(
    ledger: Ledger,
    request: ReleaseRequest,
    run: RunFile,
    staging: Staging,
    out: Path,
    build: Build,
    waiting: Callable[[str], None] | None,
) -> tuple[AlreadyReleased, bool]:
    """Reserve, build, seal, commit; or the release that another run committed under the key just now."""
    reservation = None
    name = _name(staging)
    if request.prepare is not None:
        with nothing_spent(out):
            request.prepare(staging.path)
    if request.loss is not None:
        reservation = ledger.reserve(
            request.population,
            request.loss,
            request.key,
            request.what,
            reproducible=request.reproducible,
            reservation=name,
            **request.terms,
        )
        if isinstance(reservation, AlreadyReleased):
            return reservation, True
    with _saying_what_is_spent(request, reservation, run):
        looks = RECORDED if ledger.is_tuned(request.population) else NONE_RECORDED
        manifest = build(staging.path)
        check_manifest(manifest, request)
        looks = RECORDED if is_tuned(manifest.tuned_on_private_data) else looks
        manifest = replace(manifest, tuned_on_private_data=looks, supersedes=request.supersedes)
        _state_looks(staging.path / "README.md", manifest)
        digest = staging.seal(manifest)
        if reservation is not None:
            run.keep({**vars(reservation), "manifest_sha256": digest, "path": str(out)})
            return ledger.commit(reservation, digest, str(out), waiting=waiting), False
        listed = ledger.list_release(
            request.population,
            request.key,
            request.what,
            digest,
            str(out),
            reservation=name,
            **request.terms,
            waiting=waiting,
            window_us=request.window_us,
            knows=request.knows,
        )
        return listed, listed.reservation != name


def _state_looks(readme: Path, manifest: Manifest) -> None:
    """A kind writes its README without asking the ledger; the sentence on looks must be the manifest's."""
    text = readme.read_text("utf-8") if readme.is_file() else ""
    if (stated := state_looks(text, manifest)) != text:
        readme.write_text(stated, "utf-8")


@contextmanager
def _saying_what_is_spent(
    request: ReleaseRequest, reservation: Reservation | None, run: RunFile
) -> Iterator[None]:
    """After the reserve, an error says that the spend stays; a foreign one says nothing else."""
    try:
        yield
    except ShoalError as error:
        remedy = error.remedy if run.kept() is None else _FINISH_LATER
        raise type(error)(error.code, f"{error.message} {_spent(reservation)}", remedy) from error
    except OSError as error:
        reason = unwritable(request.out, error)
        raise OutputError(reason.code, f"{reason.message} {_spent(reservation)}", reason.remedy) from error
    except MemoryError as error:
        raise ResourceError("out-of-memory", f"{OUT_OF_MEMORY} {_spent(reservation)}") from error
    except Exception as error:
        raise ShoalError("release-failed", f"the release failed. {_spent(reservation)}") from error
    except BaseException as error:  # a stop is reported with what it cost, and stays a stop
        error.add_note(_spent(reservation))
        raise


_FINISH_LATER = (
    "The release is complete and was kept. Run the same command again, with the ledger free: it commits the "
    "release and spends nothing."
)


def _unfinished(
    ledger: Ledger, request: ReleaseRequest, run: RunFile
) -> tuple[Reservation, AlreadyReleased] | None:
    """The complete release of this key that an earlier run paid for and could not commit."""
    record = run.kept()
    if record is None or record["population"] != request.population:
        return None
    digest, path = record.pop("manifest_sha256"), record.pop("path")
    reservation = Reservation(**record)
    spend = ledger.state().by_reservation.get(reservation.reservation)
    if spend is None or spend.key != request.key or spend.released is not None:
        return None
    stored = AlreadyReleased(reservation=spend.reservation, path=path, manifest_sha256=digest)
    folder = staging_path(Path(path), spend.reservation)
    if not _is_release(folder, stored) or check_release(folder).problems:
        return None
    return reservation, stored


def _commit_unfinished(
    ledger: Ledger, request: ReleaseRequest, run: RunFile, waiting: Callable[[str], None] | None
) -> AlreadyReleased | None:
    unfinished = _unfinished(ledger, request, run)
    if unfinished is not None:
        reservation, stored = unfinished
        with _saying_what_is_spent(request, reservation, run):
            stored = ledger.commit(reservation, stored.manifest_sha256, stored.path, waiting=waiting)
        run.forget()
        return stored
    run.forget()
    return None


def _spent(reservation: Reservation | None) -> str:
    if reservation is None:
        return "Nothing was released."
    amount = f"{reservation.currency} = {show_nano(reservation.cost_nano)}"
    return f"It failed after the budget was reserved: {amount} is recorded as spent."


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


def _finish(stored: AlreadyReleased, request: ReleaseRequest) -> Committed:
    """The stored release in its place; completes the rename if the run that committed it died."""
    out = Path(stored.path)
    _place(stored)
    if not _is_release(out, stored) or check_release(out, contents=False).problems:
        raise _missing(f"this run was released to {out} before, but that folder is gone or was changed.")
    changed = stored.source_digest is not None and stored.source_digest != request.source_digest
    return Committed(path=out, manifest_sha256=stored.manifest_sha256, reused=True, source_changed=changed)


def _missing(what: str) -> LedgerError:
    return LedgerError(
        "release-missing",
        what,
        "Restore it from a copy; or run again with a new --run-id, which spends again.",
    )


def _sweep(ledger: Ledger, out: Path) -> None:
    """Clear what dead runs left for `out`: what was committed is put in place, the rest is removed.

    Committed for another place (its folder was moved since), or complete and not yet committed, it is left
    alone: it was paid for.
    """
    unfinished = ledger.unfinished()
    recorded = {stored.reservation: stored for _, stored in ledger.releases()}
    for staging in leftovers(out):
        stored = recorded.get(_name(staging))
        try:
            if stored is None and _name(staging) not in unfinished:
                staging.discard()
            elif stored is not None and stored.path == str(out):
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
