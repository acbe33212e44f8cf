"""Trajectories, released: the whole way from a plan to a folder of records that k people share.

prepare      plan -> source, lattice, anonymiser                     public things only, no row is read
check        are the rows well-formed?                               the owner's own look
read         raw -> samples on the lattice                           every user numbered
decide       window after window, who carries whom                   kept on the way: a killed run goes on
merge        samples -> boxes, record by record                      k-merge
verify       every user, every start, by the tracker                 code of its own; no pass, no release
measure      what more knowledge and earlier releases do to k        published with the release
list         folder sealed, listed in the ledger, moved into place   no budget is spent
report       what it cost, what a tracker learns, for the owner      never part of the release
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from shoal.anonymise.kte import Kte
from shoal.attacks.tracker.evidence import Verified
from shoal.engine.prf import hash_integers, split_key
from shoal.engine.protocol import Engine, WorksElsewhere
from shoal.errors import GuaranteeError
from shoal.kinds.owner import drawing_report, open_owner_folder
from shoal.kinds.progress import Progress, Silent
from shoal.kinds.run import request_of
from shoal.kinds.run_key import earlier_name, run_name, source_digest
from shoal.kinds.source import contents_of
from shoal.kinds.trajectories.blocks import anonymise
from shoal.kinds.trajectories.compose import Earlier, check_named, compose, earlier_releases
from shoal.kinds.trajectories.manifest import trajectories_manifest, trajectories_readme
from shoal.kinds.trajectories.owner_report import (
    before_and_after,
    keep_verification,
    measure_release,
    moved_key,
    report_of,
    single_record_shares,
    write_trajectory_report,
)
from shoal.kinds.trajectories.plan import TrajectoryPlan
from shoal.kinds.trajectories.records import (
    OpenSamples,
    TrajectorySource,
    check_trajectories,
    open_trajectories,
    read_samples,
)
from shoal.kinds.trajectories.resume import forget, kept_folder
from shoal.kinds.trajectories.verify import Apart, verify_written
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import OsNoise
from shoal.release.folder import Committed, preflight, release, stored_release
from shoal.release.manifest import Manifest
from shoal.release.trajectory_files import KEY, RECORDS, find_key, write_key, write_records
from shoal.release.verify import sha256_file
from shoal.stages.trajectories import Boxes, LatticeSamples

ASKED = (
    "population",
    "k",
    "full_length",
    "price",
    "forget_days",
    "block_users",
    "unit",
    "run_id",
    "keep_unsafe",
)
NEW_KEY = ".record_key-new.parquet"  # until the release it belongs to is verified
RECORD_IDS = 7  # purpose of the key that draws the ids


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTrajectories:
    """A plan with its public things opened. Nothing here depends on a row of the records."""

    plan: TrajectoryPlan
    opened: TrajectorySource
    anonymiser: Kte

    @property
    def window_us(self) -> tuple[int, int]:
        lattice = self.opened.lattice
        return lattice.start_us, lattice.start_us + lattice.steps * lattice.minutes * 60_000_000

    def what(self) -> str:
        tau, epoch = self.plan.minutes()
        return f"trajectories, k = {self.plan.k}, tau {tau} min, epoch {epoch} min"

    def notes(self) -> list[str]:
        """What the owner should know before the run; none of it stops it."""
        n = self.anonymiser.tau_steps // self.anonymiser.epoch_steps
        notes = ["not differential privacy: no composition, no protection beyond the stated tracker."]
        if n > 1 and not self.plan.full_length:
            notes.append(
                f"tau is {n} epochs: people are told apart by {2 ** (n + 1)} patterns of activity, which "
                "takes time and suppresses more. An epoch as long as tau is cheaper."
            )
        return notes

    def key(self) -> str:
        """Names the run by public values: the same plan, population and run id are the same release."""
        return run_name("trajectories", self.plan.source, *self._asked())

    def earlier_key(self) -> str:
        """The key of this run in ledgers written before, where files entered by their content."""
        asked, *rest = self._asked()
        source = self.opened.source
        return earlier_name("trajectories", asked, source.understood(), *rest, contents_of(source))

    def source_digest(self) -> str:
        """Private, for the owner's ledger: whether the files are those of an earlier run."""
        return source_digest(self.opened.source)

    def _asked(self) -> list[Any]:
        plan, sites = self.plan, self.opened.sites
        asked = {name: getattr(plan, name) for name in ASKED} | {"minutes": plan.minutes()}
        return [asked, self.opened.lattice.to_manifest(), asdict(plan.window), sites and sites.digest()]


