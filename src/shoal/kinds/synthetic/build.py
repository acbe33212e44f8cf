"""Synthetic trips, published: the whole way from raw points to a release folder.

prepare      plan -> source, grid, mechanism, price                  public things only, no row is read
check        are the rows well-formed?                               the owner's own look, shown to no one
reserve      the ledger takes the price                              before any trip is encoded
encode       raw -> trips, cut at the map's edge -> paths of visits   in memory
noise        tables over users -> noisy model                        mechanism, through a door
draw         noisy model -> trips -> points with times               post-processing: any number is free
commit       folder sealed, spend committed, folder moved into place
report       real against synthetic, for the owner's folder only
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from shoal.engine.path_trips import PathBound, encode_paths
from shoal.engine.protocol import Held, TripEngine
from shoal.engine.trip_watch import share
from shoal.kinds.commute.build import CommuteBuild
from shoal.kinds.commute.prepare import PreparedCommute
from shoal.kinds.owner import report_of
from shoal.kinds.progress import Progress
from shoal.kinds.run import RunResult, run
from shoal.kinds.synthetic.manifest import columns_of, files, how_to_read, synthetic_manifest
from shoal.kinds.synthetic.owner_report import OwnersPaths, owner_report
from shoal.kinds.synthetic.plan import MOST_UNASKED
from shoal.kinds.synthetic.prepare import PreparedSynthetic
from shoal.kinds.trip_release import TripBuild
from shoal.postprocess.synthetic.path_points import PathPoints, path_points
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.folder import Committed
from shoal.release.manifest import Manifest
from shoal.release.readme import recipient_readme
from shoal.release.trip_files import PublishedTrips, TripsAbout, read_synthetic, write_trips
from shoal.stages.synthetic import SyntheticPaths
from shoal.stages.trips import ExactPaths, UserPaths

REHEARSED = 1_000  # trips drawn before the reserve
CHUNK = 50_000  # trips whose points are in memory at a time


def run_synthetic(
    prepared: PreparedSynthetic | PreparedCommute,
    ledger: Ledger,
    *,
    engine: TripEngine | None = None,
    progress: Progress | None = None,
    confirm: Callable[[str], bool] | None = None,
) -> RunResult:
    """Check, reserve, encode, add noise, draw, write, commit, report.

    `confirm` is asked before anything is spent where no point at all would be counted; by default the run
    goes on.
    """
    kind: type[TripBuild] = CommuteBuild if isinstance(prepared, PreparedCommute) else SyntheticBuild
    return run(kind(prepared, progress, confirm, engine), ledger)


class SyntheticBuild(TripBuild):
    """Raw points in, files of synthetic trips out."""

    prepared: PreparedSynthetic
    kept: Held | None = None

    def manifest(self) -> Manifest:
        return synthetic_manifest(self.prepared)

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        self.kept = self.paths(noise.run_key())
        return self.noisy(folder, self.kept.door(), noise, self.prepared.plan.count)

    def noisy(self, folder: Path, door: UserPaths, noise: Noise, count: int | None) -> Manifest:
        """Add noise, draw trips, write."""
        prepared, plan = self.prepared, self.prepared.plan
        self.tell.stage("draw noise")
        model = prepared.mechanism(door, noise)
        self.tell.stage("draw trips")
        count = count or int(min(max(round(model.trips), prepared.least_trips), MOST_UNASKED))
        seeds = np.frombuffer(noise.run_key(), np.uint64)  # not for privacy: the model is paid for
        drawn = model.generate(count, int(seeds[0]))
        self.tell.stage("write the release", count)
        about = TripsAbout(grid=prepared.grid, step_s=plan.step_s, trips=drawn.count)
        chunks = self._chunks(drawn, int(seeds[1]))
        write_trips(folder, chunks, about, columns_of(prepared), plan.formats)
        return synthetic_manifest(prepared, model.trips, drawn.count, reproducible=not noise.publishable)

    def public(self, folder: Path, manifest: Manifest) -> None:
        text = recipient_readme(manifest, files(self.prepared), how_to_read(self.prepared))
        (folder / "README.md").write_text(text, "utf-8")

    def try_without_data(self, folder: Path) -> None:
        bound = self.bound(bytes(16))
        self.noisy(folder, bound.door(bound.join([])), SeededNoise(0), REHEARSED)

    @property
    def times_rehearsed(self) -> float:
        return (self.prepared.plan.count or self.prepared.plan.trips or REHEARSED) / REHEARSED

    def _chunks(self, drawn: SyntheticPaths, seed: int) -> Iterator[PathPoints]:
        for low in range(0, drawn.count, CHUNK):
            yield path_points(drawn, seed, low, low + CHUNK)
            self.tell.advance(min(CHUNK, drawn.count - low))

    def paths(self, run_key: bytes) -> Held:
        """Paths of the source's trips, at most `trips_per_user` of a user."""
        return self.hold(self.bound(run_key), "encode trips", self.prepared.plan.step_s)

    def bound(self, run_key: bytes) -> PathBound:
        prepared, plan = self.prepared, self.prepared.plan
        return PathBound(
            grid=prepared.grid,
            per_unit=plan.per_unit,
            cap=plan.cap,
            each_trip=prepared.each_trip,
            jump_m=plan.jump_m,
            run_key=run_key,
            step_s=plan.step_s,
        )

    def report(self, owner: Path, made: Committed, ledger: Ledger) -> Path | None:
        """The owner's page: real trips, encoded again where they are not at hand, against the published."""
        path = owner / "report.html"
        if made.reused and ((drawn := report_of(made, path)) or made.source_changed):
            return drawn
        held = self.kept or self.paths(OsNoise().run_key())
        real, of_all = held.gather()
        published = read_synthetic(made.path)
        seen = OwnersPaths(
            real=real,
            synthetic=encoded(published),
            outside_share=share(held.watched, "outside", "points"),
            slow_share=share(held.watched, "slow", "steps"),
            of_all=of_all,
        )
        return owner_report(path, self.prepared, made, seen, ledger, progress=self.tell)


def encoded(published: PublishedTrips) -> ExactPaths:
    """The paths of published trips, as real ones are encoded."""
    about = published.about
    bound = PathBound(grid=about.grid, each_trip=True, step_s=about.step_s, run_key=bytes(16))
    return encode_paths(published.batches(), bound)
