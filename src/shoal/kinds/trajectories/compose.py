"""Earlier trajectory releases of the same people: found in the ledger, refused or named, linked and measured.

Two releases about the same people undo each other: their records can be linked without background knowledge,
and fewer than k linked pairs fit what a tracker saw. So a release whose window overlaps an earlier one is
refused unless the plan names it (`compose_with`); its promise is then the measured result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.attacks.models.linking import Published, link_records
from shoal.attacks.tracker.evidence import make_tables
from shoal.attacks.tracker.files import Claim, Key, number_of, read_claim, read_key_file
from shoal.attacks.tracker.leakage import LinkedRelease, measure_combined
from shoal.errors import PlanError, ShoalError
from shoal.kinds.run import Progress
from shoal.kinds.trajectories.blocks import OpenSamples
from shoal.kinds.trajectories.prepare import TrajectorySource
from shoal.kinds.trajectories.published import RECORDS, find_key, read_records
from shoal.kinds.trajectories.verify import tables_of
from shoal.privacy.ledger import Ledger, Population
from shoal.privacy.ledger.rules import is_sha256
from shoal.release.verify import check_release, sha256_file
from shoal.stages.trajectories import Boxes

if TYPE_CHECKING:
    from shoal.kinds.trajectories.prepare import PreparedTrajectories

DIGITS = 3  # of shares in the manifest


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A listed release; `claim` and `key` are there where its folder and its record key were found."""

    sha256: str
    window_us: tuple[int, int] | None
    overlaps: bool
    named: str | None = None  # by the plan: "folder" or "hash"
    folder: Path | None = None
    claim: Claim | None = None
    key: Path | None = None
    records_sha256: str = ""  # of its records, which its key names too

    @property
    def measurable(self) -> bool:
        return self.claim is not None and self.key is not None

    def to_plain(self, linked_share: float | None) -> dict[str, Any]:
        """Without its name or place."""
        window = None if self.window_us is None else [_iso(moment) for moment in self.window_us]
        return {
            "manifest_sha256": self.sha256,
            "window": None if window is None else {"start": window[0], "end": window[1]},
            "k": None if self.claim is None else self.claim.k,
            "tau_minutes": None if self.claim is None else self.claim.tau_minutes,
            "overlaps": self.overlaps,
            "records_linked_share": _rounded(linked_share),
        }


@dataclass(frozen=True, kw_only=True)
class Composition:
    """The earlier releases, the share of records linked to each, and what holds for all that overlap."""

    releases: tuple[dict[str, Any], ...] = ()
    combined: Mapping[str, Any] | None = field(default=None)

    @property
    def overlaps(self) -> bool:
        return any(each["overlaps"] for each in self.releases)

    def to_plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"earlier_releases": list(self.releases)} if self.releases else {}
        return plain | ({"with_overlapping_releases": dict(self.combined)} if self.combined else {})

    def promise(self, k: int, tau: int, unit: str) -> str:
        """One sentence in place of the promise of a single release."""
        shares = [each["records_linked_share"] for each in self.releases if each["overlaps"]]
        fewer = None if self.combined is None else self.combined["fewer_than_k_share"]
        if None in shares or fewer is None:
            return (
                f"Nothing is promised to a recipient who may hold an earlier release about the same {unit}s: "
                "what linking the records of both reveals was not measured."
            )
        return (
            f"Nothing is promised, only measured: with the earlier releases about the same {unit}s, "
            f"{min(shares):.1%}{' or more' * (len(set(shares)) > 1)} of the records were linked to the right "
            f"ones without any other knowledge, and then fewer than {k} fit in {fewer:.1%} of periods of "
            f"{tau} minutes."
        )


def earlier_releases(ledger: Ledger, prepared: PreparedTrajectories, owner: Path) -> list[Earlier]:
    """All trajectory releases of the population that the ledger lists, with folder and key where found."""
    state = ledger.state().population(prepared.plan.population)
    listed = {note["manifest_sha256"]: note for note in state.notes if note["kind"] == "listing"}
    named = _named(prepared.plan.compose_with, listed, state.name)
    releases = []
    for sha256, note in listed.items():
        by = None if sha256 not in named else "hash" if named[sha256] is None else "folder"
        releases.append(_look_up(note, prepared.window_us, named.get(sha256), by, owner, state))
    return releases