@dataclass(frozen=True, kw_only=True)
class TrajectoryResult:
    """Where things lie, and the figures the owner is shown."""

    release: Path
    report: Path | None
    record_key: Path | None
    reused: bool
    verified: bool
    figures: dict[str, Any] = field(repr=False)
    source_changed: bool = False  # the files are not those that the stored release was made from


def prepare_trajectories(plan: TrajectoryPlan, engine: Engine | None = None) -> PreparedTrajectories:
    """Open everything public; reads headers of the records, no rows."""
    return PreparedTrajectories(
        plan=plan, opened=open_trajectories(plan, engine), anonymiser=plan.anonymiser()
    )


def run_trajectories(
    prepared: PreparedTrajectories,
    ledger: Ledger,
    *,
    engine: object = None,
    progress: Progress | None = None,
) -> TrajectoryResult:
    """Check, read, decide, merge, verify, write, list, report.

    An `engine` that works elsewhere hides and verifies blocks of users there.
    """
    plan, tell = prepared.plan, progress or Silent()
    owner = open_owner_folder(Path(plan.owner))
    ledger.state().population(plan.population)  # a name that does not exist is said before any work
    request = request_of(
        prepared, loss=None, out=Path(plan.out), owner=Path(plan.owner), what=prepared.what()
    )
    preflight(ledger, request)
    earlier: list[Earlier] = []
    if stored_release(ledger, request) is None:
        earlier = earlier_releases(ledger, prepared, owner)
        check_named(earlier, plan.population)
    request = replace(request, window_us=prepared.window_us, knows=frozenset(each.sha256 for each in earlier))
    making = TrajectoryBuild(prepared, owner, tell, engine, earlier)
    made = release(ledger, request, making, waiting=tell.stage)
    forget(kept_folder(owner, request.key))
    if made.reused:
        return _stored(made, owner)
    with drawing_report(made.path, "`shoal trajectories verify` measures it again."):
        report, figures = making.report(made, ledger)
        figures["read_from_data"] = making.read_from_data
    return TrajectoryResult(
        release=made.path,
        report=report,
        record_key=owner / KEY,
        reused=False,
        verified=making.passed,
        figures=figures,
    )


