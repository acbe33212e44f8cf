"""A planted bug: its name, and how a correct pipeline gets it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from shoal.auditing.pairs import NEW, Pair, at, crowd_pair
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.replay import KeepsEverything
from shoal.privacy.noise import Noise, SeededNoise

Rule = Callable[[np.ndarray], np.ndarray]  # on raw counts


@dataclass(frozen=True)
class Shown:
    """The pair and the kind of transcript on which a bug shows: tried before the others."""

    pair: Pair
    source: Callable[[], Noise] = KeepsEverything
    swap: bool = False  # recorded on the larger table


@dataclass(frozen=True, kw_only=True)
class Bug:
    """One thing that is wrong."""

    name: str
    plant: Callable[[Pipeline], Pipeline]
    raises: bool = False  # the bug is an exception
    shown: Shown | None = None


Family = Callable[[Pipeline], list[Bug]]  # the bugs of one kind that a pipeline can have
Families = Mapping[type[Pipeline], tuple[Family, ...]]


def step_bug(name: str, shown: Shown | None = None, **steps: Any) -> Bug:
    """Other steps in the pipeline."""
    return Bug(name=name, plant=lambda true: replace(true, **steps), shown=shown)


def spread_bug(name: str, change: Callable[[Any], Any], shown: Shown | None = None) -> Bug:
    """The stage or query interface of the mechanism is changed before the mechanism gets it."""

    def spread(true: Pipeline, *given: Any) -> Any:
        return change(true.spread(*given))

    return Bug(name=name, plant=lambda true: replace(true, spread=partial(spread, true)), shown=shown)


def interface_bug(name: str, shown: Shown | None = None, **sums: Callable[..., Any]) -> Bug:
    """A query interface that makes some of its sums in another way, from the true one and the arguments."""
    return spread_bug(name, lambda true: OtherInterface(true, sums), shown)


class OtherInterface:
    """A query interface with some of its sums replaced; `inner` answers the rest."""

    def __init__(self, inner: Any, sums: dict[str, Callable[..., Any]]) -> None:
        self.inner, self.sums = inner, sums

    def __getattr__(self, name: str) -> Any:
        return partial(self.sums[name], self.inner) if name in self.sums else getattr(self.inner, name)


def people_bug(name: str, change: Callable[[np.ndarray, Any], np.ndarray]) -> Bug:
    """Released people changed after post-processing, with a look at the bounded data."""

    def estimate(true: Pipeline, noisy: Any, bounded: Any, setting: Any) -> Any:
        released = true.estimate(noisy, bounded, setting)
        return replace(released, people=change(released.people, bounded))

    return Bug(name=name, plant=lambda true: replace(true, estimate=partial(estimate, true)))


@dataclass(frozen=True)
class TrueCall:
    """The call of the true mechanism, with other parameters where some are given."""

    mechanism: Any
    more: tuple[Any, ...]

    def __call__(self, exact: Any, noise: Noise, **parameters: Any) -> Any:
        mechanism = replace(self.mechanism, **parameters) if parameters else self.mechanism
        true: Any = type(mechanism).__base__  # the mechanism is of a subclass that has the bug
        return true.__call__(mechanism, exact, noise, *self.more)


def call_bug(name: str, change: Callable[..., Any], *, raises: bool = False, **more: Any) -> Bug:
    """Another call of the mechanism; `change(true call, exact, noise)` starts from the true one."""

    def call(self: Any, exact: Any, noise: Noise, *arguments: Any) -> Any:
        return change(TrueCall(self, arguments), exact, noise)

    return replace(method_bug(name, __call__=call, **more), raises=raises)


def result_bug(name: str, **changes: Callable[[Any, Any], Any]) -> Bug:
    """Fields of the noisy result changed with a look at what is exact: `change(noisy, exact)`."""

    def changed(noisy: Any, exact: Any) -> Any:
        return replace(noisy, **{field: change(noisy, exact) for field, change in changes.items()})

    return call_bug(name, lambda true, exact, noise: changed(true(exact, noise), exact))


def noise_bug(name: str, wrap: Callable[[Noise], Noise], **more: Any) -> Bug:
    """The mechanism asks its noise for something else; `wrap(noise)` changes what it asks."""
    return call_bug(name, lambda true, exact, noise: true(exact, wrap(noise)), **more)


def method_bug(name: str, shown: Shown | None = None, **methods: Any) -> Bug:
    """Other methods in the mechanism."""
    return Bug(
        name=name,
        plant=lambda true: replace(true, mechanism=recast(true.mechanism, methods)),
        shown=shown,
    )


def recast(instance: Any, methods: dict[str, Any]) -> Any:
    """The same parameters in a subclass with other methods."""
    public = {field.name: getattr(instance, field.name) for field in fields(instance) if field.init}
    return subclass(type(instance), **methods)(**public)


def subclass(kind: type, **methods: Any) -> Any:
    """A class of the same name with other methods."""
    return type(kind.__name__, (kind,), methods)


# --- where bugs show --------------------------------------------------------------------------------------


def crowd_of(users: int, true: Pipeline) -> Shown:
    """So many users in the same cells, and one more."""
    return Shown(crowd_pair(users, true.world.size.ell), lambda: SeededNoise(7))


def one_user(does: str, true: Pipeline, sites: Sequence[int], *, apart: bool = True) -> Shown:
    """Nobody, and a user at the same sites in each of `ell` slots; `apart`: at one after another."""
    rows = tuple(
        (NEW, at(slot, k if apart else 1), site)
        for slot in range(true.world.size.ell)
        for k, site in enumerate(sites)
    )
    return Shown(Pair(f"nobody, and a user who {does}", (), rows))


def light_among_heavy(true: Pipeline) -> Shown:
    """A user with one visit where all others have as many as may be kept."""
    users, visits = range(2 * true.world.slots), range(true.world.size.ell)
    heavy = tuple((user, at(slot), 0) for user in users for slot in visits)
    return Shown(Pair("one light user among many heavy ones", heavy, ((NEW, at(0), 0),)))


# --- rules on raw counts ----------------------------------------------------------------------------------


def suppress(least: float) -> Rule:
    """Small raw counts become zero: the habit of statistical offices, without their noise."""
    return lambda counts: np.where(counts < least, 0, counts)


def drop(most: float) -> Rule:
    return lambda counts: np.where(counts > most, 0, counts)


def round_to(step: int) -> Rule:
    return lambda counts: np.rint(counts / step).astype(np.int64) * step


def rule_bugs(
    true: Pipeline, plant: Callable[[str, Rule], Bug], *, low: str, high: str, each: int = 1
) -> list[Bug]:
    """Suppression, removal of outliers and rounding, shown by the crowd at whose size the rule changes.

    Args:
        low, high: what is suppressed, and what is dropped.
        each: how many of them a user adds.
    """
    rules = [
        *((f"{low} below {k} suppressed", suppress(k - 0.5), k - 1) for k in (5, 10, 20)),
        *((f"{high} above {k} dropped as outliers", drop(k + 0.5), k) for k in (7, 12, 15)),
        (f"{low} rounded to 10", round_to(10), 5),
    ]
    return [replace(plant(name, rule), shown=crowd_of(size // each, true)) for name, rule, size in rules]


class ChangedPart:
    """A part of a mechanism whose results are changed with a look at its exact input."""

    def __init__(self, true: Any, change: Callable[[Any, Any], Any]) -> None:
        self.true, self.change, self.true_results = true, change, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.true, name)

    def __call__(self, exact: Any, noise: Noise) -> Any:
        self.true_results.append(self.true(exact, noise))
        return self.change(self.true_results[-1], exact)
