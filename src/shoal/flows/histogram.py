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

from collections.abc import Callable
from pathlib import Path

from shoal.engine.grid_trips import TripBound, bound_trips
from shoal.engine.trip_door import TripDoor
from shoal.flows.histogram_manifest import files, histogram_manifest, how_to_read
from shoal.flows.histogram_owner import OwnersTrips, owner_report
from shoal.flows.histogram_prepare import PreparedHistogram
from shoal.flows.owner_folder import drawing_report, open_owner_folder
from shoal.flows.owner_report import report_of
from shoal.flows.progress import Progress, Silent
from shoal.flows.trip_release import ALL_TRIPS, TripBuild, TripResult
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise
from shoal.release.folder import Committed
from shoal.release.histogram_files import write_histogram
from shoal.release.manifest import Manifest
from shoal.release.readme import recipient_readme
from shoal.stages.trips import GridTrips


def run_histogram(
    prepared: PreparedHistogram,
    ledger: Ledger,
    *,
    compare: bool = False,
    progress: Progress | None = None,
    confirm: Callable[[str], bool] | None = None,
) -> TripResult:
    """Check, reserve, trace, add noise, write, commit, report.

    `compare` runs the other methods on the same trips for the owner's report. `confirm` is asked before
    anything is spent where no point at all would be counted; by default the run goes on.
    """
    owner = open_owner_folder(Path(prepared.plan.owner))
    making = HistogramBuild(prepared, progress or Silent(), confirm)
    made = making.made(ledger, owner)
    with drawing_report(made.path):
        report = making.report(owner, made, ledger, compare)
    return making.result(made, report)


class HistogramBuild(TripBuild):
    """Raw points in, files of a histogram out."""

    prepared: PreparedHistogram
    kept: GridTrips | None = None
    seeded_look = "a seeded histogram on private data"

    def manifest(self) -> Manifest:
        return histogram_manifest(self.prepared)

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
        return bound_trips(self.points(), bound, lambda _, rows: self.tell.advance(rows))

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