def check_named(earlier: Sequence[Earlier], population: str) -> None:
    """Refuse a release that overlaps an earlier one in time, unless it is named and can be linked with it."""
    missing = [each for each in earlier if each.overlaps and each.named is None]
    if missing:
        many = len(missing) > 1
        raise PlanError(
            "trajectories-overlap",
            f'{len(missing)} earlier trajectory release{"s" * many} of "{population}" '
            f"cover{'s' * (not many)} part of this window, or cannot be read. Records of two releases about "
            "the same people can be linked, and then k records no longer fit.",
            "Choose a window that no earlier release covers. Or pass "
            + " ".join(f"--compose-with {each.folder or each.sha256}" for each in missing)
            + ": the promise is then replaced by the measured result of linking them.",
        )
    for each in earlier:
        if each.overlaps and each.named == "folder" and not each.measurable:
            raise _key_missing(each)


def _key_missing(earlier: Earlier) -> PlanError:
    return PlanError(
        "compose-key",
        "the record key of an earlier release was not found, or the release was changed, so linking with it "
        f"cannot be measured: {earlier.folder or earlier.sha256}.",
        "Copy its record_key.parquet into the --owner folder, under a name that begins with record_key. If "
        f"it is lost, pass --compose-with {earlier.sha256}: the release then promises nothing.",
    )


def _named(compose_with: Sequence[str], listed: Mapping[str, Any], population: str) -> dict[str, Path | None]:
    """SHA-256 of each named manifest -> the folder it was named by; None where it was named by the hash."""
    named: dict[str, Path | None] = {}
    for entry in compose_with:
        folder = None if is_sha256(entry) else Path(entry)
        try:
            sha256 = entry if folder is None else sha256_file(folder / "manifest.json")
        except OSError:
            sha256 = ""
        if sha256 not in listed:
            raise PlanError(
                "compose-unknown",
                f'{entry} is not a trajectory release that the ledger lists for "{population}".',
                "Pass the folder of an earlier release, or the SHA-256 of its manifest: `shoal ledger show`.",
            )
        named[sha256] = folder or named.get(sha256)
    return named


def _look_up(
    note: Mapping[str, Any],
    window_us: tuple[int, int],
    folder: Path | None,
    named: str | None,
    owner: Path,
    state: Population,
) -> Earlier:
    folder = folder or Path(note["path"])
    claim, key, records_sha256 = None, None, ""
    try:
        checked = check_release(folder)
        if not checked.problems and checked.manifest_sha256 == note["manifest_sha256"] and checked.manifest:
            claim = read_claim(folder)
            owners = [str(owner), *(each["path"] for each in state.notes if each["kind"] == "disclosure")]
            records_sha256 = checked.manifest.files[RECORDS].sha256
            keys = (find_key(Path(each), records_sha256) for each in owners if each)
            key = next((each for each in keys if each is not None), None)
    except ShoalError:
        claim = None
    window = tuple(note["window"]) if note.get("window") else claim and claim.window_us
    overlaps = window is None or (window[0] < window_us[1] and window_us[0] < window[1])
    return Earlier(
        sha256=note["manifest_sha256"],
        window_us=window,
        overlaps=overlaps,
        named=named,
        folder=folder if claim is not None else None,
        claim=claim,
        key=key,
        records_sha256=records_sha256,
    )


