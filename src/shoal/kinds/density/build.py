"""People per zone and slot, published: how raw events become the files of a density.

count        raw -> bounded -> the stage the method takes            engine, public geometry
noise        exact -> noisy                                          mechanism
finish       noisy -> released people with intervals                 post-processing
report       raw against released, for the owner's folder only
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.baselines import part
from shoal.engine.clipped import EngineVisits
from shoal.engine.engine import Engine
from shoal.engine.visits import (
    VisitKernel,
    all_counts,
    bound_visits,
    exact_counts,
    exact_people,
    scalable_counts,
)
from shoal.errors import PlanError
from shoal.events.readers import PlacedEvents
from shoal.kinds.density.plan import MethodOptions
from shoal.kinds.density.prepare import PreparedDensity
from shoal.kinds.density.published import peaks_of, write_density, write_public
from shoal.kinds.density.report import write_owner_report
from shoal.kinds.density.totals import write_sums
from shoal.kinds.describe import manifest_of
from shoal.kinds.owner import report_of
from shoal.kinds.run import Build, Locate, Progress, Test, any_row, checked_rows, some, stage_by_stage
from shoal.postprocess.density.numbers import round_density
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.folder import Committed
from shoal.release.manifest import Manifest
from shoal.space.geography import Geography, Setting
from shoal.stages.bounded import BoundedVisits, ExactDensity
from shoal.stages.noisy import CountDoubt, Doubt


class DensityBuild(Build):
    """Raw events in, files of a density out."""

    prepared: PreparedDensity
    counting: Counting | None = None  # for the owner's report

    def check_rows(self) -> None:
        """Stop on bad rows before anything is spent."""
        prepared = self.prepared
        report = checked_rows(prepared.source, self.tell, sites=prepared.geography.site_ids)
        self.rows, self.bad_rows = report.rows, report.bad

    def any_event(self, test: Test = some) -> bool:
        events = self._events()
        return any_row(events.source, test, sites=events.sites, window_us=events.window_us)

    @property
    def locate(self) -> Locate | None:
        geography = self.prepared.geography
        return None if geography.sites is not None else partial(_in_zones, geography)

    def _events(self) -> PlacedEvents:
        edges = self.prepared.clock.edges_us
        window = (int(edges[0]), int(edges[-1]))
        return PlacedEvents(source=self.prepared.source, geography=self.prepared.geography, window_us=window)

    def public(self, folder: Path, manifest: Manifest) -> None:
        write_public(folder, self.prepared.geography.zones)
        super().public(folder, manifest)

    def try_without_data(self, folder: Path) -> None:
        self.noisy(folder, self.counts_under(bytes(16), tuple), SeededNoise(0))

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        known = self.noisy(folder, self.counts_under(noise.run_key()), noise)
        return manifest_of(self.prepared, reproducible=not noise.publishable, **known)

    def noisy(self, folder: Path, counting: Counting, noise: Noise) -> dict[str, Any]:
        """Count, add noise, write; returns what the manifest states of the noisy numbers."""
        prepared, method, setting = self.prepared, self.prepared.method, self.prepared.setting
        exact = stage_for(prepared.mechanism, counting, setting, prepared.options)
        self.tell.stage("draw noise")
        noisy = prepared.mechanism(exact, noise)
        self.tell.stage("write the release")
        estimate = round_density(method.finish(noisy, setting, prepared.options), prepared.options.decimals)
        write_density(folder, estimate, prepared.geography.zones, prepared.clock)
        if prepared.has_sums:
            write_sums(folder, estimate, prepared.geography.zones, setting, prepared.options.decimals)
        return stated(estimate.doubt) | peaks_of(estimate, prepared.geography.zones, prepared.clock)

    def report(self, owner: Path, committed: Committed, ledger: Ledger) -> Path | None:
        """The owner's page; counts again without a cap where the release was stored before."""
        path = owner / "report.html"
        if committed.reused and ((drawn := report_of(committed, path)) or committed.source_changed):
            return drawn
        counting = self.counting or self.counts_under(OsNoise().run_key())
        exact = counting.people()
        self.tell.stage("draw the report")
        return write_owner_report(path, self.prepared, committed, exact, ledger)

    def counts_under(
        self, run_key: bytes, events: Callable[[], Iterable[pa.RecordBatch]] | None = None
    ) -> Counting:
        self.counting = Counting(
            self.engine,
            events or self._events,
            self.prepared.setting,
            run_key=run_key,
            progress=self.tell,
            rows=self.rows,
        )
        return self.counting


