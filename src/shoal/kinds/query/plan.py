"""The plan of queries on private data: which, at what price, answered by which method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shoal.errors import PlanError
from shoal.events.schema import SourcePlan
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.query.ask import Ask
from shoal.mechanisms import methods
from shoal.mechanisms.method import Methods
from shoal.setting import Plan, rule, setting, settings_of

if TYPE_CHECKING:
    from shoal.space.setting import Question

METHODS = Methods("query", methods.QUERY, "methods:METHODS")
UPDATES = 40  # questions that multiplicative weights may buy; fitted on simulated cities (make bench-query)
# What a query does not take from a density's plan: it says its own price, so that none is spent unsaid.
OF_A_DENSITY = (
    *("epsilon", "rho", "method", "cap", "nights", "users", "decimals"),
    *("out", "owner", "run_id", "supersedes", "seed"),
)


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """What a mechanism answers."""

    questions: list[Question]
    ell: int  # visits kept per user
    updates: int = UPDATES


@dataclass(frozen=True, kw_only=True)
class QueryPlan(Plan):
    """Which queries, at what price, on whose events."""

    place: DensityPlan  # population, source, space, window, price; its method is the family of the noise
    asks: tuple[Ask, ...]
    mechanism: str = setting(
        "gaussian",
        "gaussian or laplace (pure) noise per query; weights learns, for many.",
        choices=tuple(methods.QUERY),
        code="query-mechanism",
    )
    updates: int = setting(UPDATES, "With weights: queries that may be measured.", (1, 10_000))
    out: str | None = setting(
        None, "Folder of the answers; must not exist.", shown="query-..., named after the run", file=True
    )
    owner: ClassVar[None] = None  # there is no report, so no folder for it
    seed: ClassVar[None] = None

    @property
    def population(self) -> str:
        return self.place.population

    @property
    def unit(self) -> str:
        return self.place.unit

    @property
    def source(self) -> SourcePlan:
        return self.place.source

    @property
    def supersedes(self) -> str:
        return self.place.supersedes

    @property
    def licence(self) -> str:
        return self.place.licence

    @rule("asks")
    def _check_asks(self) -> None:
        if not self.asks:
            raise PlanError("query-empty", "there is no query.")
        names = [ask.name for ask in self.asks]
        if len(set(names)) < len(names):
            raise PlanError("query-name", "two queries have the same name.", "Give each a name of its own.")

    @classmethod
    def from_settings(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, density: Mapping[str, Any], flags: Mapping[str, Any], asks: tuple[Ask, ...]
    ) -> QueryPlan:
        """From a density's plan (where, when, whose) and flags (price, mechanism)."""
        given = {name: value for name, value in flags.items() if value is not None}
        own = {name: given.pop(name) for name in settings_of(cls) if name in given}
        if "epsilon" not in given and "rho" not in given:
            raise PlanError(
                "query-price",
                "a query states its own price; the plan's epsilon is that of its density.",
                "Pass --epsilon 0.1, say: smaller is more private, larger is more accurate.",
            )
        settings = {name: value for name, value in density.items() if name not in OF_A_DENSITY}
        pure = own.get("mechanism") == "laplace"
        if pure:
            settings.pop("delta", None)  # the plan's own; one that was asked for is refused
        settings |= {**given, "method": "laplace" if pure else "gaussian"}
        place = DensityPlan.from_settings(settings)
        return cls(place=place, asks=asks, **own)
