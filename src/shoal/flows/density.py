"""People per zone and slot, published: the whole way from raw events to a release folder.

prepare      plan -> sources, zones, clock, mechanism, price         public things only, no row is read
check        are the rows well-formed?                               the owner's own look, shown to no one
reserve      the ledger takes the price                              before any count is made
count        raw -> bounded -> the stage the method takes            engine, public geometry
noise        exact -> noisy                                          mechanism
finish       noisy -> released people with intervals                 post-processing
commit       folder sealed, spend committed, folder moved into place
report       raw against released, for the owner's folder only
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from shoal.engine.duck import DuckEngine
from shoal.engine.protocol import Engine
from shoal.errors import PlanError
from shoal.events.placed import PlacedEvents
from shoal.flows.counting import Counting
from shoal.flows.density_manifest import density_manifest, how_to_read
from shoal.flows.opened import any_row
from shoal.flows.owner_folder import drawing_report, open_owner_folder
from shoal.flows.owner_report import report_of, write_owner_report
from shoal.flows.prepare import PreparedDensity
from shoal.flows.progress import Progress, Silent
from shoal.flows.row_checks import checked_rows
from shoal.flows.stage import stage_for
from shoal.postprocess.rounding import round_density
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.density_files import FILES, write_density
from shoal.release.folder import Committed, ReleaseRequest, preflight, release, write_for_owner
from shoal.release.manifest import Manifest
from shoal.release.readme import recipient_readme
from shoal.release.verify import sha256_file
from shoal.space.geography import Geography

NOBODY = "No event lies in the window and the zones, so the release would be noise alone."


@dataclass(frozen=True, kw_only=True)
class DensityResult:
    """Where the release lies and the owner's report; `rows` and `bad_rows` are for the owner's eyes."""

    release: Path
    report: Path
    reused: bool
    publishable: bool
    rows: int | None  # None: stored before, so not read again
    bad_rows: int | None


def run_density(
    prepared: PreparedDensity,
    ledger: Ledger,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    confirm: Callable[[str], bool] | None = None,
) -> DensityResult:
    """Check, reserve, count, add noise, write, commit, report.

    `confirm` is asked before anything is spent where no event at all would be counted; by default the run
    goes on, since nobody and somebody must look alike to a recipient.
    """
    plan, tell = prepared.plan, progress or Silent()
    owner = open_owner_folder(Path(plan.owner))
    making = DensityBuild(prepared, engine or DuckEngine(), tell, confirm)
    ledger.state().population(plan.population)  # a name that does not exist is said before any work
    made = _release(making, ledger) if plan.seed is None else _experiment(making, ledger, owner)
    with drawing_report(made.path):
        report = making.report(owner, made, ledger)
    return DensityResult(
        release=made.path,
        report=report,
        reused=made.reused,
        publishable=plan.seed is None,
        rows=making.rows,
        bad_rows=making.bad_rows,
    )


class DensityBuild:
    """The part between reserve and commit: raw events in, files of the release out."""

    def __init__(
        self,
        prepared: PreparedDensity,
        engine: Engine,
        progress: Progress,
        confirm: Callable[[str], bool] | None = None,
    ) -> None:
        self.prepared = prepared
        self.engine = engine
        self.tell = progress
        self.confirm = confirm
        self.rows: int | None = None
        self.bad_rows: int | None = None
        self.counting: Counting | None = None  # for the owner's report

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

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        prepared, method, setting = self.prepared, self.prepared.method, self.prepared.setting
        counting = self.counts_under(noise.run_key())
        exact = stage_for(prepared.mechanism, counting, setting, prepared.options)
        self.tell.stage("draw noise")
        noisy = prepared.mechanism(exact, noise)
        self.tell.stage("write the release")
        estimate = round_density(method.finish(noisy, setting, prepared.options), prepared.options.decimals)
        write_density(folder, estimate, prepared.geography.zones, prepared.clock)
        manifest = density_manifest(prepared, reproducible=not noise.publishable)
        text = recipient_readme(manifest, FILES, how_to_read(prepared))
        (folder / "README.md").write_text(text, "utf-8")
        return manifest

    def report(self, owner: Path, made: Committed, ledger: Ledger) -> Path:
        """The owner's page; counts again without a cap where the release was stored before."""
        path = owner / "report.html"
        if made.reused and (drawn := report_of(made, path)):
            return drawn
        counting = self.counting or self.counts_under(OsNoise().run_key())
        exact = counting.people()
        self.tell.stage("draw the report")
        return write_owner_report(path, self.prepared, made, exact, ledger)

    def counts_under(self, run_key: bytes) -> Counting:
        self.counting = Counting(
            self.engine,
            self._events,
            self.prepared.setting,
            run_key=run_key,
            progress=self.tell,
            rows=self.rows,
        )
        return self.counting


def _somewhere(geography: Geography, batch: pa.RecordBatch) -> bool:
    return any(bool((placed["site"].to_numpy() >= 0).any()) for placed in geography.place([batch]))


def _release(making: DensityBuild, ledger: Ledger) -> Committed:
    prepared, plan = making.prepared, making.prepared.plan
    request = ReleaseRequest(
        population=plan.population,
        loss=prepared.mechanism.loss(),
        key=prepared.key(),
        out=Path(plan.out),
        what=prepared.what(),
    )
    preflight(ledger, request, density_manifest(prepared, reproducible=False))
    if ledger.find(plan.population, request.key) is None:
        making.check()
    noise = OsNoise()
    return release(ledger, request, lambda folder: making(folder, noise))


def _experiment(making: DensityBuild, ledger: Ledger, owner: Path) -> Committed:
    """A seeded run: to the owner's folder, without a spend, marked in manifest and ledger."""
    plan, what = making.prepared.plan, making.prepared.what()
    noise = SeededNoise(plan.seed or 0)
    making.check()
    out = owner / f"seeded-{plan.seed}"
    ledger.disclose(plan.population, f"seeded, not for publication: {what}", str(out))  # before it is seen
    tuned = ledger.is_tuned(plan.population)
    path = write_for_owner(out, lambda folder: replace(making(folder, noise), tuned_on_private_data=tuned))
    return Committed(path=path, manifest_sha256=sha256_file(path / "manifest.json"), reused=False)
