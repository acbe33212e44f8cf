"""Trajectories, released: how raw records become a folder of records that k people share.

read         raw -> samples on the lattice                           every user numbered
decide       window after window, who carries whom                   kept on the way: a killed run goes on
merge        samples -> boxes, record by record                      k-merge
verify       every user, every start, by the tracker                 code of its own; no pass, no release
measure      what more knowledge and earlier releases do to k        published with the release
report       what it cost, what a tracker learns, for the owner      never part of the release
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.attacks.models.box_attacks import Known, attack_points
from shoal.attacks.tracker.evidence import Verified
from shoal.attacks.tracker.files import Key
from shoal.attacks.tracker.leakage import TWO_APART, measure
from shoal.engine.buckets import hash_integers, split_key
from shoal.engine.engine import WorksElsewhere
from shoal.errors import GuaranteeError
from shoal.kinds.describe import release_name
from shoal.kinds.owner import report_of
from shoal.kinds.run import Build, Progress, Test, any_row, checked_rows, some
from shoal.kinds.trajectories.blocks import OpenSamples, anonymise, forget, kept_folder, read_samples
from shoal.kinds.trajectories.compose import Earlier, check_named, compose, earlier_releases
from shoal.kinds.trajectories.prepare import PreparedTrajectories, trajectories_manifest, trajectories_readme
from shoal.kinds.trajectories.published import KEY, RECORDS, write_key, write_records
from shoal.kinds.trajectories.report import TrajectoryFacts, local_zone, raw_views, trajectory_report_html
from shoal.kinds.trajectories.verify import Apart, verify_written
from shoal.metrics.trajectories import LocalClock, TrajectoryUtility, trajectory_utility
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise
from shoal.release.folder import Committed
from shoal.release.manifest import Manifest
from shoal.release.page.page import plain, write_page
from shoal.release.staging import private_file
from shoal.release.verify import sha256_file
from shoal.space.clock import window_of
from shoal.stages.trajectories import Boxes

if TYPE_CHECKING:
    from shoal.kinds.trajectories.prepare import PreparedTrajectories


NEW_KEY = ".record_key-new.parquet"  # until the release it belongs to is verified
RECORD_IDS = 7  # purpose of the key that draws the ids


class TrajectoriesBuild(Build):
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
                f"{population!r} has {earlier} earlier release{'s' * (earlier > 1)}; a recipient of several "
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

    def check_rows(self) -> None:
        """Stop on bad rows."""
        prepared = self.prepared
        report = checked_rows(prepared.source, self.tell, sites=prepared.opened.site_ids)
        self.rows, self.bad_rows = report.rows, report.bad

    def any_event(self, test: Test = some) -> bool:
        prepared = self.prepared
        return any_row(prepared.source, test, window_us=prepared.window_us, sites=prepared.opened.site_ids)

    def manifest(self) -> None:
        """Nothing is known before the records are read: the promise is what the tracker finds."""

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        plan, opened, tell = self.prepared.plan, self.prepared.opened, self.tell
        self.read = read_samples(opened, tell, self.rows)
        progress_folder = kept_folder(self.owner, self.prepared.key())
        outcome = anonymise(
            self.prepared.anonymiser, self.read.samples, plan.block_users, progress_folder, tell, self._engine
        )
        self.boxes, self.pairs_again = outcome.boxes, outcome.pairs_again
        tell.stage("write the release")
        self.ids = record_ids(self.boxes.records, noise.run_key())
        write_records(folder, self.boxes, self.ids, self.read.lattice)
        digest = sha256_file(folder / RECORDS)
        key = write_key(self.owner / NEW_KEY, self.read.names, self.ids, records_sha256=digest)
        try:
            self._verify(folder, key)
            composition = compose(
                *(self.earlier, opened, self.read, self.boxes, self.ids),
                k=plan.k,
                tau=min(self.prepared.anonymiser.tau_steps, self.read.samples.steps),
                progress=tell,
            )
            moved_key(self.owner / KEY)
            key.rename(self.owner / KEY)
        finally:
            key.unlink(missing_ok=True)
        manifest = trajectories_manifest(
            self.prepared,
            self.boxes.records,
            verified=self.passed,
            single=self._measure(),
            composition=composition,
        )
        self.figures["read_from_data"] = dict(manifest.read_from_data)
        (folder / "README.md").write_text(trajectories_readme(manifest), "utf-8")
        return manifest

    def _verify(self, folder: Path, key_path: Path) -> None:
        """The verdict on what was written: raw data, file and key, read anew by the tracker."""
        assert self.boxes is not None
        plan, opened = self.prepared.plan, self.prepared.opened
        manifest = trajectories_manifest(self.prepared, self.boxes.records, verified=True)
        claim = {"public": manifest.public, "read_from_data": manifest.read_from_data}
        apart = Apart(self._engine, plan.block_users) if isinstance(self._engine, WorksElsewhere) else None
        self.verified, key = verify_written(
            folder, key_path, claim, opened.source, opened.sites, self.tell, apart
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
        """Share of people with a single record that fits knowledge of more than one period."""
        assert self.read is not None
        assert self.boxes is not None
        samples, anonymiser = self.read.samples, self.prepared.anonymiser
        self.measured = measure(
            *samples.columns,
            *self.boxes.columns,
            users=samples.users,
            steps=samples.steps,
            epoch=min(anonymiser.epoch_steps, samples.steps),
            k=anonymiser.k,
            tau=min(anonymiser.tau_steps, samples.steps),
            progress=self.tell,
        )
        self.tell.stage("attack with points", 2)
        self.unicity = before_and_after(self.read, self.boxes, self.tell)
        return single_record_shares(self.measured, self.unicity)

    def report(self, owner: Path, committed: Committed, ledger: Ledger) -> Path | None:
        """The owner's page, and the figures that are printed; a stored release has the page it had."""
        forget(kept_folder(owner, self.prepared.key()))
        if committed.reused:
            return report_of(committed, owner / "report.html")
        assert self.read is not None
        assert self.boxes is not None
        assert self.verified is not None
        assert self.ids is not None
        population = self.prepared.plan.population
        what, window_us = f"owner's report on {self.prepared.what()}", window_of(self.prepared.public())
        ledger.disclose(population, what, str(self.owner), window_us)
        tell, lattice, measured = self.tell, self.read.lattice, self.measured
        for pair in measured["same_record"]["worst"]:  # numbers become the owner's ids
            pair["user"] = self.read.names[pair["user"]].as_py()
            pair["record"] = int(self.ids[pair["record"]])
        tell.stage("draw the report")
        zone = local_zone(self.prepared.plan.window.time_zone)
        clock = LocalClock.of(lattice.start, steps=lattice.steps, minutes=lattice.minutes, zone=zone)
        of_lattice = {"minutes": lattice.minutes, "metres": lattice.metres}
        utility = trajectory_utility(self.read.samples, self.boxes, **of_lattice, clock=clock)
        figures = figures_of(utility, self.verified, measured, self.unicity)
        figures |= {
            "users": self.read.samples.users,
            "rows": self.read.rows,
            "repeated": self.read.rows - self.read.samples.count,
            "pairs_again": self.pairs_again,
        }
        self.figures |= figures
        page = write_page(
            owner / "report.html", trajectory_report_html(self._facts(owner, committed, utility, clock))
        )
        write_private(owner / "utility.json", {"manifest_sha256": committed.manifest_sha256, **figures})
        return page

    def _facts(
        self, owner: Path, committed: Committed, utility: TrajectoryUtility, clock: LocalClock
    ) -> TrajectoryFacts:
        """All that the owner's page shows."""
        assert self.read is not None
        assert self.boxes is not None
        assert self.verified is not None
        plan, read, ids = self.prepared.plan, self.read, self.ids
        assert ids is not None
        tau, epoch = plan.minutes()
        maps, picture = raw_views(
            read.samples,
            self.boxes,
            read.lattice,
            clock,
            name_of=lambda user: str(read.names[user].as_py()),
            record_of=lambda user: int(ids[user]),
        )
        manifest = json.loads((committed.path / "manifest.json").read_text("utf-8"))
        overlaps = any(each["overlaps"] for each in manifest["read_from_data"].get("earlier_releases", ()))
        return TrajectoryFacts(
            title=f"Trajectories of {plan.population}: {release_name(committed)}",
            k=plan.k,
            tau_minutes=tau,
            epoch_minutes=epoch,
            lattice=read.lattice,
            time_zone=plan.window.time_zone,
            users=read.samples.users,
            utility=utility,
            verified=self.verified,
            measured=self.measured,
            unicity=self.unicity,
            maps=maps,
            picture=picture,
            runs=runs_so_far(owner, run_row(self.prepared, utility, self.verified)),
            notices=[
                *([manifest["promise"]] if overlaps else []),
                *self.prepared.notes(),
                *_wide(utility),
            ],
            public={**manifest["public"], "read_from_data": manifest["read_from_data"]},
        )


