"""Answers to counting queries on private events: from raw events to a folder of answers.

count        raw -> clipped sums of users, or a bounded table        engine, public geometry
noise        exact -> noisy answers                                  mechanism
finish       noisy -> visits with intervals                          post-processing

Every answer spends, unless the very same queries were answered before: then the stored answers come back.
This is not how a published release is read; reading one is free.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.engine.engine import Engine
from shoal.engine.query_sums import QueryKernel, user_sums
from shoal.engine.visits import exact_counts
from shoal.errors import PlanError
from shoal.kinds.density.build import Counting, DensityBuild
from shoal.kinds.describe import manifest_of
from shoal.kinds.query.plan import as_written
from shoal.kinds.query.prepare import PreparedQuery
from shoal.kinds.query.published import write_answers, write_queries
from shoal.kinds.run import Build, Progress, RunResult, run_build
from shoal.postprocess.density.numbers import finish_answers
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.manifest import Manifest
from shoal.stages.exact import ExactCounts, UserSums


class QuerySession:
    """Many plans about the same events: rows are checked once, and every `ask` spends.

    The table of `weights` is counted once, after the first reserve, under a secret key of its own; it stays
    behind this query interface, and only mechanisms see it. Other mechanisms count what their queries need.
    """

    def __init__(
        self,
        first: PreparedQuery,
        ledger: Ledger,
        *,
        engine: Engine | None = None,
        progress: Progress | None = None,
        allow_empty: bool = False,
    ) -> None:
        self._ledger, self._place = ledger, _place(first)
        self._tables = QueryTables(DensityBuild(first.opened, progress, allow_empty, engine))
        ledger.state().population(first.plan.population)  # a name that does not exist is said now

    def ask(self, prepared: PreparedQuery) -> RunResult:
        """Answers to the queries of one plan, from the stored folder where it was asked before."""
        if _place(prepared) != self._place:
            raise PlanError("query-session", "a session is about one population, source, map and window.")
        return run_build(QueryBuild(prepared, tables=self._tables), self._ledger)


class QueryTables:
    """The events of a session: checked once; a table is counted once for each number of visits it keeps."""

    def __init__(self, events: DensityBuild) -> None:
        self.events = events
        self._checked = False
        self._counts: dict[int, ExactCounts] = {}  # by ell

    def check(self) -> None:
        if not self._checked:
            self.events.check()
            self._checked = True

    def exact(self, prepared: PreparedQuery) -> ExactCounts | UserSums:
        """The stage that the mechanism takes."""
        counting = self.events.counting or self.events.counts_under(OsNoise().run_key())
        if prepared.mechanism.takes != "counts":
            return _counted(counting, prepared)
        ell = prepared.questions.ell
        if ell not in self._counts:
            self._counts[ell] = _counted(counting, prepared)
        return self._counts[ell]


class QueryBuild(Build):
    """Raw events in, files of answers out; `tables` are those of the session, if there is one."""

    prepared: PreparedQuery

    def __init__(self, prepared: PreparedQuery, *given: Any, tables: QueryTables | None = None) -> None:
        super().__init__(prepared, *given)
        self.tables = tables or QueryTables(DensityBuild(prepared.opened, *given))
        self.tell = self.tables.events.tell

    def check(self) -> None:
        self.tables.check()
        self.rows, self.bad_rows = self.tables.events.rows, self.tables.events.bad_rows

    def public(self, folder: Path, manifest: Manifest) -> None:
        prepared = self.prepared
        write_queries(folder, as_written(prepared.questions.each, prepared.opened.geography.zones))
        super().public(folder, manifest)

    def try_without_data(self, folder: Path) -> None:
        quiet = DensityBuild(self.prepared.opened)
        nobody = _counted(quiet.counts_under(bytes(16), tuple), self.prepared)
        _write_noisy(folder, self.prepared, nobody, SeededNoise(0))

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        exact = self.tables.exact(self.prepared)
        self.tell.stage("draw noise")
        _write_noisy(folder, self.prepared, exact, noise)
        return manifest_of(self.prepared)


def _counted(counting: Counting, prepared: PreparedQuery) -> Any:
    questions = prepared.questions
    if prepared.mechanism.takes == "counts":
        return exact_counts(counting.bounded(questions.ell, questions.ell), prepared.setting.weights)
    edges_us = prepared.opened.clock.edges_us
    kernel = QueryKernel(edges_us=edges_us, questions=questions, run_key=counting.run_key)
    return user_sums(counting.engine, counting.events(), kernel, counting.progress())


def _write_noisy(folder: Path, prepared: PreparedQuery, exact: Any, noise: Noise) -> None:
    answers = finish_answers(prepared.mechanism(exact, noise), prepared.plan.place.decimals)
    write_answers(folder, answers, prepared.questions.each)


def _place(prepared: PreparedQuery) -> tuple:
    plan = prepared.plan.place
    zones, sites = prepared.opened.geography.zones, prepared.opened.geography.sites
    # by content: a table spread over one map must not answer for another
    map_ = zones.digest(), None if sites is None else sites.digest()
    return plan.population, plan.unit, plan.source, plan.space, plan.window, map_