class TrajectoryBuild:
    """From raw records to the files of the release and the owner's key."""

    def __init__(
        self,
        prepared: PreparedTrajectories,
        owner: Path,
        progress: Progress,
        engine: object = None,
        earlier: Sequence[Earlier] = (),
    ) -> None:
        self.earlier = earlier
        self.prepared, self.owner, self.tell, self.engine = prepared, owner, progress, engine
        self.read: OpenSamples | None = None
        self.boxes: Boxes | None = None
        self.verified: Verified | None = None
        self.ids: np.ndarray | None = None
        self.pairs_again = 0
        self.measured: dict[str, Any] = {}
        self.unicity: list[dict[str, Any]] = []
        self.read_from_data: dict[str, Any] = {}

    @property
    def passed(self) -> bool:
        return self.verified is not None and self.verified.passed

    def __call__(self, folder: Path) -> Manifest:
        plan, opened, tell = self.prepared.plan, self.prepared.opened, self.tell
        report = check_trajectories(opened, tell)
        self.read = read_samples(opened, tell, report.rows)
        kept = kept_folder(self.owner, self.prepared.key())
        made = anonymise(
            self.prepared.anonymiser, self.read.samples, plan.block_users, kept, tell, self.engine
        )
        self.boxes, self.pairs_again = made.boxes, made.pairs_again
        tell.stage("write the release")
        self.ids = record_ids(self.boxes.records)
        write_records(folder, self.boxes, self.ids)
        digest = sha256_file(folder / RECORDS)
        key = write_key(self.owner / NEW_KEY, self.read.names, self.ids, records_sha256=digest)
        try:
            self._verify(folder, key)
            moved_key(self.owner / KEY)
            key.rename(self.owner / KEY)
        finally:
            key.unlink(missing_ok=True)
        manifest = trajectories_manifest(
            self.prepared,
            self.boxes.records,
            verified=self.passed,
            single=self._measure(),
            composition=compose(
                *(self.earlier, opened, self.read, self.boxes, self.ids),
                k=plan.k,
                tau=min(self.prepared.anonymiser.tau_steps, self.read.samples.steps),
                progress=tell,
            ),
        )
        self.read_from_data = dict(manifest.read_from_data)
        (folder / "README.md").write_text(trajectories_readme(manifest), "utf-8")
        return manifest

    def _verify(self, folder: Path, key_path: Path) -> None:
        """The verdict on what was written: raw data, file and key, read anew by the tracker."""
        assert self.boxes is not None
        plan, opened = self.prepared.plan, self.prepared.opened
        manifest = trajectories_manifest(self.prepared, self.boxes.records, verified=True)
        said = {"public": manifest.public, "read_from_data": manifest.read_from_data}
        apart = Apart(self.engine, plan.block_users) if isinstance(self.engine, WorksElsewhere) else None
        self.verified, key = verify_written(
            folder, key_path, said, opened.source, opened.sites, self.tell, apart
        )
        keep_verification(self.owner, self.verified, key)
        if not self.passed and not plan.keep_unsafe:
            raise GuaranteeError(
                "trajectories-unsafe",
                "the verifier found windows in which fewer than k records fit.",
                "The owner's folder has the counter-examples (verification.json). Report it; --keep-unsafe "
                "writes the records all the same, marked as unsafe.",
            )

    def _measure(self) -> dict[str, float | None]:
        """Share of people whom more knowledge than one stretch leaves with a single record."""
        assert self.read is not None
        assert self.boxes is not None
        self.measured = measure_release(self.read, self.boxes, self.prepared.anonymiser, self.tell)
        self.tell.stage("attack with points", 2)
        self.unicity = before_and_after(self.read, self.boxes, self.tell)
        return single_record_shares(self.measured, self.unicity)

    def report(self, made: Committed, ledger: Ledger) -> tuple[Path, dict[str, Any]]:
        assert self.read is not None
        assert self.boxes is not None
        assert self.verified is not None
        population = self.prepared.plan.population
        ledger.disclose(population, f"owner's report on {self.prepared.what()}", str(self.owner))
        return write_trajectory_report(
            self.owner,
            self.prepared,
            made,
            self.read,
            self.boxes,
            self.verified,
            self.ids,
            self.pairs_again,
            (self.measured, self.unicity),
            self.tell,
        )


def verify(
    samples: LatticeSamples, boxes: Boxes, anonymiser: Kte, progress: Progress | None = None
) -> Verified:
    """The tracker's verdict on all users and starts; it knows samples and boxes only."""
    from shoal.attacks.tracker.evidence import verify_arrays

    columns = (boxes.record, boxes.t0, boxes.t1, boxes.x0, boxes.x1, boxes.y0, boxes.y1)
    return verify_arrays(
        *(samples.user, samples.t, samples.x, samples.y),
        *columns,
        users=samples.users,
        steps=samples.steps,
        k=anonymiser.k,
        tau=min(anonymiser.tau_steps, samples.steps),
        progress=progress,
    )


def record_ids(records: int) -> np.ndarray:
    """int64: 1 .. records in an order that nobody can predict, from the operating system."""
    k0, k1 = split_key(OsNoise().run_key(), RECORD_IDS)
    drawn = hash_integers(k0, k1, np.arange(records, dtype=np.int64))
    ids = np.empty(records, np.int64)
    ids[np.argsort(drawn, kind="stable")] = np.arange(1, records + 1)
    return ids


def _stored(made: Committed, owner: Path) -> TrajectoryResult:
    """The release that was made before under the same key."""
    manifest = Manifest.from_json((made.path / "manifest.json").read_text("utf-8"))
    return TrajectoryResult(
        release=made.path,
        report=report_of(owner, made.manifest_sha256),
        record_key=find_key(owner, sha256_file(made.path / RECORDS)),
        reused=True,
        verified=bool(manifest.guarantee.get("verified")),
        figures={},
        source_changed=made.source_changed,
    )
