"""Make a release: reserve, build in a hidden folder, commit, move into place.

    lock the key -> look it up -> preflight -> prepare -> reserve -> build, seal -> commit -> rename, fsync

Nothing becomes visible before its spend is committed, and a spend is never taken back. A run that fails
after its manifest was written is finished by the next run with the same key, at no further cost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shoal.errors import GuaranteeError, LedgerError, OutputError, ResourceError, ShoalError
from shoal.privacy.accounting import Loss, show_nano
from shoal.privacy.ledger import AlreadyReleased, Ledger, Reservation
from shoal.privacy.ledger.sqlite import RunFile
from shoal.privacy.ledger.state import UNKNOWN_UNIT, new_reservation
from shoal.release.manifest import MANIFEST, NONE_RECORDED, RECORDED, Manifest, is_tuned, sha256_file
from shoal.release.price import check_charged
from shoal.release.readme import README, completed
from shoal.release.staging import (
    OUT_OF_MEMORY,
    Needs,
    Staging,
    absolute,
    check_needs,
    check_place,
    leftovers,
    move,
    nothing_spent,
    open_staging,
    private_file,
    staging_path,
    unwritable,
)
from shoal.release.verify import check_release

Build = Callable[[Path], Manifest]
OWNER_HEAD = "ledger-head.txt"


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """What to release, for whom, at what cost; `key` names the run, so that asking again is free."""

    population: str
    loss: Loss | None  # None: not differentially private; listed in the ledger without a cost
    key: str
    out: Path
    what: str
    reproducible: bool = False
    unit: str = UNKNOWN_UNIT
    source_digest: str | None = None  # private; recorded for the owner, never written into a release
    supersedes: str | None = None  # manifest hash of the release that this one replaces
    pot: str = ""  # part of the budget that pays; empty: that of the family of the noise
    earlier_key: Callable[[], str] | None = None  # the run's key in ledgers that hold no digests
    prepare: Callable[[Path], None] | None = None  # writes the public files, tries the noisy ones
    owner: Path | None = None  # the owner's folder, which keeps the head of the ledger after each run
    needs: Needs | None = None  # memory and disk, estimated from public numbers
    # For a release without a loss: its window, and the manifests of the listed releases it was composed with.
    window_us: tuple[int, int] | None = None
    knows: frozenset[str] | None = None

    @property
    def terms(self) -> dict[str, Any]:
        """What the ledger records beside the cost."""
        return {"unit": self.unit, "source_digest": self.source_digest, "supersedes": self.supersedes}


@dataclass(frozen=True, kw_only=True)
class Committed:
    """A release in its place. `reused`: it was stored under its key before, nothing was spent now.

    `source_changed`, for the owner alone: the files are not those that the stored release was made from.
    """

    path: Path
    manifest_sha256: str
    reused: bool
    source_changed: bool = False


def preflight(ledger: Ledger, request: ReleaseRequest, manifest: Manifest | None = None) -> None:
    """Raise what `release` would raise before it spends, without spending or leaving anything.

    For runs that read all rows before the reserve. A run that knows its `manifest` before it
    counts has it checked too: found wrong after the reserve, the budget would be gone.
    """
    out = absolute(request.out)
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
        ledger.check_fits(request.population, request.loss, unit=request.unit, pot=request.pot)
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
    check_head(ledger, request.owner)
    with ledger.running(request.population, request.key) as run:
        going = _Run(ledger, request, run, absolute(request.out), waiting)
        stored = stored_release(ledger, request) or going.commit_unfinished()
        if stored is None:
            committed = going.make(build)
        else:
            run.forget()
            committed = _finish(stored, request)
        note_head(ledger, request.owner)
        return committed


@dataclass(frozen=True)
class _Run:
    """The run that holds the lock of its key; `out` is where the release will be."""

    ledger: Ledger
    request: ReleaseRequest
    run: RunFile
    out: Path
    waiting: Callable[[str], None] | None

    def make(self, build: Build) -> Committed:
        """Build and record a release that the ledger does not hold, and move it into place."""
        _sweep(self.ledger, self.out)
        staging = open_staging(self.out, new_reservation())
        try:
            stored, reused = self._fill_and_record(staging, build)
            if not reused:
                _place(stored)
                if not _is_release(self.out, stored):
                    raise _missing(
                        f"the release was committed, but its files vanished on the way to {self.out}."
                    )
                return Committed(path=self.out, manifest_sha256=stored.manifest_sha256, reused=False)
        finally:
            if _is_recorded(self.ledger, self.request, staging):
                self.run.forget()
            elif self.run.record() is None:
                staging.discard()
            staging.close()
        return _finish(stored, self.request)

    def _fill_and_record(self, staging: Staging, build: Build) -> tuple[AlreadyReleased, bool]:
        """Reserve, build, seal, commit; or the release that another run committed under the key just now."""
        request, reservation = self.request, None
        if request.prepare is not None:
            with nothing_spent(self.out):
                request.prepare(staging.path)
        if request.loss is not None:
            reservation = self.ledger.reserve(
                request.population,
                request.loss,
                request.key,
                request.what,
                reproducible=request.reproducible,
                reservation=staging.reservation,
                pot=request.pot,
                **request.terms,
            )
            if isinstance(reservation, AlreadyReleased):
                return reservation, True
        with _saying_what_is_spent(request, reservation, self.run):
            looks = RECORDED if self.ledger.is_tuned(request.population) else NONE_RECORDED
            manifest = build(staging.path)
            check_manifest(manifest, request)
            looks = RECORDED if is_tuned(manifest.tuned_on_private_data) else looks
            manifest = replace(manifest, tuned_on_private_data=looks, supersedes=request.supersedes)
            _complete_readme(staging.path / README, manifest)
            return self._record(staging, reservation, staging.seal(manifest))

    def _record(
        self, staging: Staging, reservation: Reservation | None, digest: str
    ) -> tuple[AlreadyReleased, bool]:
        """Commit the sealed folder; without a loss it is listed, and another run may have listed it first."""
        request, out = self.request, str(self.out)
        if reservation is not None:
            self.run.keep({**vars(reservation), "manifest_sha256": digest, "path": out})
            return self.ledger.commit(reservation, digest, out, waiting=self.waiting), False
        name = staging.reservation
        listed = self.ledger.list_release(
            request.population,
            request.key,
            request.what,
            digest,
            out,
            reservation=name,
            **request.terms,
            waiting=self.waiting,
            window_us=request.window_us,
            knows=request.knows,
        )
        return listed, listed.reservation != name

    def commit_unfinished(self) -> AlreadyReleased | None:
        """Commit the complete release of this key that an earlier run paid for, if there is one."""
        stored, unfinished = None, _unfinished(self.ledger, self.request, self.run)
        if unfinished is not None:
            reservation, stored = unfinished
            with _saying_what_is_spent(self.request, reservation, self.run):
                stored = self.ledger.commit(
                    reservation, stored.manifest_sha256, stored.path, waiting=self.waiting
                )
        self.run.forget()
        return stored


def stored_release(ledger: Ledger, request: ReleaseRequest) -> AlreadyReleased | None:
    """The release stored under the key of this run, or under the key that the first version gave it.

    Keys of the first version hash the contents of the source. They find releases of that version only:
    for those, and no others, whether a run is free depends on the data.
    """
    population = ledger.state().population(request.population)
    stored = population.released.get(request.key)
    undigested = any(each.source_digest is None for each in population.released.values())
    if stored is None and undigested and request.earlier_key is not None:
        stored = population.released.get(request.earlier_key())
        if stored is not None and stored.source_digest is not None:
            return None
    return stored


def write_for_owner(out: Path, build: Build) -> Path:
    """The same folder without a ledger: seeded runs and other things that are not for publication."""
    out = absolute(out)
    staging = open_staging(out, new_reservation())
    try:
        manifest = build(staging.path)
        if not manifest.reproducible:
            raise GuaranteeError("not-seeded", "only a seeded run is written without the ledger.")
        _complete_readme(staging.path / README, manifest)
        staging.seal(replace(manifest, tuned_on_private_data=RECORDED))  # it is a look itself
        move(staging.path, out)
    except OSError as error:
        raise unwritable(out, error) from error
    finally:
        staging.discard()  # nothing is left of it once it was moved
        staging.close()
    return out


def _complete_readme(readme: Path, manifest: Manifest) -> None:
    """A kind writes its README before it counts; the sentence on looks and the verdict are the manifest's."""
    text = readme.read_text("utf-8") if readme.is_file() else ""
    if (whole := completed(text, manifest)) != text:
        readme.write_text(whole, "utf-8")


