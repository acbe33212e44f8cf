"""Synthetic site events, published: from records of sites to simulated people, and the owner's figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shoal.engine.commute import CommuteKernel, sum_commutes
from shoal.engine.engine import DuckEngine, Engine, Progress
from shoal.events.readers import SiteEvents
from shoal.kinds.commute.prepare import PreparedCommute
from shoal.kinds.describe import manifest_of, release_name
from shoal.kinds.owner import budget_of, keep_report, report_of
from shoal.kinds.run import NOBODY, Test, any_row, events_of_some, some, stage_by_stage
from shoal.kinds.synthetic.plan import MOST_UNASKED
from shoal.kinds.synthetic.report import SyntheticReportInputs, synthetic_report_html
from shoal.kinds.trips import TripBuild
from shoal.metrics.commute import SiteEvents as Events
from shoal.metrics.commute import commute_figures
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, SeededNoise
from shoal.release.folder import Committed
from shoal.release.manifest import Manifest
from shoal.space.checks import LONLAT, transform_xy
from shoal.space.places import Sites
from shoal.space.setting import CommuteSetting
from shoal.stages.commutes import ExactCommutes, SyntheticEvents


def exact_commutes(
    events: Iterable[pa.RecordBatch],
    setting: CommuteSetting,
    run_key: bytes,
    engine: Engine | None = None,
    *,
    norm: int = 1,
    progress: Progress | None = None,
) -> ExactCommutes:
    """The stage a `SyntheticCommute` takes, of placed events (user, time_us, site); `norm` as its own."""
    kernel = CommuteKernel(setting=setting, norm=norm, run_key=run_key)
    return sum_commutes(engine or DuckEngine(), events, kernel, progress)


def real_events(batches: Iterable[pa.RecordBatch]) -> Events:
    """All placed events in memory, users as numbers: for the owner's figures only."""
    parts = list(batches)
    if not parts:
        nothing = np.empty(0, np.int64)
        return Events(user=nothing, time_us=nothing, site=nothing)
    table = pa.Table.from_batches(parts).combine_chunks()
    user = table["user"].combine_chunks().dictionary_encode()
    return Events(
        user=user.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        time_us=table["time_us"].to_numpy(),
        site=table["site"].to_numpy(),
    )


def commute_utility(real: Events, synthetic: SyntheticEvents, setting: CommuteSetting) -> dict[str, float]:
    """Errors of the synthetic events; both sides go through the same functions. For the owner's eyes."""
    drawn = Events(user=synthetic.person, time_us=synthetic.time_us, site=synthetic.site)
    return commute_figures(real, drawn, setting)


NAMES = {"read": "read events", "count": "count commutes"}
REHEARSED = 1_000  # people drawn before the reserve


class CommuteBuild(TripBuild):
    """Raw records of sites in, files of synthetic events out."""

    prepared: PreparedCommute
    nobody = NOBODY

    @property
    def sites(self) -> Sequence[str]:
        return self.prepared.sites.ids

    def any_event(self, test: Test = some) -> bool:
        events = self.events()
        return any_row(events.source, test, sites=events.sites, window_us=events.window_us)

    @property
    def locate(self) -> None:
        """Records name sites."""

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
            progress=stage_by_stage(self.tell, NAMES, self.rows),
        )
        self.tell.stage("draw noise")
        model = prepared.mechanism(exact, noise)
        self.tell.stage("draw people")
        people = count or int(min(max(round(model.users), 1), MOST_UNASKED))
        seed = int(np.frombuffer(noise.run_key(), np.uint64)[0])  # not for privacy: the model is paid for
        drawn = model.generate(people, seed)
        self.tell.stage("write the release")
        write_events(folder, drawn, prepared.sites)
        known = {"users_with_noise": round(model.users, 3), "synthetic_people": people}
        return manifest_of(prepared, reproducible=not noise.publishable, **known)

    def try_without_data(self, folder: Path) -> None:
        self.noisy(folder, (), SeededNoise(0), REHEARSED)

    @property
    def times_rehearsed(self) -> float:
        return (self.prepared.plan.count or REHEARSED) / REHEARSED

    def report(self, owner: Path, committed: Committed, ledger: Ledger) -> Path | None:
        """The owner's page: real records against the published ones."""
        path = owner / "report.html"
        if committed.reused and ((drawn := report_of(committed, path)) or committed.source_changed):
            return drawn
        self.tell.stage("compare with real")
        events = self.events()
        real = real_events(events_of_some(events.source, sites=events.sites, window_us=events.window_us))
        figures = commute_utility(
            real, published_events(committed.path, self.prepared), self.prepared.setting
        )
        manifest = json.loads((committed.path / "manifest.json").read_text("utf-8"))
        inputs = SyntheticReportInputs(
            title=f"Synthetic site events: {self.prepared.plan.population}, {release_name(committed)}",
            manifest=manifest,
            counts={"Synthetic people": manifest["input"]["synthetic_people"]},
            figures=figures,
            budget=budget_of(ledger, self.prepared),
        )
        page = synthetic_report_html(inputs)
        return keep_report(
            path, self.prepared, committed, ledger, page=page, figures=figures, shows="real figures"
        )


def events_table(events: SyntheticEvents, sites: Sites) -> pa.Table:
    """Rows by person and time, in the columns of site events."""
    x, y = np.asarray(sites.x, float), np.asarray(sites.y, float)
    if sites.crs is not None:
        x, y = transform_xy(x, y, sites.crs, LONLAT)
    digits = max(7, len(str(max(events.people, 1))))
    names = pa.array([f"s{number + 1:0{digits}d}" for number in range(events.people)], pa.string())
    person = pa.array(events.person.astype(np.int32), pa.int32())
    return pa.table(
        {
            "user": pa.DictionaryArray.from_arrays(person, names),
            "time": pa.array(events.time_us, pa.timestamp("us", "UTC")),
            "site": pa.DictionaryArray.from_arrays(pa.array(events.site), pa.array(sites.ids, pa.string())),
            "lon": x[events.site],
            "lat": y[events.site],
        }
    )


def write_events(folder: Path, events: SyntheticEvents, sites: Sites) -> None:
    """events.parquet and events.csv into `folder`."""
    table = events_table(events, sites)
    for at, name in ((0, "user"), (2, "site")):
        table = table.set_column(at, name, table[name].cast(pa.string()))
    pq.write_table(table, folder / "events.parquet", compression="zstd")
    pyarrow.csv.write_csv(table, folder / "events.csv")


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