def compose(
    earlier: Sequence[Earlier],
    opened: TrajectorySource,
    read: OpenSamples,
    boxes: Boxes,
    ids: np.ndarray,
    *,
    k: int,
    tau: int,
    progress: Progress,
) -> Composition:
    """Link the new records with those of every earlier release, and score the links by the owner's keys."""
    if not earlier:
        return Composition()
    progress.stage("link with earlier releases", len(earlier))
    lattice, start_us = read.lattice, opened.lattice.start_us
    clock = {"start_us": start_us, "step_us": lattice.minutes * 60_000_000}
    public = lattice.to_manifest()
    own = _published(ids[boxes.record], boxes.columns[1:], clock, public["origin"], public)
    plain, overlapping = [], []
    for each in earlier:
        share = None
        if each.claim is not None and each.key is not None and each.claim.planar == lattice.planar:
            path = find_key(each.key.parent, each.records_sha256)  # keys are renamed when newer ones come
            if path is None:
                raise _key_missing(each)
            key = read_key_file(path, declared=each.claim.records)
            share, linked = _link(own, each, key, read, ids)
            if each.overlaps and share is not None:
                overlapping.append(_tables(each, key, linked, opened, read, progress))
        plain.append(each.to_plain(share))
        progress.advance(1)
    combined = None
    if overlapping and len(overlapping) == sum(each.overlaps for each in earlier):
        size = {"users": read.samples.users, "steps": read.samples.steps}
        tables = make_tables(read.samples.columns, boxes.columns, **size)
        combined = measure_combined(tables, overlapping, **clock, k=k, tau=tau)
        combined = {name: _rounded(value) for name, value in combined.items()}
    return Composition(releases=tuple(plain), combined=combined)


def _published(record, columns, clock, origin, lattice) -> Published:
    cell = [lattice["metres"] / scale for scale in lattice["metres_per_unit"]]
    return Published.of(record, *columns, **clock, origin=origin, cell=cell)


def _link(
    own: Published, each: Earlier, key: Key, read: OpenSamples, ids: np.ndarray
) -> tuple[float | None, np.ndarray]:
    """Share of records linked to the right ones by the better of two attacks; each user's linked record.

    Records are rows of the key, -1 for none. An adversary does not know which attack is better; we do.
    """
    claim = each.claim
    assert claim is not None
    assert each.folder is not None
    released = read_records(each.folder)
    record, *columns = (released[name] for name in ("record", "t0", "t1", "x0", "x1", "y0", "y1"))
    clock = {"start_us": claim.start_us, "step_us": claim.minutes * 60_000_000}
    lattice = {"metres": claim.metres, "metres_per_unit": claim.metres_per_unit}
    theirs = _published(record, columns, clock, claim.origin, lattice)
    user_of = np.argsort(ids)  # ids are 1 .. users
    rows = number_of(key.records, theirs.ids)
    same = _same_users(read, key)
    has_boxes = np.zeros(key.size + 1, np.bool_)
    has_boxes[rows[rows >= 0]] = True
    possible = (same >= 0) & has_boxes[same] & np.isin(ids, own.ids)
    best, chosen = None, np.full(len(ids), -1, np.int64)
    for same_time in (True, False) if each.overlaps else (False,):
        links = link_records(own, theirs, same_time=same_time)
        linked = np.full(len(ids), -1, np.int64)
        linked[user_of[own.ids - 1]] = np.where(links < 0, -1, rows[links])
        share = float((linked == same)[possible].mean()) if possible.any() else None
        if share is not None and (best is None or share > best):
            best, chosen = share, linked
    return best, chosen


def _same_users(read: OpenSamples, key: Key) -> np.ndarray:
    """int64 [users]: the row of each user in the earlier key, -1 where the user is not in it."""
    known = {str(user): row for row, user in enumerate(key.users.tolist())}
    return np.array([known.get(str(name), -1) for name in read.names.to_pylist()], np.int64)


def _tables(
    each: Earlier, key: Key, linked: np.ndarray, opened: TrajectorySource, read: OpenSamples, tell: Progress
) -> LinkedRelease:
    """The earlier release beside the samples of the same people, placed on its own lattice."""
    claim = each.claim
    assert claim is not None
    assert each.folder is not None
    tables, _ = tables_of(each.folder, claim, key, opened.source, opened.sites, tell)
    return LinkedRelease(
        tables=tables,
        start_us=claim.start_us,
        step_us=claim.minutes * 60_000_000,
        user=_same_users(read, key),
        record=linked,
    )


def _rounded(value: Any) -> Any:
    return round(value, DIGITS) if isinstance(value, float) else value


def _iso(moment_us: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment_us)).isoformat()
