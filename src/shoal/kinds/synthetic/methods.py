"""How synthetic trips may be made: names, the mechanism of each, what its spends pay for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from shoal.baselines import lacks, missing
from shoal.errors import PlanError
from shoal.mechanisms import methods
from shoal.mechanisms.method import Method, Methods
from shoal.privacy.accounting import Loss

if TYPE_CHECKING:
    from shoal.privacy.noise import Noise
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


COMMUTES = "commutes"
METHODS = Methods("synthetic", methods.SYNTHETIC, "methods:METHODS")
EVENTS = {name: each for name, each in methods.SYNTHETIC.items() if each.takes == COMMUTES}
TRIPS = Methods(
    "synthetic",
    {name: each for name, each in methods.SYNTHETIC.items() if each.takes != COMMUTES},
    "methods:METHODS",
)
DEFAULT_METHOD = "bridges"


def synthetic_method(name: str) -> Method:
    if name in METHODS:
        return METHODS[name]
    if lacks("synthetic", name):
        raise missing(f"the method {name}")
    near = difflib.get_close_matches(name, METHODS, 1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(METHODS)}."
    raise PlanError("synthetic-method", f"no method of synthetic trips is called {name!r}.", hint)


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
