"""Synthetic site events, published: the part between reserve and commit, and the owner's figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.events.placed import SiteEvents
from shoal.kinds.commute.files import FILES, commute_utility, exact_commutes, real_events, write_events
from shoal.kinds.commute.prepare import HOW_TO_READ, PreparedCommute
from shoal.kinds.owner import report_of
from shoal.kinds.source import any_row, events_of_some
from shoal.kinds.synthetic.owner_report import events_report
from shoal.kinds.synthetic.plan import MOST_UNASKED
from shoal.kinds.trip_release import TripBuild
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, SeededNoise
from shoal.release.folder import Committed
from shoal.release.manifest import Manifest
from shoal.release.readme import recipient_readme
from shoal.stages.commutes import SyntheticEvents

NAMES = {"read": "read events", "count": "count commutes"}
REHEARSED = 1_000  # people drawn before the reserve


class CommuteBuild(TripBuild):
    """Raw records of sites in, files of synthetic events out."""

    prepared: PreparedCommute

    @property
    def sites(self) -> Sequence[str]:
        return self.prepared.sites.ids

    def manifest(self) -> Manifest:
        return self.prepared.manifest()

    def _anybody(self) -> bool:
        events = self.events()
        return any_row(events.source, _some, sites=events.sites, window_us=events.window_us)

    def events(self) -> SiteEvents:
        prepared = self.prepared
        return SiteEvents(source=prepared.source, sites=prepared.sites.ids, window_us=prepared.window_us)

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        return self.noisy(folder, self.events(), noise, self.prepared.plan.count)

    def noisy(
        self, folder: Path, events: Iterable[pa.RecordBatch], noise: Noise, count: int | None
    ) -> Manifest:
        """Count, add noise, draw people, write."""
        prepared = self.prepared
        exact = exact_commutes(
            events,
            prepared.setting,
            noise.run_key(),
            self.engine,
            norm=prepared.mechanism.norm,
            progress=self._progress(),
        )
        self.tell.stage("draw noise")
        model = prepared.mechanism(exact, noise)
        self.tell.stage("draw people")
        people = count or int(min(max(round(model.users), 1), MOST_UNASKED))
        seed = int(np.frombuffer(noise.run_key(), np.uint64)[0])  # not for privacy: the model is paid for
        drawn = model.generate(people, seed)
        self.tell.stage("write the release")
        write_events(folder, drawn, prepared.sites)
        return prepared.manifest(model.users, people, reproducible=not noise.publishable)

    def public(self, folder: Path, manifest: Manifest) -> None:
        (folder / "README.md").write_text(recipient_readme(manifest, FILES, HOW_TO_READ), "utf-8")

    def try_without_data(self, folder: Path) -> None:
        self.noisy(folder, (), SeededNoise(0), REHEARSED)

    @property
    def times_rehearsed(self) -> float:
        return (self.prepared.plan.count or REHEARSED) / REHEARSED

    def _progress(self) -> Callable[[str, int], None]:
        now = ""

        def advance(what: str, rows: int) -> None:
            nonlocal now
            if what != now:
                self.tell.stage(NAMES.get(what, what), self.rows)
                now = what
            self.tell.advance(rows)

        return advance

    def report(self, owner: Path, made: Committed, ledger: Ledger) -> Path | None:
        """The owner's page: real records against the published ones."""
        path = owner / "report.html"
        if made.reused and ((drawn := report_of(made, path)) or made.source_changed):
            return drawn
        self.tell.stage("compare with real")
        events = self.events()
        real = real_events(events_of_some(events.source, sites=events.sites, window_us=events.window_us))
        figures = commute_utility(real, published_events(made.path, self.prepared), self.prepared.setting)
        return events_report(path, self.prepared, made, figures, ledger)


def _some(batch: pa.RecordBatch) -> bool:
    return batch.num_rows > 0


def published_events(folder: Path, prepared: PreparedCommute) -> SyntheticEvents:
    """Events of a release, as they were drawn."""
    table = pq.read_table(folder / "events.parquet", columns=["user", "time", "site"])
    person = table["user"].combine_chunks().dictionary_encode()
    number = {site: at for at, site in enumerate(prepared.sites.ids)}
    site = table["site"].combine_chunks().dictionary_encode()
    index = np.array([number[name] for name in site.dictionary.to_pylist()], np.int32)
    return SyntheticEvents(
        people=len(person.dictionary),
        person=person.indices.to_numpy().astype(np.int64),
        time_us=table["time"].cast(pa.int64()).to_numpy(),
        site=index[site.indices.to_numpy()] if len(index) else np.empty(0, np.int32),
    )