def stated(doubt: Doubt | CountDoubt | None) -> dict[str, float]:
    """Total with 95 % limits, clips and share of a second group, where they follow from noisy numbers."""
    if not isinstance(doubt, Doubt):
        return {}
    total = {"visits_with_noise": doubt.total.visits}
    total |= {"visits_with_noise_low": doubt.total.low, "visits_with_noise_high": doubt.total.high}
    clips = {
        "_".join(("clip_of", *(["second"] * n), name, "by_noise")): clip
        for name, used in doubt.clips.items()
        for n, clip in enumerate(used)
    }
    rounded = {name: round(value, 1) for name, value in (total | clips).items()}
    return rounded | {"second_group_with_noise": round(doubt.total.second, 3)}


def _in_zones(geography: Geography, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return geography.zones.locate(x, y) >= 0


NAMES = {"read": "read events", "count": "count visits"}


class Counting:
    """Bounded sums of one set of events under one run key, kept for the next to ask."""

    def __init__(
        self,
        engine: Engine,
        events: Callable[[], Iterable[pa.RecordBatch]],
        setting: Setting,
        *,
        run_key: bytes,
        progress: Progress,
        rows: int | None = None,
    ) -> None:
        self.engine = engine
        self.events = events
        self.setting = setting
        self.run_key = run_key
        self.tell = progress
        self.rows = rows  # for the bars
        self.exact: ExactDensity | None = None  # uncapped: for the owner's eyes
        self._bounded: dict[tuple[int, int], BoundedVisits] = {}

    def bounded(self, ell: int, cap: int) -> BoundedVisits:
        """At most `ell` visits per user in the counts, at most `cap` in the number of visits."""
        if (ell, cap) not in self._bounded:
            self._bounded[ell, cap], self.exact = self._count(ell, cap)
        return self._bounded[ell, cap]

    def people(self) -> np.ndarray:
        """Raw people per zone and slot, for the owner's report and for comparisons."""
        return exact_people(self.all_visits(), self.setting.weights)

    def all_visits(self) -> ExactDensity:
        """Visits without a cap, once per user, place and slot: for the owner's eyes and for comparisons."""
        if self.exact is None:
            _, self.exact = self._count(1, 1)
        return self.exact

    def _count(self, ell: int, cap: int) -> tuple[BoundedVisits, ExactDensity]:
        kernel = VisitKernel(
            edges_us=self.setting.clock.edges_us,
            sites=self.setting.places,
            ell=ell,
            cap=cap,
            run_key=self.run_key,
        )
        return bound_visits(self.engine, self.events(), kernel, self.progress())

    def progress(self) -> Callable[[str, int], None]:
        return stage_by_stage(self.tell, NAMES, self.rows)

    def visits(self, cap: int) -> EngineVisits:
        """All visits, for a mechanism that asks for clipped sums in several passes."""
        return EngineVisits(
            engine=self.engine,
            events=self.events,
            edges_us=self.setting.clock.edges_us,
            places=self.setting.places,
            run_key=self.run_key,
            count_users=lambda: self.bounded(1, cap).users,
            progress=self.progress(),
        )


def stage_for(mechanism: Any, counting: Counting, setting: Setting, options: MethodOptions) -> Any:
    """What `mechanism` is called with: bounded by its own ell and cap where it has them."""
    if mechanism.takes in STAGES:
        return STAGES[mechanism.takes](mechanism, counting, setting, options)
    theirs = part("counting:STAGES", {})
    if mechanism.takes not in theirs:
        raise PlanError("stage", f"no stage of a density is called {mechanism.takes!r}.")
    return theirs[mechanism.takes](mechanism, counting, bounds_of(mechanism, options))


def bounds_of(mechanism: Any, options: MethodOptions) -> tuple[int, int]:
    """ell and cap the events are counted under: the mechanism's own, else as declared."""
    return getattr(mechanism, "ell", options.ell), getattr(mechanism, "cap", options.cap)


def _counts(mechanism, counting, setting, options):
    return exact_counts(counting.bounded(*bounds_of(mechanism, options)), setting.weights)


def _scalable(mechanism, counting, setting, options):
    return scalable_counts(counting.bounded(*bounds_of(mechanism, options)), setting.weights)


def _all_counts(mechanism, counting, setting, options):
    return all_counts(counting.all_visits(), setting.weights)


def _all_visits(mechanism, counting, setting, options):
    return counting.all_visits()


def _bounded(mechanism, counting, setting, options):
    return counting.bounded(*bounds_of(mechanism, options))


def _visits(mechanism, counting, setting, options):
    return counting.visits(options.cap)


STAGES = {
    "counts": _counts,
    "scalable": _scalable,
    "bounded": _bounded,
    "visits": _visits,
    # for comparators, which no release can be made of
    "all counts": _all_counts,
    "all visits": _all_visits,
}
