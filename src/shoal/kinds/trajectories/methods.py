"""The methods a comparison of trajectory releases knows, by name: neighbours, the published one, our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples
from shoal_baselines.anonymise.hulls import steps_of
from shoal_baselines.anonymise.methods import NEIGHBOURS


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


def _tracked(at: Setting, hide: Callable[..., Any], words: str, as_said: str = "") -> Method:
    """A method that promises k records for any tau; the tracker's verdict is the check."""
    tau, epoch = steps_of(at.tau_minutes, at.lattice), steps_of(at.epoch_minutes, at.lattice)
    return Method(
        promise=f"any {at.tau_minutes} min fit {at.k} records{as_said}",
        truthful=True,
        words=words,
        make=lambda samples, _: hide(k=at.k, tau_steps=tau, epoch_steps=epoch)(samples),
        broken=None,
    )


def _kte(at: Setting) -> Method:
    from shoal.anonymise.kte import Kte

    return _tracked(at, Kte, "the release of `shoal trajectories run`")


def _published(at: Setting) -> Method:
    from shoal_baselines.comparators.kte_hide import KteHide

    return _tracked(at, KteHide, "kte-hide as published, for comparison only", ", as published")


METHODS: dict[str, Callable[[Setting], Method]] = {
    **{name: _neighbour(name) for name in NEIGHBOURS},
    "published": _published,
    "kte": _kte,
}
