"""The one procedure of a release of any kind: check, reserve, build, commit, report.

prepare      public things only: files that hold nothing of the events, and the noisy ones tried without data
check        are the rows well-formed?                               the owner's own look, shown to no one
reserve      the ledger takes the price                              before anything is counted
build        raw -> bounded -> exact -> noisy -> files               the kind's own `__call__`
commit       folder sealed, spend committed, folder moved into place
report       raw against released, for the owner's folder only

A kind of release subclasses `Build`. A seeded run goes to the owner's folder, spends nothing and is noted. A
release without a mechanism is listed in the ledger at no cost. The owner's folder holds raw figures; it never
lies inside a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shoal.errors import GuaranteeError, PlanError, SourceError, printable
from shoal.events.schema import LEAST_ROWS, EventSource, ForeignSource, Shape
from shoal.kinds.describe import Prepared, manifest_of, pot_of
from shoal.kinds.kind import KINDS
from shoal.kinds.owner import DRAW_AGAIN, drawing_report, open_owner_folder
from shoal.kinds.verdict import Verdict
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.folder import (
    Committed,
    ReleaseRequest,
    preflight,
    release,
    stored_release,
    write_for_owner,
)
from shoal.release.manifest import MANIFEST, Manifest
from shoal.release.readme import recipient_readme
from shoal.release.staging import rehearse
from shoal.release.verify import sha256_file
from shoal.space.clock import window_of

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.events.readers import RowReport

MOST_BROUGHT = 50_000_000  # events of a cluster that the owner's figures are made of
NOBODY = (
    "no event lies in the window and the zones",
    "Check --start, --end, --time-zone, the zones and the order of coordinates; `shoal inspect` shows why.",
)


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Result of a run: folder of the release, the owner's report, and figures for the owner's eyes only."""

    release: Path
    report: Path | None  # None: not drawn, because the files changed since the release, or there is none
    verdict: Verdict  # what the release is good for, from published numbers
    reused: bool
    publishable: bool  # neither seeded nor refuted
    verified: bool | None  # of a release that is proved window by window: whether it was; None: of others
    rows: int | None  # None: stored before, so not read again
    bad_rows: int | None
    source_changed: bool = False  # the files are not those that the stored release was made from
    figures: dict[str, Any] = field(default_factory=dict, repr=False)  # as the report shows them


Test = Callable[["pa.RecordBatch"], bool]
Locate = Callable[[Any, Any], Any]


def some(batch: pa.RecordBatch) -> bool:
    return batch.num_rows > 0


class Progress(Protocol):
    def stage(self, name: str, total: float | None = None) -> None:
        """A new stage begins; `total` in whatever `advance` counts, None where it is not known."""
        ...

    def advance(self, amount: float) -> None: ...


class Silent:
    def stage(self, name: str, total: float | None = None) -> None:
        pass

    def advance(self, amount: float) -> None:
        pass


