"""Every mechanism of the package, with what the audit needs to know about it.

Three checks walk this dict: replay, lower bounds and planted bugs (shoal/audit). A class in this folder
that has a `loss()` and is missing here fails `tests/contract/test_registry.py`. A class that is built in
several ways has an entry for each, named after it.

>>> entry = REGISTRY["density-laplace"]
>>> entry.build(1.0, None, entry.tight).loss().pure_epsilon_nano
1000000000
>>> entry.worst                                          # one visit: slot 0 at place 0
((0, 0),)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.errors import PlanError
from shoal.mechanisms.audit_size import COVERED, MANY_PLACES, ONE_PLACE, ONE_ZONE, AuditSize
from shoal.mechanisms.density.best import DensityBest
from shoal.mechanisms.density.clipped_gaussian import ClippedGaussian
from shoal.mechanisms.density.gaussian import DensityGaussian
from shoal.mechanisms.density.laplace import DensityLaplace
from shoal.mechanisms.density.scaled import ScaledCounts
from shoal.mechanisms.entry import Entry
from shoal.mechanisms.query.gaussian import QueryGaussian
from shoal.mechanisms.query.laplace import QueryLaplace
from shoal.mechanisms.query.weights import QueryWeights
from shoal.mechanisms.registry_histogram import HISTOGRAMS
from shoal.mechanisms.registry_synthetic import SYNTHETIC
from shoal.privacy.budget import Budget
from shoal.space.question import Questions
from shoal.space.setting import activity
from shoal_baselines.mechanisms.efpa import DensityEfpa
from shoal_baselines.mechanisms.efpag import DensityEfpag
from shoal_baselines.mechanisms.fpa import DensityFpa
from shoal_baselines.mechanisms.fpa_laplace import DensityFpaLaplace
from shoal_baselines.mechanisms.scm_full import DensityScmFull

AUDIT_WAVES = 4  # of six slots: so that some are left out
AUDIT_CLIP = 1.5  # of the one clipped measurement
AUDIT_UPDATES = 2  # of four questions


def _gaussian(kind: Any, **more: int) -> Callable[[Budget, AuditSize], Any]:
    """Counts, or waves of counts, with all of the budget in Gaussian noise."""

    def make(budget: Budget, size: AuditSize) -> Any:
        weights = size.setting.weights
        public = {"ell": size.ell, "slots": size.slots, "lattice": weights.lattice}
        return kind.within(budget.left, column_l2_squared=weights.column_l2_squared, **public, **more)

    return make


def _laplace(kind: Any, **more: int) -> Callable[[Budget, AuditSize], Any]:
    def make(budget: Budget, size: AuditSize) -> Any:
        weights = size.setting.weights
        public = {"ell": size.ell, "slots": size.slots, "lattice": weights.lattice}
        return kind.within(budget.left, column_l1=weights.column_l1, **public, **more)

    return make


def _scaled(counts: Callable[[Budget, AuditSize], Any]) -> Callable[[Budget, AuditSize], ScaledCounts]:
    def make(budget: Budget, size: AuditSize) -> ScaledCounts:
        def rest(left: int) -> Any:
            return counts(replace(budget, left=left), size)

        return ScaledCounts.within(budget, rest, cap=size.cap, ell=size.ell, slots=size.slots)

    return make


def _scheme(build: Callable[..., Any]) -> Callable[[Budget, AuditSize], Any]:
    def make(budget: Budget, size: AuditSize) -> Any:
        return build(budget, size.cover, slots=size.slots, ell=size.ell, cap=size.cap)

    return make


def _scm_full(budget: Budget, size: AuditSize) -> DensityScmFull:
    return DensityScmFull.within(budget.left, zones=size.zones, slots=size.slots, lattice=size.lattice)


def _clipped(budget: Budget, size: AuditSize) -> ClippedGaussian:
    return ClippedGaussian.within(budget.left, clip=AUDIT_CLIP, values=size.zones * size.slots)


def _best(budget: Budget, size: AuditSize) -> DensityBest:
    return DensityBest.within(budget, size.setting)


def audit_questions(size: AuditSize) -> Questions:
    """The questions of the size."""
    return Questions.of(size.questions, size.setting.weights, slots=size.slots, ell=size.ell)


def _query(kind: Any) -> Callable[[Budget, AuditSize], Any]:
    def make(budget: Budget, size: AuditSize) -> Any:
        return kind.within(budget.left, audit_questions(size))

    return make


def _query_weights(budget: Budget, size: AuditSize) -> QueryWeights:
    prior = np.outer(np.ones(size.zones), activity(size.setting.clock))
    return QueryWeights.within(budget, audit_questions(size), prior, updates=AUDIT_UPDATES)


PEOPLE = "people per zone and slot"
SCHEME = AuditSize(layout=COVERED, slots=8, ell=6, cap=7)
# Many visits at once: every clip is reached.
CROWDED = AuditSize(layout=MANY_PLACES, slots=1, ell=1, cap=len(MANY_PLACES[0]))
EVERYWHERE = tuple((0, place) for place in range(CROWDED.places))
WEIGHED = 0.95  # a user of a thousand visits has a weight of few steps, rounded down
# The choice of k pays for a range of twice the shift; one visit of two slots moves it by sqrt(1/2) of one.
SELECT_REACH = {"select": 0.125}
PURE_SELECT_REACH = {"select": 0.35}

REGISTRY: dict[str, Entry] = {
    "density-gaussian": Entry(
        mechanism=DensityGaussian,
        releases=PEOPLE,
        guarantee="rho-zCDP, rho = ell max_s |W_s|_2^2 / (2 sigma^2)",
        spends=("counts",),
        pure=False,
        make=_gaussian(DensityGaussian),
        thorough=True,
    ),
    "density-laplace": Entry(
        mechanism=DensityLaplace,
        releases=PEOPLE,
        guarantee="epsilon-DP, epsilon = ell max_s |W_s|_1 / b",
        spends=("counts",),
        pure=True,
        make=_laplace(DensityLaplace),
        thorough=True,
    ),
    "density-fpa": Entry(
        mechanism=DensityFpa,
        releases=f"{PEOPLE}, from their slowest waves",
        guarantee="rho-zCDP, rho = ell max_s |W_s|_2^2 |waves|^2 / (2 sigma^2)",
        spends=("coefficients",),
        pure=False,
        make=_gaussian(DensityFpa, k=AUDIT_WAVES),
    ),
    "density-fpa-laplace": Entry(
        mechanism=DensityFpaLaplace,
        releases=f"{PEOPLE}, from their slowest waves",
        guarantee="epsilon-DP, epsilon = max_s |W_s|_1 (sum of the ell largest columns of the waves) / b",
        spends=("coefficients",),
        pure=True,
        make=_laplace(DensityFpaLaplace, k=AUDIT_WAVES),
    ),
    "density-scm-full": Entry(
        mechanism=DensityScmFull,
        releases=PEOPLE,
        guarantee="epsilon-DP, epsilon = zones slots / b",
        spends=("counts",),
        pure=True,
        make=_scm_full,
        # One zone: the engine counts a user once per slot, so with more the claim is never reached.
        size=AuditSize(layout=ONE_ZONE, slots=6, ell=6),
        tight=AuditSize(layout=ONE_PLACE, slots=1, ell=1, cap=1),
    ),
    "density-scaled": Entry(
        mechanism=ScaledCounts,
        releases=f"{PEOPLE}, and what scales bounded visits up to all visits",
        guarantee="rho-zCDP, rho = M^2 / (2 s^2) + ell^2 / (2 s'^2) + rho of the counts",
        spends=("visits", "kept", "counts"),
        pure=False,
        make=_scaled(_gaussian(DensityGaussian)),
    ),
    "density-scaled-laplace": Entry(
        mechanism=ScaledCounts,
        releases=f"{PEOPLE}, and what scales bounded visits up to all visits",
        guarantee="epsilon-DP, epsilon = M / b + ell / b' + epsilon of the counts",
        spends=("visits", "kept", "counts"),
        pure=True,
        make=_scaled(_laplace(DensityLaplace)),
    ),
    "density-scaled-fpa": Entry(
        mechanism=ScaledCounts,
        releases=f"{PEOPLE}, from their slowest waves, and what scales them up to all visits",
        guarantee="rho-zCDP, rho = M^2 / (2 s^2) + ell^2 / (2 s'^2) + rho of the coefficients",
        spends=("visits", "kept", "coefficients"),
        pure=False,
        make=_scaled(_gaussian(DensityFpa, k=AUDIT_WAVES)),
    ),
    "density-scaled-fpa-laplace": Entry(
        mechanism=ScaledCounts,
        releases=f"{PEOPLE}, from their slowest waves, and what scales them up to all visits",
        guarantee="epsilon-DP, epsilon = M / b + ell / b' + epsilon of the coefficients",
        spends=("visits", "kept", "coefficients"),
        pure=True,
        make=_scaled(_laplace(DensityFpaLaplace, k=AUDIT_WAVES)),
    ),
    "density-scaled-scm-full": Entry(
        mechanism=ScaledCounts,
        releases=f"{PEOPLE}, and what scales them up to all visits",
        guarantee="epsilon-DP, epsilon = M / b + slots / b' + zones slots / b''",
        spends=("visits", "kept", "counts"),
        pure=True,
        make=_scaled(_scm_full),
        # One zone: the engine counts a user once per slot, so with more the claim is never reached.
        size=AuditSize(layout=ONE_ZONE, slots=6, ell=6),
        tight=AuditSize(layout=ONE_PLACE, slots=1, ell=1, cap=1),
    ),
    "density-efpag": Entry(
        mechanism=DensityEfpag,
        releases=f"{PEOPLE}, by clusters of cells and their waves; totals by one visit per user",
        guarantee="rho-zCDP, rho = 1 / (2 s^2) + M^2 / (2 s'^2) + eps0^2 / 8 + ell / (2 sigma^2)",
        spends=("totals", "visits", "select", "coefficients"),
        pure=False,
        make=_scheme(DensityEfpag.improved),
        size=SCHEME,
        reach=SELECT_REACH,
    ),
    "density-efpag-basic": Entry(
        mechanism=DensityEfpag,
        releases=f"{PEOPLE}, by clusters of cells and their waves; totals of the bounded series",
        guarantee="rho-zCDP, rho = ell^2 / (2 s^2) + eps0^2 / 8 + ell / (2 sigma^2)",
        spends=("totals", "select", "coefficients"),
        pure=False,
        make=_scheme(DensityEfpag.basic),
        size=SCHEME,
        reach=SELECT_REACH,
    ),
    "density-efpag-repaired": Entry(
        mechanism=DensityEfpag,
        releases=f"{PEOPLE}, by larger clusters of cells; totals of the bounded series, scaled up",
        guarantee="rho-zCDP, rho = ell^2 / (2 s^2) + M^2 / (2 s'^2) + eps0^2 / 8 + ell / (2 sigma^2)",
        spends=("totals", "visits", "select", "coefficients"),
        pure=False,
        make=_scheme(DensityEfpag.repaired),
        size=SCHEME,
        reach=SELECT_REACH,
    ),
    "density-efpa": Entry(
        mechanism=DensityEfpa,
        releases=f"{PEOPLE}, by clusters of cells and their waves; totals by one visit per user",
        guarantee="epsilon-DP, epsilon = 1 / b + M / b' + eps0 + eps1, each for all clusters together",
        spends=("totals", "visits", "select", "coefficients"),
        pure=True,
        make=_scheme(DensityEfpa.improved),
        size=SCHEME,
        reach=PURE_SELECT_REACH,
    ),
    "clipped-gaussian": Entry(
        mechanism=ClippedGaussian,
        releases="one sum over users, each clipped in the norm of what is measured",
        guarantee="rho-zCDP, rho = (clip + rounding)^2 / (2 sigma^2)",
        spends=("clipped",),
        pure=False,
        make=_clipped,
        tight=CROWDED,
        worst=EVERYWHERE,
        reach={"clipped": WEIGHED},
    ),
    "density-best": Entry(
        mechanism=DensityBest,
        releases=f"{PEOPLE}, from all visits, measured coarse to fine",
        guarantee="rho-zCDP, rho = the sum of the shares of users, visits, active, city, regions, zones",
        spends=("users", "visits", "active", "city", "regions", "zones"),
        pure=False,
        make=_best,
        tight=CROWDED,
        worst=EVERYWHERE,
        reach=dict.fromkeys(("visits", "city", "regions", "zones"), WEIGHED),
    ),
    "query-gaussian": Entry(
        mechanism=QueryGaussian,
        releases="visits in sets of zones and slots",
        guarantee="rho-zCDP, rho = sum of min(ell, |T_i|)^2 max_s W_s(S_i)^2 / (2 sigma_i^2)",
        spends=("answers",),
        pure=False,
        make=_query(QueryGaussian),
    ),
    "query-laplace": Entry(
        mechanism=QueryLaplace,
        releases="visits in sets of zones and slots",
        guarantee="epsilon-DP, epsilon = sum of min(ell, |T_i|) max_s W_s(S_i) / b_i",
        spends=("answers",),
        pure=True,
        make=_query(QueryLaplace),
    ),
    "query-weights": Entry(
        mechanism=QueryWeights,
        releases="visits in many sets of zones and slots, from a table that learns from few of them",
        guarantee="rho-zCDP, rho = total + c (2 E / b)^2 / 2 + c Delta^2 / (2 sigma^2) + error",
        spends=("total", "test", "answers", "error"),
        pure=False,
        make=_query_weights,
    ),
    **HISTOGRAMS,
    **SYNTHETIC,
}


def entry_of(name: str) -> Entry:
    """The entry called `name`."""
    if name not in REGISTRY:
        known = ", ".join(sorted(REGISTRY))
        raise PlanError("unknown-mechanism", f'no mechanism is called "{name}".', f"Known: {known}.")
    return REGISTRY[name]
