"""The plan of queries on private data: which, at what price, answered by which method."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shoal.errors import PlanError
from shoal.kinds.ask import Ask
from shoal.kinds.density.plan import DensityPlan
from shoal.mechanisms import methods
from shoal.mechanisms.method import Methods
from shoal.setting import Plan, rule, setting, settings_of

if TYPE_CHECKING:
    from shoal.space.places import Zones
    from shoal.space.setting import Question


def as_written(questions: Sequence[Question], zones: Zones) -> str:
    """The queries as lines of JSON, as they were understood: every zone and slot listed."""
    lines = [
        {"name": each.name, "zones": [zones.ids[zone] for zone in each.zones], "slots": list(each.slots)}
        for each in questions
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


METHODS = Methods("query", methods.QUERY, "methods:METHODS")
UPDATES = 40  # queries that multiplicative weights may measure; fitted on simulated cities (make bench-query)
# What a query does not take from a density's plan: its price is stated anew, never taken over.
OF_A_DENSITY = (
    *("epsilon", "rho", "method", "cap", "nights", "users", "decimals"),
    *("out", "owner", "run_id", "supersedes", "seed"),
)


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """Queries and public options from which a mechanism is built."""

    questions: list[Question]
    ell: int  # visits kept per user
    updates: int = UPDATES


def _of_place(name: str) -> Any:
    """What the plan of the density states of it."""
    return property(lambda plan: getattr(plan.place, name))


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

    population = _of_place("population")
    unit = _of_place("unit")
    source = _of_place("source")
    supersedes = _of_place("supersedes")
    licence = _of_place("licence")

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