def record_ids(records: int, run_key: bytes) -> np.ndarray:
    """int64: 1 .. records in an order that nobody can predict without the secret key of the run."""
    k0, k1 = split_key(run_key, RECORD_IDS)
    drawn = hash_integers(k0, k1, np.arange(records, dtype=np.int64))
    ids = np.empty(records, np.int64)
    ids[np.argsort(drawn, kind="stable")] = np.arange(1, records + 1)
    return ids


TARGETS = 2000  # people attacked with a few points, before and after
POINTS = (1, 2, 3, 4)


def keep_verification(owner: Path, verified: Verified, key: Key) -> Path:
    """verification.json: the verdict with its counter-examples, users by their own ids."""
    verdict = verified.to_plain()
    for example in (*verdict["examples"], *verdict["structure_examples"]):
        if "user" in example:
            name = key.users[example["user"]]
            example["user"] = name if isinstance(name, str) else int(name)
    return write_private(owner / "verification.json", verdict)


def moved_key(path: Path) -> None:
    """A key of an earlier release is kept under a name of its own: without it nothing can be verified."""
    if path.is_file():
        path.rename(path.with_name(f"record_key-{sha256_file(path)[:8]}.parquet"))


def run_row(prepared: PreparedTrajectories, utility: TrajectoryUtility, verified: Verified) -> dict[str, Any]:
    """This run as a point of the picture against tau."""
    plan, box = prepared.plan, utility.granularity.per_box
    tau, epoch = plan.minutes()
    row: dict[str, Any] = {
        "data": f"{plan.population}, k = {plan.k}",
        "users": verified.users,
        "k": plan.k,
        "tau_min": tau,
        "epoch_min": epoch,
        "violations": verified.violations,
        "suppressed": utility.suppressed_share,
    }
    for name, spread in (("space_m", box.space_m), ("time_min", box.time_min)):
        row |= {f"{which}_{name}": getattr(spread, which) for which in ("q1", "median", "q3")}
    return row


