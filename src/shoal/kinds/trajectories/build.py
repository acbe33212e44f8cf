"""Trajectories, released: how raw records become a folder of records that k people share.

read         raw -> samples on the lattice                           every user numbered
decide       window after window, who carries whom                   kept on the way: a killed run goes on
merge        samples -> boxes, record by record                      k-merge
verify       every user, every start, by the tracker                 code of its own; no pass, no release
measure      what more knowledge and earlier releases do to k        published with the release
report       what it cost, what a tracker learns, for the owner      never part of the release
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.anonymise.kte import Kte
from shoal.attacks.tracker.evidence import Verified
from shoal.engine.buckets import hash_integers, split_key
from shoal.engine.engine import WorksElsewhere
from shoal.errors import GuaranteeError
from shoal.kinds.run import Build, report_of
from shoal.kinds.source import Progress, checked_rows
from shoal.kinds.trajectories.blocks import anonymise, forget, kept_folder
from shoal.kinds.trajectories.compose import Earlier, check_named, compose, earlier_releases
from shoal.kinds.trajectories.owner_report import (
    before_and_after,
    keep_verification,
    measure_release,
    moved_key,
    single_record_shares,
    write_trajectory_report,
)
from shoal.kinds.trajectories.prepare import (
    OpenSamples,
    PreparedTrajectories,
    read_samples,
    trajectories_manifest,
    trajectories_readme,
)
from shoal.kinds.trajectories.verify import Apart, verify_written
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise
from shoal.release.folder import Committed
from shoal.release.manifest import Manifest
from shoal.release.trajectory_files import KEY, RECORDS, write_key, write_records
from shoal.release.verify import sha256_file
from shoal.stages.trajectories import Boxes, LatticeSamples

NEW_KEY = ".record_key-new.parquet"  # until the release it belongs to is verified
RECORD_IDS = 7  # purpose of the key that draws the ids


class TrajectoryBuild(Build):
    """From raw records to the files of the release and the owner's key.

    An engine that works elsewhere hides and verifies blocks of users there.
    """

    prepared: PreparedTrajectories
    remedy = "`shoal trajectories verify` measures it again."
    earlier: Sequence[Earlier] = ()
    read: OpenSamples | None = None
    boxes: Boxes | None = None
    verified: Verified | None = None
    ids: np.ndarray | None = None
    pairs_again = 0

    @property
    def owner(self) -> Path:
        return Path(self.prepared.plan.owner)

    @property
    def passed(self) -> bool:
        return self.verified is not None and self.verified.passed

    def notes(self, ledger: Ledger) -> list[str]:
        population, notes = self.prepared.plan.population, self.prepared.notes()
        earlier = sum(name == population for name, _ in ledger.releases())
        if earlier:
            notes.append(
                f"{population!r} has {earlier} earlier release{'s' * (earlier > 1)}; whoever holds several "
                "may combine them, and no promise covers that. `shoal ledger show` lists them."
            )
        if isinstance(self._engine, WorksElsewhere) and self.prepared.plan.block_users is None:
            notes.append("all users are one block, so one task does it all; --block-users makes several.")
        return notes

    def listed(self, ledger: Ledger) -> dict[str, Any]:
        """The window and the earlier releases of the same people; refuses those that are not named."""
        prepared = self.prepared
        self.earlier = earlier_releases(ledger, prepared, self.owner)
        check_named(self.earlier, prepared.plan.population)
        knows = frozenset(each.sha256 for each in self.earlier)
        return {"window_us": prepared.window_us, "knows": knows}

    def check(self) -> None:
        """Stop on bad rows."""
        prepared = self.prepared
        report = checked_rows(prepared.source, self.tell, sites=prepared.opened.site_ids)
        self.rows, self.bad_rows = report.rows, report.bad

    def manifest(self) -> None:
        """Nothing is known before the records are read: the promise is what the tracker finds."""

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        plan, opened, tell = self.prepared.plan, self.prepared.opened, self.tell
        self.read = read_samples(opened, tell, self.rows)
        kept = kept_folder(self.owner, self.prepared.key())
        made = anonymise(
            self.prepared.anonymiser, self.read.samples, plan.block_users, kept, tell, self._engine
        )
        self.boxes, self.pairs_again = made.boxes, made.pairs_again
        tell.stage("write the release")
        self.ids = record_ids(self.boxes.records, noise.run_key())
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
        self.figures["read_from_data"] = dict(manifest.read_from_data)
        (folder / "README.md").write_text(trajectories_readme(manifest), "utf-8")
        return manifest

    def _verify(self, folder: Path, key_path: Path) -> None:
        """The verdict on what was written: raw data, file and key, read anew by the tracker."""
        assert self.boxes is not None
        plan, opened = self.prepared.plan, self.prepared.opened
        manifest = trajectories_manifest(self.prepared, self.boxes.records, verified=True)
        said = {"public": manifest.public, "read_from_data": manifest.read_from_data}
        apart = Apart(self._engine, plan.block_users) if isinstance(self._engine, WorksElsewhere) else None
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

    def report(self, owner: Path, made: Committed, ledger: Ledger) -> Path | None:
        """The owner's page, and the figures that are printed; a stored release has the page it had."""
        forget(kept_folder(owner, self.prepared.key()))
        if made.reused:
            return report_of(made, owner / "report.html")
        assert self.read is not None
        assert self.boxes is not None
        assert self.verified is not None
        population = self.prepared.plan.population
        ledger.disclose(population, f"owner's report on {self.prepared.what()}", str(self.owner))
        report, figures = write_trajectory_report(
            owner,
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
        self.figures |= figures
        return report


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


def record_ids(records: int, run_key: bytes) -> np.ndarray:
    """int64: 1 .. records in an order that nobody can predict without the secret key of the run."""
    k0, k1 = split_key(run_key, RECORD_IDS)
    drawn = hash_integers(k0, k1, np.arange(records, dtype=np.int64))
    ids = np.empty(records, np.int64)
    ids[np.argsort(drawn, kind="stable")] = np.arange(1, records + 1)
    return ids
