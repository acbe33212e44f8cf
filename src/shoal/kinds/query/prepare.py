"""A query plan with its public things opened: zones, clock, questions, noise, price. No row is read.

What a query's noise will be, from public numbers alone: for the dry run and the benchmark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shoal.engine.buckets import MOST_EVENTS
from shoal.engine.engine import Engine
from shoal.events.schema import EventSource
from shoal.kinds.density.prepare import PreparedDensity, placed, prepare_density, slots_of
from shoal.kinds.describe import (
    BASE,
    SMALL_FILES,
    Outcome,
    Prepared,
    Table,
    as_list,
    check_spends,
    promised,
    reading_of,
)
from shoal.kinds.keys import earlier_name
from shoal.kinds.query.plan import METHODS, QueryOptions, QueryPlan
from shoal.kinds.query.published import FILES, read_answers, verdict_of
from shoal.kinds.run import RunResult
from shoal.kinds.verdict import Verdict
from shoal.mechanisms.query.answers import QueryAnswers
from shoal.mechanisms.query.weights import QueryWeights
from shoal.privacy.guarantee import Guarantee
from shoal.privacy.ledger import Ledger
from shoal.release.staging import Needs
from shoal.space.geography import Setting
from shoal.space.setting import Questions

SHOWN = 20  # queries in a table on the screen; all are in the file
MANY = 300  # queries from which weights are ahead of independent noise (make bench-query)
USUAL_VISITS = 10  # of one user in a query: the clip that the dry run assumes, with fewer slots as many
PAYS_FOR = {
    "sizes": "the number of users by their visits in each query, from which its clip follows",
    "answers": "the measured queries, each with noise of its own",
    "total": "the number of sampled visits in the zones, to which the public prior is scaled",
    "test": "the search for queries that the table answers badly (sparse vector technique)",
    "error": "the common width of the intervals of all queries answered by the table",
}
QueryMechanism = QueryAnswers | QueryWeights


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedQuery(Prepared):
    """A query plan with its public things opened. Nothing here depends on a row of the events."""

    kind = "query"
    pays_for = PAYS_FOR
    plan: QueryPlan
    source: EventSource
    opened: PreparedDensity
    questions: Questions = field(repr=False)
    mechanism: QueryMechanism
    guarantee: Guarantee

    @property
    def setting(self) -> Setting:
        return self.opened.setting

    @property
    def out(self) -> str:
        """The folder of the answers: as given, else named after the queries.

        The name depends on public values alone: one that hashed the events too would identify them.
        """
        return self.plan.out or f"query-{self._query_digest()[:8]}"

    def what(self) -> str:
        return f"query, {self.plan.mechanism}, {self.questions.count} asked"

    def needs(self) -> Needs:
        return query_needs(self.setting.zones, self.setting.slots, self.questions.count)

    def notes(self) -> list[str]:
        mechanism, count = self.mechanism, self.questions.count
        if isinstance(mechanism, QueryWeights):
            visits = mechanism.threshold / self.questions.lattice
            few = [f"{count} queries are few for weights; gaussian is likely better."] if count < 100 else []
            return [
                f"a query is measured if the table seems off by {visits:,.0f} visits or more, for at most "
                f"{mechanism.updates} queries; the table answers the others.",
                *few,
            ]
        if count >= MANY:
            return [f"{count} queries share the budget; --mechanism weights or a density may be better."]
        return []

    def public(self) -> dict[str, Any]:
        public = {
            **placed(self.opened.geography, self.opened.clock),
            "slots": self.opened.clock.slots,
            **({"ell": self.questions.ell} if self.mechanism.takes == "counts" else {}),
            "events_per_unit_cap": MOST_EVENTS,
            "mechanism": self.plan.mechanism,
            "queries": self.questions.count,
            "decimals": self.plan.place.decimals,
            "reading": reading_of(self.source),
        }
        if isinstance(self.mechanism, QueryWeights):
            public["updates"] = self.mechanism.updates
            public["threshold_visits"] = self.mechanism.threshold / self.questions.lattice
        return public

    def files(self) -> Mapping[str, Mapping[str, str]]:
        return FILES

    def reading(self) -> str:
        unit, ell = self.plan.unit, self.questions.ell
        counted = f"An answer is a number of visits of {unit}s in the zones and slots of its query."
        if isinstance(self.mechanism, QueryWeights):
            return as_list(
                (
                    f"{counted} At most one visit per {unit} and slot, and {ell} per {unit} in the window, "
                    "were sampled at random. Answers do not include the other visits.",
                    "Intervals cover the noise, not the visits left out.",
                    f"At most {self.mechanism.updates} queries were measured with noise of their own. The "
                    "others are answered by a table that was trained on these, starting from a public prior. "
                    "Their intervals have a common width, measured with noise, and hold for 95 of 100 of "
                    "them.",
                )
            )
        return as_list(
            (
                f"{counted} All visits are estimated: a {unit} counts once per place and slot. The visits "
                f"of one {unit} in a query were counted up to the `clip` in answers.csv, which was chosen "
                f"from a noisy number of {unit}s by their visits there; what it omits was estimated from "
                "these numbers.",
                "Every query has noise of its own. The interval includes the noise and the uncertainty of "
                "what the clip omits; its ends are not equally far from the answer.",
                f"The estimate takes the visits of a {unit} as log-normal. A few {unit}s with hundreds of "
                "visits among many with few, and hidden by the noise, would be missed.",
            )
        )

    def rows(self) -> list[tuple[str, str]]:
        return []

    def foreseen(self, ledger: Ledger) -> dict[str, Any]:
        """Sensitivity and noise of each answer."""
        errors = expected_answers(self.mechanism)
        return {
            "mechanism": self.mechanism.name,
            "queries": [
                {"query": each.name, "zones": len(each.zones), "slots": len(each.slots), **vars(error)}
                for each, error in zip(self.questions.each, errors, strict=True)
            ],
        }

    def verdict(self) -> Verdict:
        return verdict_of([each.half for each in expected_answers(self.mechanism)])

    def table(self, summary: Mapping[str, Any]) -> Table:
        rows = [
            (
                each["query"],
                f"{each['zones']:,}",
                f"{each['slots']:,}",
                f"{each['most']:g}",
                "known after the run" if each["half"] is None else f"+- {each['half']:,.1f} visits",
            )
            for each in summary["queries"]
        ]
        header = ("query", "zones", "slots", "visits of one user", "95 % interval")
        learns = isinstance(self.mechanism, QueryWeights)
        below = "" if learns else "The clip is chosen from noisy answers; the interval is that of this many."
        return Table(header=header, rows=rows, right=(1, 2, 3, 4), most=SHOWN, below=below)

    def outcome(self, result: RunResult) -> Outcome:
        answers = read_answers(result.release)
        rows = [
            (
                row["query"],
                f"{row['visits']:,.{self.plan.place.decimals}f}",
                f"{row['visits_low']:,.0f} to {row['visits_high']:,.0f}",
                row["how"],
            )
            for row in answers
        ]
        header = ("query", "visits", "95 % interval", "how")
        return Outcome(
            table=Table(header=header, rows=rows, right=(1, 2, 3), most=SHOWN),
            then=["These answers come from the events. Queries on a published release cost no budget."],
            figures={"folder": str(result.release), "answers": answers},
        )

    def key(self) -> str:
        return earlier_name("query", self.opened.key(), *self.key_parts())

    def earlier_key(self) -> str:
        return earlier_name("query", self.opened.earlier_key(), *self.key_parts())

    def key_parts(self) -> list[Any]:
        queries = [[each.name, each.zones, each.slots] for each in self.questions.each]
        updates = self.plan.updates if self.plan.mechanism == "weights" else None
        return [self.plan.mechanism, updates, self.plan.place.ell, queries]

    def _query_digest(self) -> str:
        place = self.plan.place
        price = [place.population, place.run_id, place.epsilon, place.delta, place.rho]
        parts = [price, slots_of(self.opened.clock), *self.key_parts()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def query_needs(zones: int, slots: int, queries: int) -> Needs:
    """The table of zones and slots that queries are answered from."""
    return Needs(
        memory=BASE + 40 * zones * slots + 10_000 * zones, disk=SMALL_FILES + 500 * queries + 2_000 * zones
    )


def prepare_query(plan: QueryPlan, engine: Engine | None = None) -> PreparedQuery:
    """Open everything public and set the noise; reads headers of the events, no rows."""
    opened = prepare_density(plan.place, engine)
    zones, clock = opened.geography.zones, opened.clock
    each = [ask.question(zones, clock) for ask in plan.asks]
    each = [replace(question, name=question.name or f"query {i}") for i, question in enumerate(each, 1)]
    budget = plan.place.budget()
    options = QueryOptions(questions=each, ell=plan.place.ell, updates=plan.updates)
    mechanism = METHODS[plan.mechanism].build(budget, opened.setting, options)
    check_spends(mechanism, budget)
    loss, unit = mechanism.loss(), opened.guarantee.unit
    return PreparedQuery(
        plan=plan,
        source=opened.source,
        opened=opened,
        questions=mechanism.questions,
        mechanism=mechanism,
        guarantee=promised(plan.place, loss, unit, budget),
    )


@dataclass(frozen=True, kw_only=True)
class ExpectedAnswer:
    """Expected error in visits. With weights, only measured answers have a width known in advance."""

    most: float  # what one user changes; where a clip is chosen, the one that is assumed: see USUAL_VISITS
    mean_absolute: float | None
    half: float | None  # of the 95 % interval


def expected_answers(mechanism: QueryMechanism) -> list[ExpectedAnswer]:
    """One for each question, in order."""
    questions = mechanism.questions
    if isinstance(mechanism, QueryWeights):
        most = np.array(questions.sensitivity) / questions.lattice
        return [ExpectedAnswer(most=float(each), mean_absolute=None, half=None) for each in most]
    unit = mechanism.adder(questions.lattice)
    mean, half = unit.mean / questions.lattice, unit.half / questions.lattice
    usual = questions.lattice * np.array([min(USUAL_VISITS, len(each.slots)) for each in questions.each])
    clips = np.minimum(usual, questions.clips[:, -1]) / questions.lattice
    return [ExpectedAnswer(most=float(clip), mean_absolute=mean * clip, half=half * clip) for clip in clips]
