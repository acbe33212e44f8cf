"""Counting queries on private events, answered: the whole way from a plan to a folder of answers.

prepare      plan -> zones, clock, questions, mechanism, price       public things only, no row is read
check        are the rows well-formed?                               the owner's own look, shown to no one
reserve      the ledger takes the price                              before any count is made
count        raw -> bounded -> a table of zones and slots            once per session
noise        exact -> noisy answers                                  mechanism
finish       noisy -> visits with intervals                          post-processing
commit       folder sealed, spend committed, folder moved into place

Every answer spends, unless the very same queries were answered before: then the stored answers come back.
This is not how a published release is read; reading one is free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from shoal.engine.density import exact_counts
from shoal.engine.protocol import MOST_EVENTS, Engine
from shoal.errors import PlanError
from shoal.kinds.density.build import DensityBuild
from shoal.kinds.density.counting import Counting
from shoal.kinds.progress import Progress, Silent
from shoal.kinds.query.ask import as_written
from shoal.kinds.query.prepare import PreparedQuery
from shoal.kinds.run import request_of
from shoal.kinds.source import READING
from shoal.kinds.spends import spends_of
from shoal.mechanisms.query.weights import QueryWeights
from shoal.postprocess.density.answers import finish_answers
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.audit_cases import with_audit_case
from shoal.release.folder import preflight, release, stored_release
from shoal.release.manifest import Manifest
from shoal.release.query_files import FILES, read_answers, write_answers, write_queries
from shoal.release.readme import recipient_readme
from shoal.release.rehearsal import rehearse
from shoal.stages.exact import ExactCounts

PAYS_FOR = {
    "answers": "the queries that were counted, each with noise of its own",
    "total": "the number of all kept visits in the zones, which the public guess is scaled to",
    "test": "finding the queries that the table is wrong about, the sparse vector technique",
    "error": "one width for the intervals of all queries that were not counted",
}


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """Where the answers lie, and the answers: what anyone may see of them."""

    folder: Path
    reused: bool
    answers: list[dict] = field(repr=False)
    source_changed: bool = False  # the files are not those that the stored answers were made from


def run_query(
    prepared: PreparedQuery,
    ledger: Ledger,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    confirm: Callable[[str], bool] | None = None,
) -> QueryResult:
    """Check, reserve, count, add noise, write, commit: one plan, one session."""
    return QuerySession(prepared, ledger, engine=engine, progress=progress, confirm=confirm).ask(prepared)


class QuerySession:
    """Many plans about the same events: rows are checked and counted once, and every `ask` spends.

    The table stays behind this door. It is counted after the first reserve, under a secret key of its own,
    and only mechanisms see it.
    """

    def __init__(
        self,
        first: PreparedQuery,
        ledger: Ledger,
        *,
        engine: Engine | None = None,
        progress: Progress | None = None,
        confirm: Callable[[str], bool] | None = None,
    ) -> None:
        self._ledger, self._tell = ledger, progress or Silent()
        self._place = _place(first)
        self._events = DensityBuild(first.opened, self._tell, confirm, engine)
        self._noise = OsNoise()
        self._checked = False
        self._tables: dict[int, ExactCounts] = {}  # by ell
        ledger.state().population(first.plan.place.population)  # a name that does not exist is said now

    def ask(self, prepared: PreparedQuery) -> QueryResult:
        """Answers to the queries of one plan, from the stored folder where it was asked before."""
        if _place(prepared) != self._place:
            raise PlanError("query-session", "a session is about one population, source, map and window.")
        request = request_of(
            prepared,
            plan=prepared.plan.place,
            loss=prepared.mechanism.loss(),
            out=Path(prepared.out),
            what=f"query, {prepared.plan.mechanism}, {prepared.questions.count} asked",
            needs=prepared.needs(),
            prepare=lambda folder: self._prepare(folder, prepared),
        )
        preflight(self._ledger, request, query_manifest(prepared))
        if stored_release(self._ledger, request) is None and not self._checked:
            self._events.check()
            self._checked = True
        made = release(
            self._ledger,
            request,
            lambda folder: self._build(folder, prepared),
            waiting=self._tell.stage,
        )
        return QueryResult(
            folder=made.path,
            reused=made.reused,
            answers=read_answers(made.path),
            source_changed=made.source_changed,
        )

    def _build(self, folder: Path, prepared: PreparedQuery) -> Manifest:
        """The part between reserve and commit."""
        exact = self._table(prepared)
        self._tell.stage("draw noise")
        _write_noisy(folder, prepared, exact, self._noise)
        return query_manifest(prepared)

    def _prepare(self, folder: Path, prepared: PreparedQuery) -> None:
        """Before the reserve: all that is public, and the answers tried without data."""
        write_queries(folder, as_written(prepared.questions.each, prepared.opened.geography.zones))
        text = recipient_readme(query_manifest(prepared), FILES, how_to_read(prepared))
        (folder / "README.md").write_text(text, "utf-8")
        quiet = DensityBuild(prepared.opened)
        nobody = _counted(quiet.counts_under(bytes(16), tuple), prepared)
        rehearse(folder, lambda stage: _write_noisy(stage, prepared, nobody, SeededNoise(0)))

    def _table(self, prepared: PreparedQuery) -> ExactCounts:
        ell = prepared.questions.ell
        if ell not in self._tables:
            counting = self._events.counting or self._events.counts_under(self._noise.run_key())
            self._tables[ell] = _counted(counting, prepared)
        return self._tables[ell]


def _counted(counting: Counting, prepared: PreparedQuery) -> ExactCounts:
    ell = prepared.questions.ell
    return exact_counts(counting.bounded(ell, ell), prepared.setting.weights)


def _write_noisy(folder: Path, prepared: PreparedQuery, exact: ExactCounts, noise: Noise) -> None:
    answers = finish_answers(prepared.mechanism(exact, noise), prepared.plan.place.decimals)
    write_answers(folder, answers, prepared.questions.each)


def _place(prepared: PreparedQuery) -> tuple:
    plan = prepared.plan.place
    zones, sites = prepared.opened.geography.zones, prepared.opened.geography.sites
    # by content: a table spread over one map must not answer for another
    map_ = zones.digest(), None if sites is None else sites.digest()
    return plan.population, plan.unit, plan.source, plan.space, plan.window, map_


def query_manifest(prepared: PreparedQuery) -> Manifest:
    """Guarantee, public parameters and spends of the answers, before their files are hashed."""
    plan, opened, guarantee = prepared.plan.place, prepared.opened, prepared.guarantee
    zones, sites, clock = opened.geography.zones, opened.geography.sites, opened.clock
    public = {
        "zones": {"count": zones.count, "sha256": zones.digest()},
        "sites": None if sites is None else {"count": sites.count, "sha256": sites.digest()},
        "window": {"start": clock.start.isoformat(), "end": clock.end.isoformat()},
        "time_zone": clock.time_zone,
        "slot_minutes": clock.slot_minutes,
        "slots": clock.slots,
        "ell": prepared.questions.ell,
        "events_per_unit_cap": MOST_EVENTS,
        "mechanism": prepared.plan.mechanism,
        "queries": prepared.questions.count,
        "decimals": plan.decimals,
        "reading": {name: getattr(opened.source, name) for name in READING},
    }
    if isinstance(prepared.mechanism, QueryWeights):
        public["updates"] = prepared.mechanism.updates
        public["threshold_visits"] = prepared.mechanism.threshold / prepared.questions.lattice
    manifest = Manifest(
        unit=guarantee.unit.sentence,
        promise=guarantee.sentence,
        guarantee=guarantee.to_manifest(),
        public=public,
        spends=spends_of(prepared.mechanism, PAYS_FOR),
        population=plan.population,
        input={"shape": str(opened.source.shape), "columns": sorted(opened.source.columns)},
        columns={name: dict(columns) for name, columns in FILES.items()},
        licence=plan.licence or "none given by the owner yet",
    )
    return with_audit_case(manifest)


def how_to_read(prepared: PreparedQuery) -> str:
    """For the recipient: what a visit is, where the noise is."""
    unit, ell = prepared.plan.place.unit, prepared.questions.ell
    text = (
        f"- An answer counts visits of {unit}s in the zones and slots of its query. Of each {unit} at most "
        f"one visit per slot and {ell} in the window were kept, chosen at random, so answers are low by "
        "what that leaves out.\n- Intervals cover the noise, not what was left out.\n"
    )
    if isinstance(prepared.mechanism, QueryWeights):
        return text + (
            f"- At most {prepared.mechanism.updates} queries were answered with noise of their own. The "
            "others come from a table that started at a public guess and learned from those answers; "
            "their interval is one width for all, bought for them, and holds for 95 of 100 of them."
        )
    return text + "- Every query has noise of its own; the interval holds in 95 of 100 cases."
