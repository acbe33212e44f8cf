"""A method: how a release is made, and how the same mechanism is built for its audit.

A place is "package.module:name", imported when it is used, so that a table of methods loads none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from shoal.baselines import GAUSSIAN, LAPLACE, PACKAGE, lacks, missing, part
from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.audit_size import ONE_PLACE, AuditSize
from shoal.privacy.accounting import Budget, Loss

if TYPE_CHECKING:
    from shoal.privacy.noise import Noise

SMALL = AuditSize()
ONE_VISIT = AuditSize(layout=ONE_PLACE, slots=2, ell=1, cap=1)
VISIT = ((0, 0),)


class Mechanism(Protocol):
    """Frozen parameters, `loss()`, one call."""

    name: str

    def loss(self) -> Loss: ...
    def __call__(self, exact: Any, noise: Noise, /) -> Any: ...


def at(place: str) -> Any:
    """The object at a place, given as "module:attribute".

    >>> at("shoal.mechanisms.density.best:DensityBest.name")
    'density-best'
    """
    module, _, name = place.partition(":")
    return attrgetter(name)(import_module(module))


@dataclass(frozen=True, kw_only=True)
class Build:
    """How a mechanism is built from a budget and public things, for releases and for the audit alike."""

    place: str  # of a class method: (budget, setting, **options, **given)
    takes: str  # the stage that the mechanism is called with
    asks: tuple[str, ...] = ()  # options that it is built from
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mechanism(self) -> type:
        """The class of the mechanism."""
        return at(self.place.rpartition(".")[0])

    def __call__(self, budget: Budget, setting: Any, options: Any = None, **more: Any) -> Any:
        from_options = {name: getattr(options, name) for name in self.asks if name not in more}
        return at(self.place)(budget, setting, **{**from_options, **self.given, **more})


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One registered mechanism: what it promises, and at which size and on whom it is audited."""

    name: str
    make: Build
    releases: str
    guarantee: str  # as a function of the parameters; executable in mechanism.loss()
    spends: tuple[str, ...]  # names of the noise calls, each a spend of the budget
    pure: bool
    small: Mapping[str, Any] = field(default_factory=dict)  # parameters that cost time, not privacy
    trips: int | None = None  # declared in the audit
    size: AuditSize = SMALL  # for replay and whole pipelines
    tight: AuditSize = ONE_VISIT  # where one user costs the claim
    worst: tuple[tuple[int, int], ...] = VISIT  # slots and places of that user, alone in the city
    reach: Mapping[str, float] = field(default_factory=dict)  # share of a spend's loss; 1 unless said
    follows: bool = False  # asked along answers that the worst user's own values give: else along zeros
    bugs_at: float | None = None  # epsilon that bugs are planted at; None: 1 where pure, else 4
    thorough: bool = False  # enough runs to come within a tenth of the claim

    @property
    def mechanism(self) -> type:
        return self.make.mechanism

    @property
    def takes(self) -> str:
        return self.make.takes

    @property
    def family(self) -> str:
        return LAPLACE if self.pure else GAUSSIAN

    def build(self, epsilon: float, delta: float | None, size: AuditSize) -> Any:
        """The mechanism with the least noise for a claim of (epsilon, delta), at a size of the audit."""
        if not self.pure and delta is None:
            raise PlanError("delta-range", "Gaussian noise needs a delta.", "Pass --delta 1e-6, say.")
        budget = Budget.of(epsilon, None if self.pure else delta)
        return self.make(budget, size.setting_for(self.takes, self.trips), size, **self.small)


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to make a release, or a comparator, which has no case because nothing is released by it."""

    kind: str
    name: str
    summary: str
    cases: Mapping[str, Entry] = field(
        default_factory=dict
    )  # by audit case; the release is built as the first
    compared: Build | None = None  # of a comparator
    uses: tuple[str, ...] = ()  # options that shape its output
    sets: Mapping[str, Any] = field(default_factory=dict)  # options that it sets itself
    finish_at: str = ""  # of what becomes of its noisy output: (noisy, setting, options)
    set_by_epsilon: bool = True  # False: a comparator whose noise does not follow from any epsilon

    @property
    def sound(self) -> bool:
        """Whether it may be released."""
        return bool(self.cases)

    @property
    def families(self) -> tuple[str, ...]:
        """The noise families that it can be released with."""
        return tuple(dict.fromkeys(entry.family for entry in self.cases.values()))

    @property
    def pure(self) -> bool:
        """Whether it takes no delta."""
        return GAUSSIAN not in self.families

    @property
    def make(self) -> Build:
        if self.compared is not None:
            return self.compared
        return next(iter(self.cases.values())).make

    @property
    def takes(self) -> str:
        return self.make.takes

    @property
    def mechanism(self) -> Any:
        """The class of the mechanism."""
        return self.make.mechanism

    @property
    def baseline(self) -> bool:
        """Whether it is a baseline."""
        return self.make.place.startswith(PACKAGE)

    def build(self, budget: Budget, setting: Any, options: Any = None) -> Any:
        """The mechanism of a release. The family of its noise follows from the budget."""
        family = LAPLACE if budget.pure else GAUSSIAN
        if self.cases and family not in self.families:
            raise GuaranteeError("noise-family", f"the method {self.name} has no {family} noise.")
        return self.make(budget, setting, self._options(options))

    def finish(self, noisy: Any, setting: Any, options: Any = None) -> Any:
        """What is released, from noisy output and public things."""
        return at(self.finish_at)(noisy, setting, self._options(options))

    def _options(self, options: Any) -> Any:
        return replace(options, **self.sets) if self.sets else options


class Methods(Mapping[str, Method]):
    """Methods of a kind by name: those of shoal, then those of shoal-baselines where it is installed.

    The baselines are loaded when all names are asked for, or one that is not of shoal.
    """

    def __init__(self, kind: str, own: Mapping[str, Method], theirs: str) -> None:
        self.kind, self.own, self.theirs = kind, own, theirs

    def __getitem__(self, name: str) -> Method:
        return self.own[name] if name in self.own else self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def named(self, name: str) -> Method:
        """The method called `name`; an unknown name is refused with the nearest one that exists."""
        if name in self:
            return self[name]
        if lacks(self.kind, name):
            raise missing(f"the method {name}")
        near = get_close_matches(name, self, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(self)}."
        raise PlanError(f"{self.kind}-method", f"no {self.kind} method is called {name!r}.", hint)

    def _all(self) -> dict[str, Method]:
        return {**self.own, **part(self.theirs, {}).get(self.kind, {})}


def one_case(
    kind: str, name: str, summary: str, entry: Entry, *uses: str, finish: str = "", **sets: Any
) -> Method:
    """A method with one audit case, which is called like it."""
    cases = {f"{kind}-{name}": entry}
    return Method(kind=kind, name=name, summary=summary, cases=cases, finish_at=finish, uses=uses, sets=sets)


def by_name(*methods: Method) -> dict[str, Method]:
    return {method.name: method for method in methods}
