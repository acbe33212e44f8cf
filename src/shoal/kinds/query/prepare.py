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

from shoal.engine.protocol import Engine
from shoal.errors import PlanError
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.density.prepare import PreparedDensity, prepare_density
from shoal.kinds.needs import query_needs
from shoal.kinds.query.ask import Ask
from shoal.kinds.run_key import earlier_name
from shoal.kinds.spends import check_spends
from shoal.mechanisms import methods
from shoal.mechanisms.method import Methods
from shoal.mechanisms.query.gaussian import QueryGaussian
from shoal.mechanisms.query.laplace import QueryLaplace
from shoal.mechanisms.query.weights import QueryWeights
from shoal.postprocess.density.numbers import Z95
from shoal.privacy.guarantee import Guarantee
from shoal.release.resources import Needs
from shoal.space.question import Question, Questions
from shoal.space.setting import Setting

METHODS = Methods("query", methods.QUERY, "methods:METHODS")
MANY = 300  # queries from which weights are ahead of independent noise (make bench-query)
UPDATES = 40  # questions that multiplicative weights may buy; fitted on simulated cities (make bench-query)
# What a query does not take from a density's plan: it says its own price, so that none is spent unsaid.
OF_A_DENSITY = (
    *("epsilon", "rho", "method", "cap", "nights", "users", "decimals"),
    *("out", "owner", "run_id", "supersedes", "seed"),
)
QueryMechanism = QueryGaussian | QueryLaplace | QueryWeights


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """What a mechanism answers."""

    questions: list[Question]
    ell: int  # visits kept per user
    updates: int = UPDATES


@dataclass(frozen=True, kw_only=True)
class QueryPlan:
    """Which queries, at what price, on whose events."""

    place: DensityPlan  # population, source, space, window, price; its method is the family of the noise
    asks: tuple[Ask, ...]
    mechanism: str = "gaussian"
    updates: int = UPDATES
    out: str | None = None  # folder of the answers; None: named after the run

    def __post_init__(self) -> None:
        if not self.asks:
            raise PlanError("query-empty", "there is no query.")
        if not 1 <= self.updates <= 10_000:
            raise PlanError(
                "plan-range", f"updates must be from 1 to 10000; got {self.updates}.", "Pass --updates 40."
            )
        names = [ask.name for ask in self.asks]
        if len(set(names)) < len(names):
            raise PlanError("query-name", "two queries have the same name.", "Give each a name of its own.")

    @classmethod
    def from_settings(
        cls, density: Mapping[str, Any], flags: Mapping[str, Any], asks: tuple[Ask, ...]
    ) -> QueryPlan:
        """From a density's plan (where, when, whose) and flags (price, mechanism)."""
        given = {name: value for name, value in flags.items() if value is not None}
        mechanism = str(given.pop("mechanism", "gaussian"))
        updates, out = int(given.pop("updates", UPDATES)), given.pop("out", None)
        if mechanism not in METHODS:
            raise PlanError("query-mechanism", f"no way to answer is called {mechanism!r}.")
        if "epsilon" not in given and "rho" not in given:
            raise PlanError(
                "query-price",
                "a query says its own price; the plan's epsilon is that of its density.",
                "Pass --epsilon 0.1, say: smaller is more private, larger is more accurate.",
            )
        settings = {name: value for name, value in density.items() if name not in OF_A_DENSITY}
        pure = mechanism == "laplace"
        if pure:
            settings.pop("delta", None)  # the plan's own; one that was asked for is refused
        settings |= {**given, "method": "laplace" if pure else "gaussian"}
        place = DensityPlan.from_settings(settings)
        return cls(place=place, asks=asks, mechanism=mechanism, updates=updates, out=out)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedQuery:
    """A query plan with its public things opened. Nothing here depends on a row of the events."""

    plan: QueryPlan
    opened: PreparedDensity
    questions: Questions = field(repr=False)
    mechanism: QueryMechanism
    guarantee: Guarantee

    @property
    def setting(self) -> Setting:
        return self.opened.setting

    @property
    def out(self) -> str:
        """The folder of the answers: as said, else named after what was asked.

        Of public things alone: a name that hashed the events too would tell them from any others.
        """
        return self.plan.out or f"query-{self._asked_digest()[:8]}"

    def needs(self) -> Needs:
        """Memory and disk, from the size of the table and the number of queries."""
        return query_needs(self.setting.zones, self.setting.slots, self.questions.count)

    def notes(self) -> list[str]:
        """What the owner should know of the settings before the run; none of it stops it."""
        mechanism, count = self.mechanism, self.questions.count
        if isinstance(mechanism, QueryWeights):
            visits = mechanism.threshold / self.questions.lattice
            few = [f"{count} queries are few for weights; gaussian is likely better."] if count < 100 else []
            return [
                f"a query is bought where the table seems off by {visits:,.0f} visits or more, "
                f"{mechanism.updates} at most; the others come from the table.",
                *few,
            ]
        if count >= MANY:
            return [f"{count} queries share the budget; --mechanism weights or a density may be better."]
        return []

    def key(self) -> str:
        """Names the run by public values: the same queries at the same price have the same answers."""
        return earlier_name("query", self.opened.key(), *self._asked())

    def earlier_key(self) -> str:
        """The key of this run in ledgers written before, where files entered by their content."""
        return earlier_name("query", self.opened.earlier_key(), *self._asked())

    def source_digest(self) -> str:
        """Private, for the owner's ledger: whether the files are those of an earlier run."""
        return self.opened.source_digest()

    def _asked(self) -> list:
        asked = [[each.name, each.zones, each.slots] for each in self.questions.each]
        updates = self.plan.updates if self.plan.mechanism == "weights" else None
        return [self.plan.mechanism, updates, self.questions.ell, asked]

    def _asked_digest(self) -> str:
        place, clock = self.plan.place, self.opened.clock
        window = [clock.start.isoformat(), clock.end.isoformat(), clock.time_zone, clock.slot_minutes]
        price = [place.population, place.run_id, place.epsilon, place.delta, place.rho]
        return hashlib.sha256(json.dumps([price, window, *self._asked()]).encode()).hexdigest()


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
    promised = (
        Guarantee.of(loss, delta=plan.place.delta, unit=unit)
        if plan.place.epsilon is None
        else Guarantee(epsilon=plan.place.epsilon, delta=plan.place.delta or 0.0, loss=loss, unit=unit)
    )
    return PreparedQuery(
        plan=plan, opened=opened, questions=mechanism.asked, mechanism=mechanism, guarantee=promised
    )


@dataclass(frozen=True, kw_only=True)
class ExpectedAnswer:
    """In visits. With weights only bought answers have a width that is known before."""

    most: float  # what one user changes the answer by
    mean_absolute: float | None
    half: float | None  # of the 95 % interval


def expected_answers(mechanism: QueryMechanism) -> list[ExpectedAnswer]:
    """One for each question, in order."""
    asked = mechanism.asked
    most = np.array(asked.sensitivity) / asked.lattice
    if isinstance(mechanism, QueryWeights):
        return [ExpectedAnswer(most=float(each), mean_absolute=None, half=None) for each in most]
    scales = np.array([adder.scale for adder in mechanism.adders]) / asked.lattice
    if isinstance(mechanism, QueryLaplace):
        mean, half = scales, scales * np.log(20.0)
    else:
        mean, half = scales * np.sqrt(2 / np.pi), scales * Z95
    return [
        ExpectedAnswer(most=float(a), mean_absolute=float(b), half=float(c))
        for a, b, c in zip(most, mean, half, strict=True)
    ]
