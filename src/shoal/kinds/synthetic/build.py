"""Synthetic trips, published: how raw points become the files of synthetic trips.

encode       raw -> trips, cut at the map's edge, kept per user      paths of cells and steps of time
noise        sums over trips -> a noisy model of movement            mechanism, through a query interface
draw         trips from the model, points and times                  post-processing: any number is free
report       real against synthetic, for the owner's folder only
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from shoal.attacks.models.known_trips import KnownTrips
from shoal.attacks.models.nearest_record import OwnRecords, own_records
from shoal.engine.engine import Held, encode_trips
from shoal.engine.path_trips import PathBound
from shoal.engine.trip_pieces import share
from shoal.kinds.describe import manifest_of, release_name
from shoal.kinds.owner import budget_of, keep_report, report_of
from shoal.kinds.synthetic.plan import MOST_UNASKED
from shoal.kinds.synthetic.prepare import PreparedSynthetic
from shoal.kinds.synthetic.report import SyntheticReportInputs, synthetic_report_html
from shoal.kinds.trips import TripBuild
from shoal.metrics.synthetic import synthetic_utility
from shoal.postprocess.synthetic.path_points import PathPoints, path_points
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.folder import Committed
from shoal.release.manifest import Manifest
from shoal.release.trip_files import PublishedTrips, TripsAbout, read_synthetic, write_trips
from shoal.stages.synthetic import SyntheticPaths
from shoal.stages.trips import ExactPaths, UserPaths

REHEARSED = 1_000  # trips drawn before the reserve
DECIMALS = 3  # of the noisy number of trips in the manifest
CHUNK = 50_000  # trips whose points are in memory at a time


class SyntheticBuild(TripBuild):
    """Raw points in, files of synthetic trips out."""

    prepared: PreparedSynthetic
    bounded: Held | None = None

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        self.bounded = self.paths(noise.run_key())
        return self.noisy(folder, self.bounded.queries(), noise, self.prepared.plan.count)

    def noisy(self, folder: Path, queries: UserPaths, noise: Noise, count: int | None) -> Manifest:
        """Add noise, draw trips, write."""
        prepared, plan = self.prepared, self.prepared.plan
        self.tell.stage("draw noise")
        model = prepared.mechanism(queries, noise)
        self.tell.stage("draw trips")
        count = count or int(min(max(round(model.trips), prepared.least_trips), MOST_UNASKED))
        seeds = np.frombuffer(noise.run_key(), np.uint64)  # not for privacy: the model is paid for
        drawn = model.generate(count, int(seeds[0]))
        self.tell.stage("write the release", count)
        about = TripsAbout(grid=prepared.grid, step_s=plan.step_s, trips=drawn.count)
        chunks = self._chunks(drawn, int(seeds[1]))
        write_trips(folder, chunks, about, prepared.columns, plan.formats)
        name = "trips_with_noise" if plan.trips is None else "trips_declared"
        known = {name: round(model.trips, DECIMALS), "synthetic_trips": drawn.count}
        return manifest_of(prepared, reproducible=not noise.publishable, **known)

    def try_without_data(self, folder: Path) -> None:
        bound = self.bound(bytes(16))
        self.noisy(folder, bound.queries(bound.join([])), SeededNoise(0), REHEARSED)

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

    def report(self, owner: Path, committed: Committed, ledger: Ledger) -> Path | None:
        """The owner's page: real trips, encoded again if not in memory, against the published ones."""
        path = owner / "report.html"
        if committed.reused and ((drawn := report_of(committed, path)) or committed.source_changed):
            return drawn
        bounded = self.bounded or self.paths(OsNoise().run_key())
        real, of_all = bounded.gather()
        published = read_synthetic(committed.path)
        outside, slow = share(bounded.watched, "outside", "points"), share(bounded.watched, "slow", "steps")
        synthetic = encoded(published)
        self.tell.stage("compare with real")
        figures = asdict(synthetic_utility(real, synthetic))
        self.tell.stage("nearest trips")
        near = own_records(synthetic, KnownTrips.of(real, real.unit))
        more = {
            "real_trips": real.count,
            "share_of_real_units_looked_at": of_all,
            "synthetic_trips": synthetic.count,
            "points_outside_share": outside,
            "steps_longer_than_step_s_share": slow,
            "nearest": nearest_figures(near),
        }
        self.tell.stage("draw the report")
        inputs = SyntheticReportInputs(
            title=f"Synthetic trips: {self.prepared.plan.population}, {release_name(committed)}",
            manifest=published.manifest,
            counts={"Synthetic trips": synthetic.count, "Real trips": real.count},
            synthetic=synthetic,
            real=real,
            figures=figures,
            nearest=near,
            budget=budget_of(ledger, self.prepared),
            outside_share=outside,
            slow_share=slow,
        )
        page, figures = synthetic_report_html(inputs), {**more, **figures}
        return keep_report(
            path, self.prepared, committed, ledger, page=page, figures=figures, shows="real figures"
        )


def nearest_figures(near: OwnRecords) -> dict[str, float | int]:
    """Synthetic trips to real ones, and real ones to those of others, for utility.json."""
    return {
        "trips_asked": near.synthetic.distance_m.size,
        **{
            f"{name}_{side}": getattr(getattr(near, side), name)
            for name in ("copies", "median_m", "ratio")
            for side in ("synthetic", "real")
        },
    }


def encoded(published: PublishedTrips) -> ExactPaths:
    """The paths of published trips, as real ones are encoded."""
    about = published.about
    bound = PathBound(grid=about.grid, each_trip=True, step_s=about.step_s, run_key=bytes(16))
    return encode_trips(published.batches(), bound)