class Build:
    """Steps of one kind of release between plan and report: from raw events to the files of the release.

    A run that would count nothing stops before anything is spent, unless `allow_empty`: whether it stops
    depends on the data (docs/known-limits.md).
    """

    remedy = DRAW_AGAIN  # where the owner's report could not be drawn
    nobody = NOBODY

    def __init__(
        self,
        prepared: Any,
        progress: Progress | None = None,
        allow_empty: bool = False,
        engine: Any = None,
    ) -> None:
        self.prepared, self.tell, self.allow_empty = prepared, progress or Silent(), allow_empty
        self._engine = engine
        self.rows: int | None = None
        self.bad_rows: int | None = None
        self.figures: dict[str, Any] = {}

    @property
    def engine(self) -> Any:
        """The given engine, or the default engine of this machine."""
        if self._engine is None:
            from shoal.engine.engine import DuckEngine

            self._engine = DuckEngine()
        return self._engine

    def notes(self, ledger: Ledger) -> list[str]:
        """Notes for the owner before the run; none of them stops it."""
        return self.prepared.notes()

    def listed(self, ledger: Ledger) -> dict[str, Any]:
        """The ledger's record of a release without a loss; raises an error if earlier releases forbid it."""
        return {}

    def check(self) -> None:
        """Stop before anything is spent: on bad rows, and where nothing would be counted."""
        self.check_rows()
        if not self.allow_empty and not self.anybody():
            message, remedy = self.nobody
            raise PlanError(
                "nobody-counted",
                f"{message}{self._why_nobody()}; nothing was spent.",
                f"{remedy} --allow-empty runs it anyway.",
            )
        self._check_guessed_user()

    def check_rows(self) -> None:
        """Stop on bad rows; notes `rows` and `bad_rows`."""
        raise NotImplementedError

    def any_event(self, test: Test = some) -> bool:
        """Whether any batch of events in the window passes `test`; stops reading at the first one."""
        raise NotImplementedError

    @property
    def locate(self) -> Locate | None:
        """Tells which points x, y lie on the map; None where events have no points, or there is no map."""
        return None

    def anybody(self) -> bool:
        """Whether anything would be counted."""
        return self.any_event(some if self.locate is None else partial(_located, self.locate))

    def _why_nobody(self) -> str:
        """What points that all lie off the map suggest, for the owner."""
        if self.locate is None or not self.any_event():
            return ""
        if self.any_event(partial(_swapped, self.locate)):
            return "; longitude and latitude look swapped, since points do lie there the other way round"
        return "" if self.any_event(_not_at_zero) else "; all points are at 0,0, as if positions were missing"

    def _check_guessed_user(self) -> None:
        """A column of users that was guessed and differs in every row is probably a row number."""
        source = self.prepared.source
        column = source.columns["user"]
        if column == "user" or "user" in self.prepared.plan.source.columns or source.shape.has_trips:
            return
        per_row = 2 if source.shape is Shape.TRANSIT else 1
        if not self.any_event(partial(_repeats, per_row)) and self.any_event(_many):
            raise SourceError(
                "user-unique",
                f'the column "{printable(column)}" was taken for the user by its name, and no value of it '
                "comes twice: it looks like a row number. Nothing was spent.",
                "Pass --column user=NAME with the column of persons or vehicles, or with this one if it is.",
            )

    def manifest(self) -> Manifest | None:
        """The manifest with the fields that are known before anything is counted."""
        return manifest_of(self.prepared)

    def public(self, folder: Path, manifest: Manifest) -> None:
        """Write the files that do not depend on the events; `manifest` gives the manifest."""
        text = recipient_readme(manifest, self.prepared.files(), self.prepared.reading())
        (folder / "README.md").write_text(text, "utf-8")

    def try_without_data(self, folder: Path) -> None:
        """Write the noisy files from an empty source with the noise of a public seed."""
        raise NotImplementedError

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        """Count, add noise, write the noisy files."""
        raise NotImplementedError

    def report(self, owner: Path, committed: Committed, ledger: Ledger) -> Path | None:
        """The owner's page."""
        raise NotImplementedError

    @property
    def times_rehearsed(self) -> float:
        """Ratio of the bytes of the release to those of the trial without data."""
        return 1.0

    def prepare(self, folder: Path) -> None:
        """Run before the reserve: write the public files, and try the noisy ones without data."""
        manifest = self.manifest()
        if manifest is None and self.prepared.mechanism is not None:
            raise GuaranteeError("no-manifest", "a private release knows its manifest before it counts.")
        if manifest is not None:
            self.public(folder, manifest)
            self.tell.stage("try without data")
            rehearse(folder, partial(self._try, manifest), times=self.times_rehearsed)

    def _try(self, manifest: Manifest, folder: Path) -> None:
        """The noisy files and the verdict on them, without data: what fails here has cost nothing."""
        type(self)(self.prepared).try_without_data(folder)
        KINDS[self.prepared.kind].verdict(folder, manifest)

    def with_verdict(self, folder: Path, noise: Noise) -> Manifest:
        """Make the noisy files, and say in the manifest what they are good for."""
        manifest = self(folder, noise)
        verdict = KINDS[self.prepared.kind].verdict(folder, manifest)
        return replace(manifest, verdict=verdict.to_plain())


def run(
    prepared: Prepared,
    ledger: Ledger,
    *,
    engine: Any = None,
    progress: Progress | None = None,
    allow_empty: bool = False,
    **options: Any,
) -> RunResult:
    """Make a release of any kind from its prepared plan: check, reserve, build, commit, report.

    A run that would count nothing raises an error before anything is spent, unless `allow_empty`. `options`
    are for the owner's report of that kind, such as `compare=True` of a histogram.
    """
    return run_build(KINDS[prepared.kind].build(prepared, progress, allow_empty, engine, **options), ledger)


def run_build(making: Build, ledger: Ledger) -> RunResult:
    """Check, reserve, build, commit and report; with a seed, into the owner's folder without a spend."""
    plan = making.prepared.plan
    owner = None if plan.owner is None else open_owner_folder(Path(plan.owner))
    ledger.state().population(plan.population)  # a name that does not exist is reported before any work
    seeded = plan.seed is not None
    committed = _experiment(making, ledger) if seeded else _release(making, ledger, owner)
    report = None
    if owner is not None:
        with drawing_report(committed.path, making.remedy):
            report = making.report(owner, committed, ledger)
    manifest = Manifest.from_json((committed.path / MANIFEST).read_text("utf-8"))
    verified = manifest.guarantee.get("verified")
    return RunResult(
        release=committed.path,
        report=report,
        verdict=KINDS[making.prepared.kind].verdict(committed.path, manifest),
        reused=committed.reused,
        publishable=not seeded and verified is not False,
        verified=verified,
        rows=making.rows,
        bad_rows=making.bad_rows,
        source_changed=committed.source_changed,
        figures=making.figures,
    )


