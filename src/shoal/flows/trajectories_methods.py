"""The methods a comparison of trajectory releases knows, by name: neighbours, the published one, our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.anonymise.neighbours.hulls import steps_of
from shoal.anonymise.neighbours.registry import NEIGHBOURS
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a method is set at."""

    k: int
    tau_minutes: int
    epoch_minutes: int
    lattice: Lattice


@dataclass(frozen=True, kw_only=True)
class Method:
    """One row: what it promises and does, how boxes are made, and how often they break its own promise."""

    promise: str
    truthful: bool
    words: str
    make: Callable[[LatticeSamples, Lattice], Boxes]
    broken: Callable[[Boxes, Lattice], int | None] | None  # None: the tracker's verdict is the check


def _neighbour(name: str) -> Callable[[Setting], Method]:
    def made(at: Setting) -> Method:
        entry = NEIGHBOURS[name]
        method = entry.make(at.k)
        return Method(
            promise=method.promise,
            truthful=method.truthful,
            words=entry.words,
            make=method,
            broken=method.broken,
        )

    return made


def _kte(at: Setting) -> Method:
    from shoal.anonymise.kte import Kte

    tau, epoch = steps_of(at.tau_minutes, at.lattice), steps_of(at.epoch_minutes, at.lattice)
    return Method(
        promise=f"any {at.tau_minutes} min fit {at.k} records",
        truthful=True,
        words="the release of `shoal trajectories run`",
        make=lambda samples, _: Kte(k=at.k, tau_steps=tau, epoch_steps=epoch)(samples),
        broken=None,
    )


def _published(at: Setting) -> Method:
    from shoal.comparators.kte_hide import KteHide

    tau, epoch = steps_of(at.tau_minutes, at.lattice), steps_of(at.epoch_minutes, at.lattice)
    return Method(
        promise=f"any {at.tau_minutes} min fit {at.k} records, as published",
        truthful=True,
        words="kte-hide as published, for comparison only",
        make=lambda samples, _: KteHide(k=at.k, tau_steps=tau, epoch_steps=epoch)(samples),
        broken=None,
    )


METHODS: dict[str, Callable[[Setting], Method]] = {
    **{name: _neighbour(name) for name in NEIGHBOURS},
    "published": _published,
    "kte": _kte,
}
