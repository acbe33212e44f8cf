"""How synthetic trips may be made: names, the mechanism of each, what its spends pay for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from shoal.errors import PlanError
from shoal.privacy.accounting import Loss
from shoal.privacy.budget import Budget
from shoal.privacy.noise import Noise
from shoal.space.commute_setting import CommuteSetting
from shoal.space.path_setting import PathSetting
from shoal.stages.synthetic import MovementModel
from shoal.stages.trips import UserPaths


class SyntheticMechanism(Protocol):
    """Frozen parameters, a loss in named parts, one call."""

    @property
    def name(self) -> str: ...

    def loss(self) -> Loss: ...

    def spends(self) -> Iterable[tuple[str, Loss]]: ...

    def describe(self) -> dict[str, Any]: ...

    def __call__(self, paths: UserPaths, noise: Noise) -> MovementModel: ...


@dataclass(frozen=True)
class SyntheticMethod:
    """Where a mechanism is, imported when it is built; `words` for the dry run and the report."""

    name: str
    kind: str  # the class
    words: str
    baseline: bool = True  # there to compare with
    takes: str = "paths"  # of points; or "commutes", of records that name sites

    def build(self, budget: Budget, setting: PathSetting | CommuteSetting) -> Any:
        module = import_module(f"shoal.mechanisms.synthetic.{self.name}")
        return getattr(module, self.kind).within(budget, setting)


COMMUTES = "commutes"
METHODS = {
    each.name: each
    for each in (
        SyntheticMethod(
            "bridges",
            "SyntheticBridges",
            "Starts, ends, lengths and flows from noisy tables; the way between is drawn by noisy moves.",
            baseline=False,
        ),
        SyntheticMethod("markov", "SyntheticMarkov", "A noisy chain over cells, step by step until it ends."),
        SyntheticMethod("ngram", "SyntheticNgram", "The next step by the one to three cells before it."),
        SyntheticMethod("prefix", "SyntheticPrefix", "A noisy tree of how trips begin and go on."),
        SyntheticMethod("dpt", "SyntheticDpt", "Chains on grids of several sizes, each for its own speeds."),
        SyntheticMethod(
            "commute",
            "SyntheticCommute",
            "Homes, work places, commutes and hours of calls, from records that name sites.",
            baseline=False,
            takes=COMMUTES,
        ),
    )
}
TRIPS = tuple(name for name, each in METHODS.items() if each.takes != COMMUTES)
EVENTS = tuple(name for name, each in METHODS.items() if each.takes == COMMUTES)
DEFAULT_METHOD = "bridges"


def synthetic_method(name: str) -> SyntheticMethod:
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(METHODS)}."
        raise PlanError("synthetic-method", f"no method of synthetic trips is called {name!r}.", hint)
    return METHODS[name]


PAYS_FOR = {
    "trips": "the number of trips",
    "tables": "moves, starts and ends, flows, lengths, stays, turns and times",
    "hours": "the hours at which trips start",
    "starts": "where trips start",
    "steps": "where trips go from a cell, stay and end",
    "stays": "how long trips stay",
    **{f"grams_{cells}": f"sequences of {cells} cells" for cells in (2, 3, 4)},
    **{f"level_{level}": f"level {level} of the trees of trips" for level in range(1, 33)},
}

SITES_PAY_FOR = {
    "users": "the number of users",
    "people": "how many commute, and how often users call",
    "homes": "where users live",
    "works": "where commuters work",
    "distances": "how far commuters go",
    "flows": "between which regions they go",
    "hours": "the hours of calls",
    "places": "whether calls are at home, at work or elsewhere",
    "elsewhere": "where other calls are",
    "reach": "how far from home or work they are",
}
