"""What a density method is: how its mechanism is built, how its noisy output becomes people, its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from shoal.privacy.accounting import Loss
from shoal.privacy.budget import Budget
from shoal.privacy.noise import Noise
from shoal.privacy.unit import declared_size
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

    def __post_init__(self) -> None:
        if self.users is not None:
            object.__setattr__(self, "users", declared_size(self.users))


class DensityMechanism(Protocol):
    """Frozen parameters, its loss and the named spends that add up to it, one call."""

    name: str
    takes: str  # the stage: "counts" | "scalable" | "cover" | "bounded" | "visits"

    def loss(self) -> Loss: ...
    def spends(self) -> tuple[tuple[str, Loss], ...]: ...
    def __call__(self, exact: Any, noise: Noise) -> Any: ...


@dataclass(frozen=True)
class NoiseOfCount:
    """The noise in one released count before post-processing, where it has a formula."""

    family: str  # "gaussian" | "laplace"
    deviation: float  # standard deviation, in people


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way from counts to released people."""

    name: str
    words: str  # one plain line
    kind: str = "release"  # or "comparison"
    pure: bool
    build: Callable[[Budget, Setting, MethodOptions], Any]  # a DensityMechanism, or a comparator
    finish: Callable[[Any, Setting, MethodOptions], DensityEstimate]
    describe: Callable[[Any], Mapping[str, Any]] = lambda mechanism: mechanism.describe()  # for the manifest
    reading: Callable[[Any], tuple[str, ...]] = lambda mechanism: ()  # for the recipient, point by point
    noise: Callable[[Any], NoiseOfCount] | None = None  # of a mechanism; None: no formula
    set_by_epsilon: bool = True  # False: a comparator whose noise does not follow from any epsilon
    uses: tuple[str, ...] = ()  # of ell, cap, nights and users: those that shape this method's output
