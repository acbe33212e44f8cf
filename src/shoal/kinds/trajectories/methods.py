"""The methods a comparison of trajectory releases knows, by name: baselines, the published one, our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.baselines import needed
from shoal.errors import PlanError
from shoal.setting import Plan, rule, setting
from shoal.space.lattice import Lattice, steps_of
from shoal.stages.trajectories import Boxes, LatticeSamples


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings of a method."""

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


def tracked(at: Setting, hide: Callable[..., Any], words: str, as_said: str = "") -> Method:
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

    return tracked(at, Kte, "the release of `shoal trajectories run`")


METHODS: dict[str, Callable[[Setting], Method]] = {"kte": _kte}


def compared_methods() -> dict[str, Callable[[Setting], Method]]:
    """Every method of a comparison by name: baselines first, then our own."""
    return {**needed("anonymise.methods:ROWS", "a comparison of trajectories"), **METHODS}


@dataclass(frozen=True, kw_only=True)
class TrajectoryComparison(Plan):
    """A comparison: methods by name, at one k, against a tracker of tau."""

    k: int = setting(2, "People to hide among.", least=2, code="compare-range")
    tau_minutes: int = setting(30, "How long an adversary tracks a person.", least=1, code="compare-range")
    epoch_minutes: int = setting(30, "Epoch of the release.", least=1, code="compare-range")
    methods: tuple[str, ...] = setting(
        (),
        "raw, grid, grid-k, h3, h3-k, km1, km2, nwa, full-length, published, kte.",
        shown="all",
        metavar="NAME,...",
    )
    users: int = setting(3000, "A sample of the people.", least=2, code="compare-range")
    seed: int = setting(1, "Seed of sample and attacks.", least=0)

    @rule("methods")
    def _known_methods(self) -> None:
        known = compared_methods()
        unknown = [name for name in self.methods if name not in known]
        if unknown:
            raise PlanError(
                "compare-method",
                f'there is no method "{unknown[0]}"; known are {", ".join(known)}.',
                "Pass --methods raw,kte, say.",
            )
