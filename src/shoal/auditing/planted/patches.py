"""What a planted bug is: a name, and how a correct pipeline gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from shoal.auditing.pairs import NEW, Pair, at, crowd_pair
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.spend_runs import KeepsEverything
from shoal.privacy.noise import Noise, SeededNoise

Rule = Callable[[np.ndarray], np.ndarray]  # on raw counts


@dataclass(frozen=True)
class Shown:
    """The pair and the kind of transcript on which a bug shows: tried before the others."""

    pair: Pair
    source: Callable[[], Noise]
    swap: bool = False  # recorded on the larger table


@dataclass(frozen=True, kw_only=True)
class Bug:
    """One thing that is wrong."""

    name: str
    plant: Callable[[Pipeline], Pipeline]
    raises: bool = False  # the bug is an exception
    shown: Shown | None = None


def step_bug(name: str, shown: Shown | None = None, **steps: Any) -> Bug:
    """Other steps in the pipeline."""
    return Bug(name=name, plant=lambda true: replace(true, **steps), shown=shown)


def spread_bug(name: str, change: Callable[[Any], Any], shown: Shown | None = None) -> Bug:
    """What the mechanism is handed, a stage or a query interface, changed before it sees it."""

    def plant(true: Pipeline) -> Pipeline:
        return replace(true, spread=lambda *given: change(true.spread(*given)))

    return Bug(name=name, plant=plant, shown=shown)


def call_bug(name: str, change: Callable[..., Any], *, raises: bool = False) -> Bug:
    """Another call of the mechanism; `change(true call, exact, noise)` starts from the true one."""

    def plant(true: Pipeline) -> Pipeline:
        kind: Any = type(true.mechanism)

        def call(self, exact, noise, *more):
            return change(lambda e, n: kind.__call__(self, e, n, *more), exact, noise)

        return replace(true, mechanism=recast(true.mechanism, {"__call__": call}))

    return Bug(name=name, plant=plant, raises=raises)


def noise_bug(name: str, wrap: Callable[[Noise], Noise], *, raises: bool = False) -> Bug:
    """The mechanism asks its noise for something else; `wrap(noise)` changes what it asks."""
    return call_bug(name, lambda true, exact, noise: true(exact, wrap(noise)), raises=raises)


def parameter_bug(name: str, change: Callable[[Any, Any], Any], shown: Shown | None = None) -> Bug:
    """Each call with other parameters than are claimed for; `change(mechanism, exact)` has them."""

    def plant(true: Pipeline) -> Pipeline:
        kind: Any = type(true.mechanism)

        def call(self, exact, noise):
            return kind.__call__(change(self, exact), exact, noise)

        return replace(true, mechanism=recast(true.mechanism, {"__call__": call}))

    return Bug(name=name, plant=plant, shown=shown)


def method_bug(name: str, shown: Shown | None = None, **methods: Any) -> Bug:
    """Other methods in the mechanism."""

    def plant(true: Pipeline) -> Pipeline:
        return replace(true, mechanism=recast(true.mechanism, methods))

    return Bug(name=name, plant=plant, shown=shown)


def crowd_of(users: int, true: Pipeline) -> Shown:
    """So many users in the same cells, and one more."""
    return Shown(crowd_pair(users, true.world.ell), lambda: SeededNoise(7))


def light_among_heavy(true: Pipeline) -> Shown:
    """A user with one visit where all others have as many as are kept."""
    users, visits = range(2 * true.world.slots), range(true.world.ell)
    heavy = tuple((user, at(slot), 0) for user in users for slot in visits)
    return Shown(Pair("one light user among many heavy ones", heavy, ((NEW, at(0), 0),)), KeepsEverything)


class OtherDoor:
    """A query interface of the package with some of its sums changed; `inner` answers the rest."""

    def __init__(self, inner: Any, rule: Rule = lambda counts: counts) -> None:
        self.inner, self.rule = inner, rule

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def suppress(least: float) -> Rule:
    """Small raw counts become zero: the habit of statistical offices, without their noise."""
    return lambda counts: np.where(counts < least, 0, counts)


def drop(most: float) -> Rule:
    return lambda counts: np.where(counts > most, 0, counts)


def round_to(step: int) -> Rule:
    return lambda counts: np.rint(counts / step).astype(np.int64) * step


def recast(mechanism: Any, methods: dict[str, Any]) -> Any:
    """The same parameters in a subclass with other methods."""
    kind = type(mechanism)
    other: Any = type(kind.__name__, (kind,), methods)
    return other(**{field.name: getattr(mechanism, field.name) for field in fields(mechanism)})
