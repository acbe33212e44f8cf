"""The one procedure of a release: check, reserve, build, commit, report.

prepare      public things only: files that hold nothing of the events, and the noisy ones tried without data
check        are the rows well-formed?                               the owner's own look, shown to no one
reserve      the ledger takes the price                              before anything is counted
build        raw -> bounded -> exact -> noisy -> files               the kind's own `__call__`
commit       folder sealed, spend committed, folder moved into place
report       raw against released, for the owner's folder only

A kind of release subclasses `Build`. A seeded run goes to the owner's folder, spends nothing and is noted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shoal.engine.duck import DuckEngine
from shoal.kinds.owner import drawing_report, open_owner_folder
from shoal.kinds.progress import Progress, Silent
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.folder import (
    Committed,
    ReleaseRequest,
    preflight,
    release,
    stored_release,
    write_for_owner,
)
from shoal.release.manifest import Manifest
from shoal.release.rehearsal import rehearse
from shoal.release.verify import sha256_file


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Where the release lies and the owner's report; `rows` and `bad_rows` are for the owner's eyes."""

    release: Path
    report: Path | None  # None: not drawn, because the files changed since the release
    reused: bool
    publishable: bool
    rows: int | None  # None: stored before, so not read again
    bad_rows: int | None
    source_changed: bool = False  # the files are not those that the stored release was made from


class Build:
    """What a kind of release does between plan and report; raw events in, files of the release out.

    `confirm` is asked before anything is spent where nothing at all would be counted; by default the run goes
    on, since nobody and somebody must look alike to a recipient.
    """

    def __init__(
        self,
        prepared: Any,
        progress: Progress | None = None,
        confirm: Callable[[str], bool] | None = None,
        engine: Any = None,
    ) -> None:
        self.prepared, self.tell, self.confirm = prepared, progress or Silent(), confirm
        self.engine: Any = engine or DuckEngine()
        self.rows: int | None = None
        self.bad_rows: int | None = None

    def check(self) -> None:
        """Stop on bad rows before anything is spent; notes `rows` and `bad_rows`."""
        raise NotImplementedError

    def manifest(self) -> Manifest:
        """As far as it is known before anything is counted."""
        raise NotImplementedError

    def public(self, folder: Path, manifest: Manifest) -> None:
        """Write the files that hold nothing of the events; the manifest is as `manifest` gives it."""
        raise NotImplementedError

    def try_without_data(self, folder: Path) -> None:
        """Write the noisy files from an empty source with the noise of a public seed."""
        raise NotImplementedError

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        """Count, add noise, write the noisy files."""
        raise NotImplementedError

    def report(self, owner: Path, made: Committed, ledger: Ledger) -> Path | None:
        """The owner's page."""
        raise NotImplementedError

    @property
    def times_rehearsed(self) -> float:
        """How much more is written in the end than is tried without data."""
        return 1.0

    def prepare(self, folder: Path) -> None:
        """Before the reserve: all that is public, and the noisy files tried without data."""
        self.public(folder, self.manifest())
        self.tell.stage("try without data")
        rehearse(folder, type(self)(self.prepared).try_without_data, times=self.times_rehearsed)


def run(making: Build, ledger: Ledger) -> RunResult:
    """Check, reserve, build, commit and report; with a seed, into the owner's folder without a spend."""
    plan = making.prepared.plan
    owner = open_owner_folder(Path(plan.owner))
    ledger.state().population(plan.population)  # a name that does not exist is reported before any work
    made = _release(making, ledger) if plan.seed is None else _experiment(making, ledger, owner)
    with drawing_report(made.path):
        report = making.report(owner, made, ledger)
    return RunResult(
        release=made.path,
        report=report,
        reused=made.reused,
        publishable=plan.seed is None,
        rows=making.rows,
        bad_rows=making.bad_rows,
        source_changed=made.source_changed,
    )


def request_of(prepared: Any, **more: Any) -> ReleaseRequest:
    """The request of a prepared plan; `more` are fields that only this kind sets, or sets in its own way."""
    plan = more.pop("plan", prepared.plan)
    public = {
        "population": plan.population,
        "key": prepared.key(),
        "unit": plan.unit,
        "source_digest": prepared.source_digest(),
        "earlier_key": prepared.earlier_key,
        "supersedes": plan.supersedes or None,
    }
    return ReleaseRequest(**public | more)


def _release(making: Build, ledger: Ledger) -> Committed:
    prepared, plan = making.prepared, making.prepared.plan
    request = request_of(
        prepared,
        loss=prepared.mechanism.loss(),
        out=Path(plan.out),
        owner=Path(plan.owner),
        what=prepared.what(),
        needs=prepared.needs(),
        prepare=making.prepare,
    )
    preflight(ledger, request, making.manifest())
    if stored_release(ledger, request) is None:
        making.check()
    noise = OsNoise()
    return release(ledger, request, lambda folder: making(folder, noise), waiting=making.tell.stage)


def _experiment(making: Build, ledger: Ledger, owner: Path) -> Committed:
    """A seeded run: to the owner's folder, without a spend, marked in manifest and ledger."""
    plan, what = making.prepared.plan, making.prepared.what()
    noise = SeededNoise(plan.seed or 0)
    making.check()
    out = owner / f"seeded-{plan.seed}"
    ledger.look(plan.population, f"seeded, not for publication: {what}", str(out))  # before it is seen

    def build(folder: Path) -> Manifest:
        making.public(folder, replace(making.manifest(), reproducible=True))
        return making(folder, noise)

    path = write_for_owner(out, build)
    return Committed(path=path, manifest_sha256=sha256_file(path / "manifest.json"), reused=False)
