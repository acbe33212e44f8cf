"""Distinct trips in any rectangle, published: the whole way from raw points to a release folder.

prepare      plan -> source, grid, rectangles, mechanism, price     public things only, no row is read
check        are the rows well-formed?                               the owner's own look, shown to no one
reserve      the ledger takes the price                              before any trip is counted
trace        raw -> trips, cut at the map's edge, bounded per user   paths of cells, in memory
noise        sums over trips -> noisy histogram                      mechanism, through a door
commit       folder sealed, spend committed, folder moved into place
report       raw against released, for the owner's folder only
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from shoal.engine.grid_trips import TripBound, bound_trips
from shoal.engine.trip_door import TripDoor
from shoal.errors import PlanError
from shoal.events.checks import check_rows
from shoal.events.readers import scan
from shoal.events.trip_reader import read_trips
from shoal.flows.histogram_manifest import files, histogram_manifest, how_to_read
from shoal.flows.histogram_owner import OwnersTrips, owner_report
from shoal.flows.histogram_prepare import PreparedHistogram
from shoal.flows.owner_folder import drawing_report, open_owner_folder
from shoal.flows.owner_report import report_of
from shoal.flows.progress import Progress, Silent
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.folder import Committed, ReleaseRequest, preflight, release, write_for_owner
from shoal.release.histogram_files import write_histogram
from shoal.release.manifest import Manifest
from shoal.release.readme import recipient_readme
from shoal.release.verify import sha256_file
from shoal.stages.trips import GridTrips

NOBODY = "No point lies in the window and the box, so the release would be noise alone."
ALL_TRIPS = 2**40  # no bound: for the owner's figures


@dataclass(frozen=True, kw_only=True)
class HistogramResult:
    """Where the release lies and the owner's report; `rows` and `bad_rows` are for the owner's eyes."""

    release: Path
    report: Path
    reused: bool
    publishable: bool
    rows: int | None  # None: stored before, so not read again
    bad_rows: int | None


def run_histogram(
    prepared: PreparedHistogram,
    ledger: Ledger,
    *,
    compare: bool = False,
    progress: Progress | None = None,
    confirm: Callable[[str], bool] | None = None,
) -> HistogramResult:
    """Check, reserve, trace, add noise, write, commit, report.

    `compare` runs the other methods on the same trips for the owner's report. `confirm` is asked before
    anything is spent where no point at all would be counted; by default the run goes on.
    """
    plan, tell = prepared.plan, progress or Silent()
    owner = open_owner_folder(Path(plan.owner))
    making = HistogramBuild(prepared, tell, confirm)
    ledger.state().population(plan.population)  # a name that does not exist is said before any work
    made = _release(making, ledger) if plan.seed is None else _experiment(making, ledger, owner)
    with drawing_report(made.path):
        report = making.report(owner, made, ledger, compare)
    return HistogramResult(
        release=made.path,
        report=report,
        reused=made.reused,
        publishable=plan.seed is None,
        rows=making.rows,
        bad_rows=making.bad_rows,
    )


class HistogramBuild:
    """The part between reserve and commit: raw points in, files of the release out."""

    def __init__(
        self,
        prepared: PreparedHistogram,
        progress: Progress,
        confirm: Callable[[str], bool] | None = None,
    ) -> None:
        self.prepared, self.tell, self.confirm = prepared, progress, confirm
        self.rows: int | None = None
        self.bad_rows: int | None = None
        self.kept: GridTrips | None = None
        self.outside_share: float | None = None  # of the points in trips, beyond the box

    def check(self) -> None:
        """Stop on bad rows before anything is spent."""
        source, done = self.prepared.source, 0.0
        self.tell.stage("check rows", 1.0)

        def advance(share: float) -> None:
            nonlocal done
            self.tell.advance(share - done)
            done = share

        rule = self.prepared.plan.trip_rule
        report = check_rows(source, with_flag=rule is not None and rule.flag, progress=advance)
        if source.on_bad_row == "stop":
            report.raise_if_bad()
        report.raise_if_unusable()
        self.rows, self.bad_rows = report.rows, report.bad
        if self.confirm and not self._anybody() and not self.confirm(NOBODY):
            raise PlanError(
                "nobody-counted",
                "no point lies in the window and the box; nothing was spent.",
                "Check --box (west,south,east,north), the order of coordinates, --start, --end, --time-zone.",
            )

    def _anybody(self) -> bool:
        """Whether any point would be counted; stops reading at the first one."""
        prepared = self.prepared
        for batch in scan(prepared.source, window_us=prepared.window_us):
            _, _, inside = prepared.grid.place(batch["x"].to_numpy(), batch["y"].to_numpy())
            if inside.any():
                return True
        return False

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        prepared = self.prepared
        self.kept = self.trips(noise.run_key(), prepared.setting.per_unit, prepared.setting.cap)
        self.tell.stage("draw noise")
        noisy = prepared.mechanism(TripDoor(self.kept), noise)
        self.tell.stage("write the release")
        write_histogram(folder, noisy, prepared.grid, prepared.zones)
        manifest = histogram_manifest(prepared, noisy, reproducible=not noise.publishable)
        text = recipient_readme(manifest, files(prepared), how_to_read(prepared))
        (folder / "README.md").write_text(text, "utf-8")
        return manifest

    def trips(self, run_key: bytes, per_unit: int, cap: int | None) -> GridTrips:
        """Paths of the source's trips, at most `per_unit` of a unit."""
        prepared, plan = self.prepared, self.prepared.plan
        bound = TripBound(
            grid=prepared.grid,
            per_unit=per_unit,
            cap=cap,
            each_trip=prepared.each_trip,
            jump_m=plan.jump_m,
            run_key=run_key,
        )
        self.tell.stage("trace trips", self.rows)
        return bound_trips(self._points(), bound, lambda _, rows: self.tell.advance(rows))

    def _points(self) -> Iterator[pa.RecordBatch]:
        """Points of trips; how many lie beyond the box is kept for the owner."""
        prepared, points, outside = self.prepared, 0, 0
        for batch in read_trips(prepared.source, prepared.plan.trip_rule, window_us=prepared.window_us):
            _, _, inside = prepared.grid.place(batch["x"].to_numpy(), batch["y"].to_numpy())
            points, outside = points + inside.size, outside + int(inside.size - inside.sum())
            yield batch
        self.outside_share = outside / points if points else None

    def report(self, owner: Path, made: Committed, ledger: Ledger, compare: bool) -> Path:
        """The owner's page, on all trips; reads them again, without a bound."""
        path = owner / "report.html"
        if made.reused and not compare and (drawn := report_of(made, path)):
            return drawn
        key = OsNoise().run_key()
        setting = self.prepared.setting
        kept = self.kept or self.trips(key, setting.per_unit, setting.cap)
        every = kept if self.prepared.each_trip else self.trips(key, ALL_TRIPS, None)
        seen = OwnersTrips(kept=kept, every=every, outside_share=self.outside_share)
        return owner_report(path, self.prepared, made, seen, ledger, compare=compare, progress=self.tell)


