"""People per zone and slot, published: the whole way from raw events to a release folder.

prepare      plan -> sources, zones, clock, mechanism, price         public things only, no row is read
check        are the rows well-formed?                               the owner's own look, shown to no one
reserve      the ledger takes the price                              before any count is made
count        raw -> bounded -> exact zone counts                     engine, area weights
noise        exact -> noisy                                          mechanism
finish       noisy -> released people with intervals                 post-processing
commit       folder sealed, spend committed, folder moved into place
report       raw against released, for the owner's folder only
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shoal.engine.density import bound_visits, exact_counts, exact_people
from shoal.engine.duck import DuckEngine
from shoal.engine.protocol import Engine
from shoal.engine.visits import VisitKernel
from shoal.events.checks import check_rows
from shoal.events.placed import PlacedEvents
from shoal.events.schema import EventSource
from shoal.events.source import open_source
from shoal.flows.density_manifest import density_manifest, how_to_read
from shoal.flows.owner_report import report_is_of, write_owner_report
from shoal.flows.plan import DensityPlan
from shoal.flows.progress import Progress, Silent
from shoal.mechanisms.density_gaussian import DensityGaussian
from shoal.mechanisms.density_laplace import DensityLaplace
from shoal.postprocess.density import estimate_density
from shoal.privacy.budget import Budget
from shoal.privacy.guarantee import Guarantee
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.privacy.unit import Unit
from shoal.release.density_files import FILES, write_density
from shoal.release.folder import Committed, ReleaseRequest, release, write_for_owner
from shoal.release.manifest import Manifest
from shoal.release.readme import recipient_readme
from shoal.release.staging import unwritable
from shoal.space.clock import Clock
from shoal.space.geography import Geography, open_geography
from shoal.stages.bounded import ExactDensity

VISITS_CAP = 250  # visits per user that enter the number of visits; plain densities do not release it


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDensity:
    """A plan with its public things opened. Nothing here depends on a row of the events."""

    plan: DensityPlan
    source: EventSource
    geography: Geography = field(repr=False)
    clock: Clock
    mechanism: DensityGaussian | DensityLaplace
    guarantee: Guarantee

    def key(self) -> str:
        """Names the run: the same plan on the same files is the same release."""
        settings = {k: v for k, v in asdict(self.plan).items() if k not in ("out", "owner")}
        files = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in self.source.paths]
        zones, sites = self.geography.zones.digest(), self.geography.sites
        named = ["density", settings, files, zones, sites and sites.digest()]
        return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class DensityResult:
    """Where the release lies, and the owner's report."""

    release: Path
    report: Path | None
    reused: bool
    publishable: bool


def prepare_density(plan: DensityPlan) -> PreparedDensity:
    """Open everything public and set the noise; reads headers of the events, no rows."""
    clock = Clock(**asdict(plan.window))
    source = open_source(**vars(plan.source))
    geography = open_geography(plan.space, has_sites=source.shape.has_sites, planar=source.planar)
    budget = Budget.of(plan.epsilon, plan.delta)
    counts, _ = budget.take("counts", 1)
    weights, common = (
        geography.weights,
        {"ell": plan.ell, "slots": clock.slots, "lattice": geography.weights.lattice},
    )
    mechanism: DensityGaussian | DensityLaplace
    if plan.method == "gaussian":
        squared = weights.column_l2_squared
        mechanism = DensityGaussian.within(counts.rho_nano, column_l2_squared=squared, **common)
    else:
        mechanism = DensityLaplace.within(counts.epsilon_nano, column_l1=weights.column_l1, **common)
    # What is promised is what was asked for; the noise is set so that the loss stays within it.
    guarantee = Guarantee(
        epsilon=plan.epsilon,
        delta=plan.delta or 0.0,
        loss=mechanism.loss(),
        unit=Unit(plan.unit, source.columns["user"]),
    )
    return PreparedDensity(
        plan=plan, source=source, geography=geography, clock=clock, mechanism=mechanism, guarantee=guarantee
    )


