"""A headcount, built: from raw events to the file of the release, between reserve and commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engine.engine import Sums
from shoal.events.readers import SiteEvents
from shoal.kinds.describe import manifest_of
from shoal.kinds.headcount.prepare import PreparedHeadcount
from shoal.kinds.run import Build, Test, any_row, some
from shoal.kinds.run import checked_rows
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, SeededNoise
from shoal.release.manifest import Manifest
from shoal.release.folder import Committed


@dataclass(frozen=True)
class CountUsers:
    """A kernel: one for each user of a batch."""

    run_key: bytes = field(repr=False)

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        return {"users": np.array([pc.count_distinct(batch["user"]).as_py()])}

    def zero(self) -> Sums:
        return {"users": np.zeros(1, np.int64)}


class HeadcountBuild(Build):
    """Raw events in, one number out."""

    prepared: PreparedHeadcount

    def check_rows(self) -> None:
        report = checked_rows(self.prepared.source, self.tell, sites=self.prepared.sites.ids)
        self.rows, self.bad_rows = report.rows, report.bad

    def any_event(self, test: Test = some) -> bool:
        events = self.events()
        return any_row(events.source, test, sites=events.sites, window_us=events.window_us)

    def events(self) -> SiteEvents:
        prepared, edges = self.prepared, self.prepared.clock.edges_us
        window_us = int(edges[0]), int(edges[-1])
        return SiteEvents(source=prepared.source, sites=prepared.sites.ids, window_us=window_us)

    def try_without_data(self, folder: Path) -> None:
        self.noisy(folder, (), SeededNoise(0))

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        self.noisy(folder, self.events(), noise)
        return manifest_of(self.prepared, reproducible=not noise.publishable)

    def noisy(self, folder: Path, events: Iterable[pa.RecordBatch], noise: Noise) -> None:
        """Count, add noise, write."""
        exact = self.engine.sum_users(events, CountUsers(noise.run_key()))
        users = self.prepared.mechanism(exact["users"], noise)
        (folder / "headcount.csv").write_text(f"users\n{max(int(users[0]), 0)}\n", "utf-8")

    def report(self, owner: Path, made: Committed, ledger: Ledger) -> Path | None:
        return None