@contextmanager
def _saying_what_is_spent(
    request: ReleaseRequest, reservation: Reservation | None, run: RunFile
) -> Iterator[None]:
    """After the reserve, an error says that the spend stays; a foreign one says nothing else."""
    try:
        yield
    except ShoalError as error:
        remedy = error.remedy if run.record() is None else _FINISH_LATER
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
    record = run.record()
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


def _spent(reservation: Reservation | None) -> str:
    if reservation is None:
        return "Nothing was released."
    amount = reservation.price or f"{reservation.currency} = {show_nano(reservation.cost_nano)}"
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
        stored = recorded.get(staging.reservation)
        try:
            if stored is None and staging.reservation not in unfinished:
                staging.discard()
            elif stored is not None and stored.path == str(out):
                _place(stored)
        finally:
            staging.close()


def sweep_folder(ledger: Ledger, folder: Path) -> None:
    """Clear what dead runs left in a folder of releases; what a live process works on is left alone."""
    if not folder.is_dir():
        return
    staging_name = re.compile(r"\.(.+)\.staging-(?:publish-)?[0-9a-f]+")
    names = {match[1] for path in folder.iterdir() if (match := staging_name.fullmatch(path.name))}
    for name in sorted(names):
        with suppress(ShoalError):
            _sweep(ledger, absolute(folder / name))


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
    return stored is not None and stored.reservation == staging.reservation


