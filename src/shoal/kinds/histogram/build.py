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
from shoal.kinds.histogram.compare import published_methods
from shoal.kinds.histogram.manifest import files, histogram_manifest, how_to_read
from shoal.kinds.histogram.owner_report import OwnersTrips, owner_report
from shoal.kinds.histogram.prepare import PreparedHistogram
from shoal.kinds.owner import report_of
from shoal.kinds.progress import Progress
from shoal.kinds.run import RunResult, run
from shoal.kinds.trip_release import ALL_TRIPS, TripBuild
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.folder import Committed
from shoal.release.histogram_files import write_histogram, write_public
from shoal.release.manifest import Manifest
from shoal.release.readme import recipient_readme
from shoal.stages.trips import UserTrips


def run_histogram(
    prepared: PreparedHistogram,
    ledger: Ledger,
    *,
    compare: bool = False,
    engine: TripEngine | None = None,
    progress: Progress | None = None,
    confirm: Callable[[str], bool] | None = None,
) -> RunResult:
    """Check, reserve, trace, add noise, write, commit, report.

    `compare` runs the other methods on the same trips for the owner's report. `confirm` is asked before
    anything is spent where no point at all would be counted; by default the run goes on.
    """
    if compare:
        published_methods()  # said before anything is spent where they are not installed
    making = HistogramBuild(prepared, progress, confirm, engine)
    making.compare = compare
    return run(making, ledger)


class HistogramBuild(TripBuild):
    """Raw points in, files of a histogram out."""

    prepared: PreparedHistogram
    kept: Held | None = None
    compare: bool = False  # other methods in the owner's report

    def manifest(self) -> Manifest:
        return histogram_manifest(self.prepared)

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        setting = self.prepared.setting
        self.kept = self.trips(noise.run_key(), setting.per_unit, setting.cap)
        return self.noisy(folder, self.kept.door(), noise)

    def noisy(self, folder: Path, door: UserTrips, noise: Noise) -> Manifest:
        """Add noise, write."""
        prepared = self.prepared
        self.tell.stage("draw noise")
        noisy = prepared.mechanism(door, noise)
        self.tell.stage("write the release")
        write_histogram(folder, noisy, prepared.grid)
        return histogram_manifest(prepared, noisy, reproducible=not noise.publishable)

    def public(self, folder: Path, manifest: Manifest) -> None:
        prepared = self.prepared
        write_public(folder, prepared.zones)
        text = recipient_readme(manifest, files(prepared), how_to_read(prepared))
        (folder / "README.md").write_text(text, "utf-8")

    def try_without_data(self, folder: Path) -> None:
        bound = self.bound(bytes(16), self.prepared.setting.per_unit, self.prepared.setting.cap)
        self.noisy(folder, bound.door(bound.join([])), SeededNoise(0))

    def trips(self, run_key: bytes, per_unit: int, cap: int | None) -> Held:
        """Paths of the source's trips, at most `per_unit` of a unit."""
        return self.hold(self.bound(run_key, per_unit, cap), "trace trips")

    def bound(self, run_key: bytes, per_unit: int, cap: int | None) -> TripBound:
        prepared, plan = self.prepared, self.prepared.plan
        return TripBound(
            grid=prepared.grid,
            per_unit=per_unit,
            cap=cap,
            each_trip=prepared.each_trip,
            jump_m=plan.jump_m,
            run_key=run_key,
        )

    def report(self, owner: Path, made: Committed, ledger: Ledger) -> Path | None:
        """The owner's page, on all trips; reads them again, without a bound."""
        path = owner / "report.html"
        if made.reused and not self.compare and (drawn := report_of(made, path)):
            return drawn
        if made.source_changed:
            return None
        key = OsNoise().run_key()
        setting = self.prepared.setting
        kept = self.kept or self.trips(key, setting.per_unit, setting.cap)
        every = kept if self.prepared.each_trip else self.trips(key, ALL_TRIPS, None)
        outside = share(kept.watched, "outside", "points")
        seen = OwnersTrips(kept=kept.door(), every=every.door(), outside_share=outside)
        return owner_report(path, self.prepared, made, seen, ledger, compare=self.compare, progress=self.tell)
