"""Every density method by its name: how its mechanism is built, how its noisy output becomes people.

A method of kind "release" may be released; one of kind "comparison" has no guarantee for users, or less than
its epsilon reads like, and can be compared only.

>>> sorted(name for name, method in METHODS.items() if method.pure)[:2]
['laplace']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from shoal.errors import PlanError
from shoal.mechanisms.density_gaussian import DensityGaussian
from shoal.mechanisms.density_laplace import DensityLaplace
from shoal.postprocess.density import plain_density
from shoal.privacy.accounting import Loss
from shoal.privacy.budget import Budget
from shoal.privacy.noise import Noise
from shoal.space.setting import Setting
from shoal.stages.noisy import DensityEstimate


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """What the owner declares about a method, all of it public."""

    ell: int = 30  # visits kept per user, where the method keeps a sample
    cap: int = 250  # M: visits per user that enter the number of visits
    decimals: int = 1
    nights: bool = True  # smooth the nights, where the method can
    users: int | None = None  # declared order of magnitude of the population


class DensityMechanism(Protocol):
    """Frozen parameters, its loss and the named spends that add up to it, one call."""

    name: str
    takes: str  # the stage: "counts" | "cover" | "visits"

    def loss(self) -> Loss: ...
    def spends(self) -> tuple[tuple[str, Loss], ...]: ...
    def __call__(self, exact: Any, noise: Noise) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way from counts to released people."""

    name: str
    words: str  # one plain line
    kind: str = "release"  # or "comparison"
    pure: bool
    build: Callable[[Budget, Setting, MethodOptions], DensityMechanism]
    finish: Callable[[Any, Setting, MethodOptions], DensityEstimate]
    describe: Callable[[Any], Mapping[str, Any]] = lambda mechanism: mechanism.describe()  # for the manifest
    reading: Callable[[Any], str]  # for the recipient: what was done to the counts, how to read them
    uses: tuple[str, ...] = ()  # of cap, nights and users: those that shape this method's output


def method_named(name: str) -> Method:
    """The method called `name`, of those that can be released."""
    if name in METHODS:
        return METHODS[name]
    raise PlanError("plan-method", f"there is no method {name!r}.", f"Use {_listed(METHODS)}.")


def build_gaussian(budget: Budget, setting: Setting, options: MethodOptions) -> DensityGaussian:
    counts, _ = budget.take("counts", 1)
    weights = setting.weights
    return DensityGaussian.within(
        counts.rho_nano,
        ell=options.ell,
        slots=setting.slots,
        column_l2_squared=weights.column_l2_squared,
        lattice=weights.lattice,
    )


def build_laplace(budget: Budget, setting: Setting, options: MethodOptions) -> DensityLaplace:
    counts, _ = budget.take("counts", 1)
    weights = setting.weights
    return DensityLaplace.within(
        counts.epsilon_nano,
        ell=options.ell,
        slots=setting.slots,
        column_l1=weights.column_l1,
        lattice=weights.lattice,
    )


def _plain_reading(family: str, mean: float, half: float, scale_words: str) -> str:
    return (
        f"{family} noise was added to every zone and slot: it is {mean:.1f} on average, and less than "
        f"{half:.1f} in 95 of 100 cases. "
        "Then negative counts were removed in a way that keeps each slot's total where that is above zero: "
        "the same amount was taken off every zone of a slot and what fell below zero was set to zero. So "
        "where most zones of a slot are nearly empty, `people` in the busy ones is low by up to about the "
        "size of the noise, and the nearly empty ones are high on average: sum over zones rather than over "
        "the slots of a quiet zone. The noise of a sum of n counts grows like the square root of n. "
        "`people_low` and `people_high` are the ends of the 95 % interval around the noisy count, before "
        "that step, cut at zero; they do not cover what the bound leaves out. Counts much smaller than the "
        "noise say little. In the manifest, `noise_scale_people` is the noise of one count in people: its "
        f"{scale_words}."
    )


def _read_gaussian(mechanism: DensityGaussian) -> str:
    sigma = mechanism.sigma / mechanism.lattice
    return _plain_reading("Gaussian", sigma * math.sqrt(2 / math.pi), 1.959964 * sigma, "standard deviation")


def _read_laplace(mechanism: DensityLaplace) -> str:
    scale = mechanism.scale / mechanism.lattice
    return _plain_reading("Laplace", scale, scale * math.log(20), "mean size (the scale b)")


def _finish_plain(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return plain_density(noisy)


def _listed(names: Mapping[str, Any]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="gaussian",
            words="plain counts with Gaussian noise (GPA)",
            pure=False,
            build=build_gaussian,
            finish=_finish_plain,
            describe=lambda m: {"noise_scale_people": m.sigma / m.lattice, "lattice": m.lattice},
            reading=_read_gaussian,
        ),
        Method(
            name="laplace",
            words="plain counts with Laplace noise, pure (LPA)",
            pure=True,
            build=build_laplace,
            finish=_finish_plain,
            describe=lambda m: {"noise_scale_people": m.scale / m.lattice, "lattice": m.lattice},
            reading=_read_laplace,
        ),
    )
}