def runs_so_far(owner: Path, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs with this owner's folder, kept in runs.json; one that was repeated counts once."""
    path = owner / "runs.json"
    try:
        earlier = json.loads(path.read_text("utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError):
        earlier = []
    one = ("data", "users", "tau_min", "epoch_min")
    runs = [run for run in earlier if any(run.get(name) != row[name] for name in one)] + [row]
    write_private(path, plain({"runs": runs}))
    return runs


def _wide(utility: TrajectoryUtility) -> list[str]:
    if not utility.samples or not np.isnan(utility.density.relative_error):
        return []
    return ["The samples span too wide an area for densities: check for points far away."]


def before_and_after(read: OpenSamples, boxes: Boxes, tell: Progress) -> list[dict[str, Any]]:
    """Share of people that p random points of their own single out: raw pseudonyms, and this release."""
    samples = read.samples
    user, t, x, y = samples.columns
    attacked = []
    for columns in ((user, t, t, x, x, y, y), boxes.columns):
        known = Known.of(*samples.columns, *columns, users=samples.users)
        attacked.append(attack_points(known, POINTS, targets=TARGETS))
        tell.advance(1)
    return [
        {
            "points": before.points,
            "raw": before.linked / before.people if before.people else None,
            "released": after.linked / after.people if after.people else None,
        }
        for before, after in zip(*attacked, strict=True)
    ]


def single_record_shares(measured: dict[str, Any], unicity: list[dict[str, Any]]) -> dict[str, float | None]:
    """Share of people for whom a single record fits two periods of tau, or four points."""
    two = next(each for each in measured["more_knowledge"] if each["knows"] == TWO_APART)["only_one_share"]
    four = next(each for each in unicity if each["points"] == 4)["released"]
    shares = {"two_stretches_of_tau": two, "four_points": four}
    return {name: None if share is None else round(share, 3) for name, share in shares.items()}


def figures_of(
    utility: TrajectoryUtility, verified: Verified, measured: dict[str, Any], unicity: list[dict[str, Any]]
) -> dict[str, Any]:
    """All that is printed, as plain numbers."""
    verdict = {name: value for name, value in verified.to_plain().items() if "examples" not in name}
    return plain(
        {"utility": utility.to_plain(), "verified": verdict, "measured": measured, "unicity": unicity}
    )


def write_private(path: Path, figures: dict[str, Any]) -> Path:
    """JSON that only its owner may read."""
    with private_file(path, text=True) as file:
        json.dump(figures, file, indent=2)
        file.write("\n")
    return path