def run_density(
    prepared: PreparedDensity,
    ledger: Ledger,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> DensityResult:
    """Check, reserve, count, add noise, write, commit, report."""
    plan, tell = prepared.plan, progress or Silent()
    owner = _owner_folder(Path(plan.owner))
    making = DensityBuild(prepared, engine or DuckEngine(), tell)
    ledger.state().population(plan.population)  # a name that does not exist is said before any work
    made = _release(making, ledger) if plan.seed is None else _experiment(making, ledger, owner)
    report = making.report(owner, made, ledger)
    return DensityResult(release=made.path, report=report, reused=made.reused, publishable=plan.seed is None)


class DensityBuild:
    """The part between reserve and commit: raw events in, files of the release out."""

    def __init__(self, prepared: PreparedDensity, engine: Engine, progress: Progress) -> None:
        self.prepared = prepared
        self.engine = engine
        self.tell = progress
        self.rows: int | None = None
        self.exact: ExactDensity | None = None  # for the owner's report

    def check(self) -> None:
        """Stop on bad rows before anything is spent."""
        source, sites = self.prepared.source, self.prepared.geography.site_ids
        self.tell.stage("check rows", 1.0)
        done = 0.0

        def advance(share: float) -> None:
            nonlocal done
            self.tell.advance(share - done)
            done = share

        report = check_rows(source, sites=sites, progress=advance)
        if source.on_bad_row == "stop":
            report.raise_if_bad()
        report.raise_if_unusable()
        self.rows = report.rows

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        prepared, plan = self.prepared, self.prepared.plan
        bounded, self.exact = self._count(noise.run_key(), plan.ell)
        exact = exact_counts(bounded, prepared.geography.weights)
        self.tell.stage("draw noise")
        noisy = prepared.mechanism(exact, noise)
        self.tell.stage("write the release")
        estimate = estimate_density(noisy, plan.decimals)
        write_density(folder, estimate, prepared.geography.zones, prepared.clock)
        manifest = density_manifest(prepared, reproducible=not noise.publishable)
        text = recipient_readme(manifest, FILES, how_to_read(prepared))
        (folder / "README.md").write_text(text, "utf-8")
        return manifest

    def report(self, owner: Path, made: Committed, ledger: Ledger) -> Path:
        """The owner's page; counts again without a cap where the release was stored before."""
        path = owner / "report.html"
        if made.reused and report_is_of(made, path):
            return path
        if self.exact is None:
            key = OsNoise().run_key()
            _, self.exact = self._count(key, self.prepared.plan.ell)
        self.tell.stage("draw the report")
        exact = exact_people(self.exact, self.prepared.geography.weights)
        return write_owner_report(path, self.prepared, made, exact, ledger)

    def _count(self, run_key: bytes, ell: int):
        geography, clock = self.prepared.geography, self.prepared.clock
        kernel = VisitKernel(
            edges_us=clock.edges_us, sites=geography.places, ell=ell, cap=VISITS_CAP, run_key=run_key
        )
        stages = {"read": "read events", "count": "count visits"}
        current = ""

        def advance(what: str, rows: int) -> None:
            nonlocal current
            if what != current:
                current = what
                self.tell.stage(stages[what], self.rows)
            self.tell.advance(rows)

        window = (int(clock.edges_us[0]), int(clock.edges_us[-1]))
        events = PlacedEvents(source=self.prepared.source, geography=geography, window_us=window)
        return bound_visits(self.engine, events, kernel, advance)


def _release(making: DensityBuild, ledger: Ledger) -> Committed:
    prepared, plan = making.prepared, making.prepared.plan
    request = ReleaseRequest(
        population=plan.population,
        loss=prepared.mechanism.loss(),
        key=prepared.key(),
        out=Path(plan.out),
        what=f"density, {plan.method}, {prepared.clock.start:%Y-%m-%d} to {prepared.clock.end:%Y-%m-%d}",
    )
    if ledger.find(plan.population, request.key) is None:
        making.check()
    noise = OsNoise()
    return release(ledger, request, lambda folder: making(folder, noise))


def _experiment(making: DensityBuild, ledger: Ledger, owner: Path) -> Committed:
    """A seeded run: to the owner's folder, without a spend, marked in manifest and ledger."""
    plan = making.prepared.plan
    noise = SeededNoise(plan.seed or 0)
    making.check()
    path = write_for_owner(owner / f"seeded-{plan.seed}", lambda folder: making(folder, noise))
    ledger.disclose(plan.population, "seeded density, not for publication", str(path))
    return Committed(path=path, manifest_sha256="", reused=False)


def _owner_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(path, error) from error
    return path
