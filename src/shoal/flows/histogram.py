"""Distinct trips in any rectangle, published: the whole way from raw points to a release folder.

prepare      plan -> source, grid, rectangles, mechanism, price     public things only, no row is read
check        are the rows well-formed?                               the owner's own look, shown to no one
reserve      the ledger takes the price                              before any trip is counted
trace        raw -> trips, cut at the map's edge, bounded per user   paths of cells
noise        sums over trips -> noisy histogram                      mechanism, through a door
commit       folder sealed, spend committed, folder moved into place
report       raw against released, for the owner's folder only
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shoal.engine.grid_trips import TripBound
from shoal.engine.protocol import Held, TripEngine
from shoal.engine.trip_watch import share
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


def run_histogram(
    prepared: PreparedHistogram,
    ledger: Ledger,
    *,
    compare: bool = False,
    engine: TripEngine | None = None,
    progress: Progress | None = None,
    confirm: Callable[[str], bool] | None = None,
) -> TripResult:
    """Check, reserve, trace, add noise, write, commit, report.

    `compare` runs the other methods on the same trips for the owner's report. `confirm` is asked before
    anything is spent where no point at all would be counted; by default the run goes on.
    """
    owner = open_owner_folder(Path(prepared.plan.owner))
    making = HistogramBuild(prepared, progress or Silent(), confirm, engine)
    made = making.made(ledger, owner)
    with drawing_report(made.path):
        report = making.report(owner, made, ledger, compare)
    return making.result(made, report)


class HistogramBuild(TripBuild):
    """Raw points in, files of a histogram out."""

    prepared: PreparedHistogram
    kept: Held | None = None
    seeded_look = "a seeded histogram on private data"

    def manifest(self) -> Manifest:
        return histogram_manifest(self.prepared)

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        prepared = self.prepared
        self.kept = self.trips(noise.run_key(), prepared.setting.per_unit, prepared.setting.cap)
        self.tell.stage("draw noise")
        noisy = prepared.mechanism(self.kept.door(), noise)
        self.tell.stage("write the release")
        write_histogram(folder, noisy, prepared.grid, prepared.zones)
        manifest = histogram_manifest(prepared, noisy, reproducible=not noise.publishable)
        text = recipient_readme(manifest, files(prepared), how_to_read(prepared))
        (folder / "README.md").write_text(text, "utf-8")
        return manifest

    def trips(self, run_key: bytes, per_unit: int, cap: int | None) -> Held:
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
        return self.hold(bound, "trace trips")

    def report(self, owner: Path, made: Committed, ledger: Ledger, compare: bool) -> Path:
        """The owner's page, on all trips; reads them again, without a bound."""
        path = owner / "report.html"
        if made.reused and not compare and (drawn := report_of(made, path)):
            return drawn
        key = OsNoise().run_key()
        setting = self.prepared.setting
        kept = self.kept or self.trips(key, setting.per_unit, setting.cap)
        every = kept if self.prepared.each_trip else self.trips(key, ALL_TRIPS, None)
        outside = share(kept.watched, "outside", "points")
        seen = OwnersTrips(kept=kept.door(), every=every.door(), outside_share=outside)
        return owner_report(path, self.prepared, made, seen, ledger, compare=compare, progress=self.tell)
