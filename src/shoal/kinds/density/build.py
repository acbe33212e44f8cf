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

import pyarrow as pa

from shoal.errors import PlanError
from shoal.events.readers import PlacedEvents
from shoal.kinds.density.counting import Counting, stage_for
from shoal.kinds.density.owner_report import write_owner_report
from shoal.kinds.density.prepare import PreparedDensity
from shoal.kinds.describe import manifest_of
from shoal.kinds.owner import report_of
from shoal.kinds.run import Build
from shoal.kinds.source import any_row, checked_rows
from shoal.postprocess.density.numbers import round_density
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.density_files import write_density, write_public
from shoal.release.folder import Committed
from shoal.release.manifest import Manifest
from shoal.space.geography import Geography

NOBODY = "No event lies in the window and the zones, so the release would be noise alone."


class DensityBuild(Build):
    """Raw events in, files of a density out."""

    prepared: PreparedDensity
    counting: Counting | None = None  # for the owner's report

    def check(self) -> None:
        """Stop on bad rows before anything is spent."""
        prepared = self.prepared
        report = checked_rows(prepared.source, self.tell, sites=prepared.geography.site_ids)
        self.rows, self.bad_rows = report.rows, report.bad
        if self.confirm and not self._anybody() and not self.confirm(NOBODY):
            raise PlanError(
                "nobody-counted",
                "no event lies in the window and the zones; nothing was spent.",
                "Check --start, --end, --time-zone, the zones and the order of coordinates.",
            )

    def _anybody(self) -> bool:
        """Whether any event would be counted; stops reading at the first one."""
        events = self._events()
        test = partial(_somewhere, events.geography)
        return any_row(events.source, test, sites=events.sites, window_us=events.window_us)

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
        self.noisy(folder, self.counts_under(noise.run_key()), noise)
        return manifest_of(self.prepared, reproducible=not noise.publishable)

    def noisy(self, folder: Path, counting: Counting, noise: Noise) -> None:
        """Count, add noise, write."""
        prepared, method, setting = self.prepared, self.prepared.method, self.prepared.setting
        exact = stage_for(prepared.mechanism, counting, setting, prepared.options)
        self.tell.stage("draw noise")
        noisy = prepared.mechanism(exact, noise)
        self.tell.stage("write the release")
        estimate = round_density(method.finish(noisy, setting, prepared.options), prepared.options.decimals)
        write_density(folder, estimate, prepared.geography.zones, prepared.clock)

    def report(self, owner: Path, made: Committed, ledger: Ledger) -> Path | None:
        """The owner's page; counts again without a cap where the release was stored before."""
        path = owner / "report.html"
        if made.reused and ((drawn := report_of(made, path)) or made.source_changed):
            return drawn
        counting = self.counting or self.counts_under(OsNoise().run_key())
        exact = counting.people()
        self.tell.stage("draw the report")
        return write_owner_report(path, self.prepared, made, exact, ledger)

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


def _somewhere(geography: Geography, batch: pa.RecordBatch) -> bool:
    return any(bool((placed["site"].to_numpy() >= 0).any()) for placed in geography.place([batch]))