def _release(making: Build, ledger: Ledger, owner: Path | None) -> Committed:
    prepared, plan = making.prepared, making.prepared.plan
    request = ReleaseRequest(
        population=plan.population,
        loss=None if prepared.mechanism is None else prepared.mechanism.loss(),
        key=prepared.key(),
        out=Path(prepared.out),
        what=prepared.what(),
        unit=plan.unit,
        pot=pot_of(plan),
        source_digest=prepared.source_digest(),
        supersedes=plan.supersedes or None,
        earlier_key=prepared.earlier_key,
        prepare=making.prepare,
        owner=owner,
        needs=prepared.needs(),
    )
    preflight(ledger, request, making.manifest())
    if stored_release(ledger, request) is None:
        request = replace(request, **making.listed(ledger))
        making.check()
        _note_report(prepared, ledger)
    noise = OsNoise()
    return release(
        ledger, request, lambda folder: making.with_verdict(folder, noise), waiting=making.tell.stage
    )


def _note_report(prepared: Prepared, ledger: Ledger) -> None:
    """A new plan for a window of which the owner saw raw figures may have been chosen by them."""
    population = prepared.plan.population
    if not ledger.is_tuned(population) and ledger.has_report(population, window_of(prepared.public())):
        ledger.remember_tuning(population, f"a new plan after an owner's report: {prepared.what()}")


def _experiment(making: Build, ledger: Ledger) -> Committed:
    """Seeded run, which writes to the owner's folder without a spend and is marked in manifest and ledger."""
    plan, what = making.prepared.plan, making.prepared.what()
    noise = SeededNoise(plan.seed or 0)
    making.check()
    out = Path(plan.owner).resolve() / f"seeded-{plan.seed}"
    ledger.look(plan.population, f"seeded, not for publication: {what}", str(out))  # before it is seen

    def build(folder: Path) -> Manifest:
        manifest = making.manifest()
        assert manifest is not None  # a kind with seeds is private
        making.public(folder, replace(manifest, reproducible=True))
        return making.with_verdict(folder, noise)

    path = write_for_owner(out, build)
    return Committed(path=path, manifest_sha256=sha256_file(path / "manifest.json"), reused=False)


def any_row(
    source: EventSource,
    test: Test,
    *,
    window_us: tuple[int, int],
    sites: Sequence[str] | None = None,
) -> bool:
    """Whether any batch of events in the window passes `test`; stops reading at the first one."""
    from shoal.events.readers import scan

    if isinstance(source, ForeignSource):
        return source.any_row(sites=sites, window_us=window_us, test=test)
    return any(test(batch) for batch in scan(source, sites=sites, window_us=window_us))


def _located(locate: Locate, batch: pa.RecordBatch) -> bool:
    return bool(locate(batch["x"].to_numpy(), batch["y"].to_numpy()).any())


def _swapped(locate: Locate, batch: pa.RecordBatch) -> bool:
    return bool(locate(batch["y"].to_numpy(), batch["x"].to_numpy()).any())


def _not_at_zero(batch: pa.RecordBatch) -> bool:
    return bool(batch["x"].to_numpy().any() or batch["y"].to_numpy().any())


def _repeats(per_row: int, batch: pa.RecordBatch) -> bool:
    """Whether a user of the batch has more events than a row has."""
    return len(batch["user"].unique()) * per_row < batch.num_rows


def _many(batch: pa.RecordBatch) -> bool:
    return batch.num_rows >= LEAST_ROWS


def events_of_some(
    source: EventSource, *, window_us: tuple[int, int], sites: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Events for the owner's figures: all; from a cluster those of a random share of users that fits here."""
    from shoal.events.readers import scan

    if not isinstance(source, ForeignSource):
        yield from scan(source, sites=sites, window_us=window_us)
        return
    rows = 0
    for batch in source.batches(sites=sites, window_us=window_us, with_flag=False, by_user=True):
        yield batch
        rows += batch.num_rows
        if rows >= MOST_BROUGHT:
            return


def checked_rows(
    source: EventSource,
    tell: Progress,
    *,
    sites: Sequence[str] | None = None,
    with_flag: bool = False,
    stop: bool = True,
) -> RowReport:
    """Read every row once; raise an error on bad rows if `stop`, unless the source drops them."""
    from shoal.events.readers import check_rows

    tell.stage("check rows", 1.0)
    done = 0.0

    def advance(share: float) -> None:
        nonlocal done
        tell.advance(share - done)
        done = share

    report = check_rows(source, sites=sites, with_flag=with_flag, progress=advance)
    if stop and source.on_bad_row == "stop":
        report.raise_if_bad()
    return report


def stage_by_stage(tell: Progress, names: Mapping[str, str], rows: int | None) -> Callable[[str, int], None]:
    """Reports the rows of an engine's steps; each step is a stage, called by its name in `names`."""
    current = ""

    def advance(step: str, read: int) -> None:
        nonlocal current
        if step != current:
            current = step
            tell.stage(names.get(step, step), rows)
        tell.advance(read)

    return advance