def _release(making: HistogramBuild, ledger: Ledger) -> Committed:
    prepared, plan = making.prepared, making.prepared.plan
    request = ReleaseRequest(
        population=plan.population,
        loss=prepared.mechanism.loss(),
        key=prepared.key(),
        out=Path(plan.out),
        what=prepared.what(),
    )
    preflight(ledger, request, histogram_manifest(prepared))
    if ledger.find(plan.population, request.key) is None:
        making.check()
    noise = OsNoise()
    return release(ledger, request, lambda folder: making(folder, noise))


def _experiment(making: HistogramBuild, ledger: Ledger, owner: Path) -> Committed:
    """A seeded run: to the owner's folder, without a spend, marked in manifest and ledger."""
    plan, what = making.prepared.plan, making.prepared.what()
    noise = SeededNoise(plan.seed or 0)
    making.check()
    out = owner / f"seeded-{plan.seed}"
    ledger.disclose(plan.population, f"seeded, not for publication: {what}", str(out))  # before it is seen
    ledger.remember_tuning(plan.population, "a seeded histogram on private data")  # its figures may choose
    tuned = ledger.is_tuned(plan.population)
    path = write_for_owner(out, lambda folder: replace(making(folder, noise), tuned_on_private_data=tuned))
    return Committed(path=path, manifest_sha256=sha256_file(path / "manifest.json"), reused=False)
