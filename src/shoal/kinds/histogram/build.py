"""Distinct trips in any rectangle, published: how raw points become the files of a histogram.

trace        raw -> trips, cut at the map's edge, bounded per user   paths of cells
noise        sums over trips -> noisy histogram                      mechanism, through a query interface
report       raw against released, for the owner's folder only
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from shoal.engine.engine import Held
from shoal.engine.trip_pieces import TripBound, share
from shoal.kinds.describe import manifest_of, release_name
from shoal.kinds.histogram.compare import (
    ComparedHistogram,
    compare_histograms,
    exact_answers,
    published_methods,
    utility_of,
)
from shoal.kinds.histogram.prepare import PreparedHistogram
from shoal.kinds.histogram.report import HistogramReportInputs, histogram_report_html
from shoal.kinds.owner import budget_of, keep_report, report_of
from shoal.kinds.trips import ALL_TRIPS, TripBuild
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.folder import Committed
from shoal.release.histogram_files import DECIMALS, read_histogram, write_histogram, write_public
from shoal.release.manifest import Manifest
from shoal.stages.trips import UserTrips


class HistogramBuild(TripBuild):
    """Raw points in, files of a histogram out."""

    prepared: PreparedHistogram
    bounded: Held | None = None

    def __init__(self, *given: Any, compare: bool = False) -> None:
        super().__init__(*given)
        if compare:
            published_methods()  # said before anything is spent where they are not installed
        self.compare = compare  # run the other methods on the same trips for the owner's report

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        setting = self.prepared.setting
        self.bounded = self.trips(noise.run_key(), setting.per_unit, setting.cap)
        return self.noisy(folder, self.bounded.queries(), noise)

    def noisy(self, folder: Path, queries: UserTrips, noise: Noise) -> Manifest:
        """Add noise, write."""
        prepared = self.prepared
        self.tell.stage("draw noise")
        noisy = prepared.mechanism(queries, noise)
        self.tell.stage("write the release")
        write_histogram(folder, noisy, prepared.grid)
        known = {self._name: round(noisy.trips * noisy.scale, DECIMALS)}
        return manifest_of(prepared, reproducible=not noise.publishable, **known)

    @property
    def _name(self) -> str:
        """Key of the number of trips in the manifest."""
        setting = self.prepared.setting
        scaled = setting.cap is not None and setting.cap > setting.per_unit
        return "trips_with_noise" if setting.trips is None or scaled else "trips_declared"

    def public(self, folder: Path, manifest: Manifest) -> None:
        write_public(folder, self.prepared.zones)
        super().public(folder, manifest)

    def try_without_data(self, folder: Path) -> None:
        bound = self.bound(bytes(16), self.prepared.setting.per_unit, self.prepared.setting.cap)
        self.noisy(folder, bound.queries(bound.join([])), SeededNoise(0))

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

    def report(self, owner: Path, committed: Committed, ledger: Ledger) -> Path | None:
        """The owner's page, on all trips; reads them again, without a bound."""
        path = owner / "report.html"
        if committed.reused and not self.compare and (drawn := report_of(committed, path)):
            return drawn
        if committed.source_changed:
            return None
        key = OsNoise().run_key()
        setting = self.prepared.setting
        bounded = self.bounded or self.trips(key, setting.per_unit, setting.cap)
        every = bounded if self.prepared.each_trip else self.trips(key, ALL_TRIPS, None)
        self.tell.stage("exact counts")
        queries, plan = bounded.queries(), self.prepared.plan
        published = read_histogram(committed.path)
        exact = exact_answers(queries, every.queries(), setting.given, plan.given_seed)
        utility = utility_of(exact, published.euler, published.about.get("violated_before"))
        compared: list[ComparedHistogram] = []
        if self.compare:
            compared = compare_histograms(self.prepared, queries, exact, ledger, str(path), self.tell)
        self.tell.stage("draw the report")
        inputs = HistogramReportInputs(
            title=f"Histogram of trips: {plan.population}, {release_name(committed)}",
            published=published,
            exact_faces=exact.euler.faces,
            utility=utility,
            compared=compared,
            method=plan.method,
            budget=budget_of(ledger, self.prepared),
            outside_share=share(bounded.watched, "outside", "points"),
        )
        figures = {
            **utility.figures(),
            "points_outside_share": inputs.outside_share,
            "compared": [asdict(each) for each in compared],
        }
        page = histogram_report_html(inputs)
        return keep_report(path, self.prepared, committed, ledger, page=page, figures=figures)
