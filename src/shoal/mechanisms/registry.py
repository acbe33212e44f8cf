"""Every mechanism of the package, with what the audit needs to know about it.

Three checks walk this dict: replay, lower bounds and planted bugs (shoal/audit). A class in this folder
that has a `loss()` and is missing here fails `tests/contract/test_registry.py`.

>>> entry = REGISTRY["density-laplace"]
>>> mechanism = entry.build(1.0, None, entry.size)
>>> before, after = entry.worst_pair(entry.size)
>>> entry.distance(before, after) == entry.sensitivity(mechanism)    # the pair reaches the bound
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from shoal.errors import PlanError
from shoal.mechanisms.density_gaussian import DensityGaussian
from shoal.mechanisms.density_laplace import DensityLaplace
from shoal.privacy.accounting import Loss, check_delta, check_epsilon, nano, rho_for
from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


class Mechanism(Protocol):
    """Frozen parameters, `loss()`, one call."""

    name: str

    @property
    def lattice(self) -> int: ...
    def loss(self) -> Loss: ...
    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts: ...


@dataclass(frozen=True, kw_only=True)
class AuditSize:
    """A size small enough to run a mechanism a million times."""

    zones: int
    slots: int
    ell: int
    lattice: int = 2**20

    def side_by_side(self, replicas: int) -> AuditSize:
        """Room for many independent runs in one call: `slots` further slots for each."""
        return replace(self, slots=self.slots * replicas)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One registered mechanism."""

    mechanism: type
    releases: str
    guarantee: str  # as a function of the parameters; executable in mechanism.loss()
    norm: str  # of the sensitivity: "l1" | "l2-squared", in lattice units
    sensitivity: Callable[..., Fraction]  # of a mechanism, in that norm
    build: Callable[..., Mechanism]  # (epsilon, delta, size, kind=class) -> mechanism
    worst_pair: Callable[[AuditSize], tuple[ExactCounts, ExactCounts]]
    size: AuditSize  # for replay and whole pipelines
    replica: AuditSize  # of one run where a million runs are drawn side by side
    spends: tuple[str, ...]  # names of the noise calls, each a spend of the budget
    has_mu: bool  # Gaussian: a lower bound on mu shows tightness that a small delta hides

    def distance(self, before: ExactCounts, after: ExactCounts) -> Fraction:
        """How far apart two inputs are in the norm of the sensitivity, exactly."""
        change = [abs(int(c)) for c in (after.units - before.units).ravel()]
        return Fraction(sum(change) if self.norm == "l1" else sum(c * c for c in change))


def one_user_in_empty_city(size: AuditSize) -> tuple[ExactCounts, ExactCounts]:
    """Nobody, and one user who spends `ell` slots with a whole visit in one zone."""
    nobody = np.zeros((size.zones, size.slots), np.int64)
    somebody = nobody.copy()
    somebody[0, : size.ell] = size.lattice

    def counts(units: np.ndarray) -> ExactCounts:
        return ExactCounts(
            units=units,
            lattice=size.lattice,
            ell=size.ell,
            column_l1=size.lattice,
            column_l2_squared=size.lattice**2,
        )

    return counts(nobody), counts(somebody)


def _build_gaussian(epsilon: float, delta: float | None, size: AuditSize, kind=DensityGaussian):
    if delta is None:
        raise PlanError("delta-range", "Gaussian noise needs a delta.", "Pass --delta 1e-6, say.")
    return kind.within(
        rho_for(epsilon, check_delta(delta)),
        ell=size.ell,
        slots=size.slots,
        column_l2_squared=size.lattice**2,
        lattice=size.lattice,
    )


def _build_laplace(epsilon: float, delta: float | None, size: AuditSize, kind=DensityLaplace):
    return kind.within(
        nano(check_epsilon(epsilon)),
        ell=size.ell,
        slots=size.slots,
        column_l1=size.lattice,
        lattice=size.lattice,
    )


REGISTRY: dict[str, Entry] = {
    "density-gaussian": Entry(
        mechanism=DensityGaussian,
        releases="people per zone and slot",
        guarantee="rho-zCDP, rho = ell max_s |W_s|_2^2 / (2 sigma^2)",
        norm="l2-squared",
        sensitivity=lambda mechanism: mechanism.sensitivity_squared,
        build=_build_gaussian,
        worst_pair=one_user_in_empty_city,
        size=AuditSize(zones=3, slots=6, ell=2),
        replica=AuditSize(zones=1, slots=1, ell=1),
        spends=("counts",),
        has_mu=True,
    ),
    "density-laplace": Entry(
        mechanism=DensityLaplace,
        releases="people per zone and slot",
        guarantee="epsilon-DP, epsilon = ell max_s |W_s|_1 / b",
        norm="l1",
        sensitivity=lambda mechanism: mechanism.sensitivity,
        build=_build_laplace,
        worst_pair=one_user_in_empty_city,
        size=AuditSize(zones=3, slots=6, ell=2),
        replica=AuditSize(zones=1, slots=2, ell=2),
        spends=("counts",),
        has_mu=False,
    ),
}


def entry_of(name: str) -> Entry:
    """The entry called `name`."""
    if name not in REGISTRY:
        known = ", ".join(sorted(REGISTRY))
        raise PlanError("unknown-mechanism", f'no mechanism is called "{name}".', f"Known: {known}.")
    return REGISTRY[name]