def check_manifest(manifest: Manifest, request: ReleaseRequest) -> None:
    if manifest.reproducible:
        raise LedgerError("seeded-release", "a seeded run cannot be released.", "Leave the seed out.")
    if manifest.population != request.population:
        raise GuaranteeError("manifest-population", "the manifest names another population than the ledger.")
    if manifest.is_private != (request.loss is not None):
        raise GuaranteeError("manifest-kind", "the manifest's kind of guarantee is not the one asked for.")
    if request.loss is not None:
        check_charged(manifest, request.loss)


def check_head(ledger: Ledger, owner: Path | None) -> None:
    """Refuse a ledger that lost rows since a run noted its head in this owner's folder."""
    if owner is None:
        return
    try:
        first, count, head = (owner / OWNER_HEAD).read_text("utf-8").split()
        place = int(count) - 1
    except (OSError, ValueError):
        return
    digests = [row.digest for row in ledger.store.rows()]
    if digests[:1] == [first] and digests[place : place + 1] != [head]:
        raise LedgerError(
            "ledger-older",
            f"the ledger {ledger.store.where()} lost rows: it had {count} when {owner} was written.",
            "Put the newest copy of the ledger back. If spends are lost for good, lower the budgets by them "
            f"and remove {OWNER_HEAD} from that folder.",
        )


def note_head(ledger: Ledger, owner: Path | None) -> None:
    """Which ledger it is (its first row), its number of rows and its last one; a failure costs a witness."""
    if owner is not None:
        with suppress(OSError, ShoalError), private_file(owner / OWNER_HEAD, text=True) as file:
            digests = [row.digest for row in ledger.store.rows()]
            file.write(f"{digests[0]} {len(digests)} {digests[-1]}\n")
