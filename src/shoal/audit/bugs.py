"""What a planted bug is: a name, and how a correct pipeline gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from shoal.audit.pairs import Pair
from shoal.audit.pipeline import Pipeline
from shoal.privacy.noise import Noise


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


def step_bug(name: str, **steps: Any) -> Bug:
    """Other steps in the pipeline."""
    return Bug(name=name, plant=lambda true: replace(true, **steps))


def call_bug(name: str, change: Callable[..., Any], *, raises: bool = False) -> Bug:
    """Another call of the mechanism; `change(true call, exact, noise)` starts from the true one."""

    def plant(true: Pipeline) -> Pipeline:
        kind: Any = type(true.mechanism)

        def call(self, exact, noise):
            return change(lambda e, n: kind.__call__(self, e, n), exact, noise)

        return replace(true, mechanism=recast(true.mechanism, {"__call__": call}))

    return Bug(name=name, plant=plant, raises=raises)


def noise_bug(name: str, wrap: Callable[[Noise, Any], Noise], *, raises: bool = False) -> Bug:
    """The mechanism asks its noise for something else; `wrap(noise, mechanism)` changes what it asks."""

    def plant(true: Pipeline) -> Pipeline:
        kind: Any = type(true.mechanism)

        def call(self, exact, noise, *more):
            return kind.__call__(self, exact, wrap(noise, self), *more)

        return replace(true, mechanism=recast(true.mechanism, {"__call__": call}))

    return Bug(name=name, plant=plant, raises=raises)


def method_bug(name: str, shown: Shown | None = None, **methods: Any) -> Bug:
    """Other methods in the mechanism."""

    def plant(true: Pipeline) -> Pipeline:
        return replace(true, mechanism=recast(true.mechanism, methods))

    return Bug(name=name, plant=plant, shown=shown)


def recast(mechanism: Any, methods: dict[str, Any]) -> Any:
    """The same parameters in a subclass with other methods."""
    kind = type(mechanism)
    other: Any = type(kind.__name__, (kind,), methods)
    return other(**{field.name: getattr(mechanism, field.name) for field in fields(mechanism)})
