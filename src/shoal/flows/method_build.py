"""Each method's mechanism from a budget and public things, and the way from its noisy output to people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shoal.comparators.published import PublishedEfpa, PublishedEfpag, PublishedLater
from shoal.comparators.scm_event import ScmEvent
from shoal.comparators.scm_zone import ScmZone
from shoal.comparators.spotme import SpotMe
from shoal.comparators.threshold import Threshold
from shoal.flows.method import MethodOptions, NoiseOfCount
from shoal.mechanisms.density_best import DensityBest
from shoal.mechanisms.density_efpa import DensityEfpa
from shoal.mechanisms.density_efpag import DensityEfpag
from shoal.mechanisms.density_fpa import DensityFpa
from shoal.mechanisms.density_fpa_laplace import DensityFpaLaplace
from shoal.mechanisms.density_gaussian import DensityGaussian
from shoal.mechanisms.density_laplace import DensityLaplace
from shoal.mechanisms.density_scm_full import DensityScmFull
from shoal.postprocess.best import finish_best as best_to_people
from shoal.postprocess.density import plain_density
from shoal.postprocess.scheme import finish_scheme as scheme_to_people
from shoal.privacy.accounting import NANO
from shoal.privacy.budget import Budget
from shoal.space.cover import minimum_cover
from shoal.space.setting import Setting
from shoal.stages.noisy import DensityEstimate

REPAIRED_ELL = 20  # as the repaired scheme was measured
SPOTME_P = 0.5  # of the published range .1 to .9 (Pyrgelis et al. 2017, table 5)
THRESHOLD_K = 10  # people: a usual rule of thumb


def best(budget: Budget, setting: Setting, options: MethodOptions) -> DensityBest:
    return DensityBest.within(budget, setting, users=options.users)


def gaussian(budget: Budget, setting: Setting, options: MethodOptions, kind: Any = DensityGaussian) -> Any:
    """Plain counts, or waves of them, with all of the budget in Gaussian noise."""
    counts, _ = budget.take("counts", 1)
    weights = setting.weights
    return kind.within(
        counts.rho_nano,
        ell=options.ell,
        slots=setting.slots,
        column_l2_squared=weights.column_l2_squared,
        lattice=weights.lattice,
    )


def laplace(budget: Budget, setting: Setting, options: MethodOptions, kind: Any = DensityLaplace) -> Any:
    """The same in Laplace noise."""
    counts, _ = budget.take("counts", 1)
    weights = setting.weights
    return kind.within(
        counts.epsilon_nano,
        ell=options.ell,
        slots=setting.slots,
        column_l1=weights.column_l1,
        lattice=weights.lattice,
    )


def scm_full(budget: Budget, setting: Setting, options: MethodOptions) -> DensityScmFull:
    counts, _ = budget.take("counts", 1)
    return DensityScmFull.within(
        counts.epsilon_nano, zones=setting.zones, slots=setting.slots, lattice=setting.weights.lattice
    )


def fpa(budget: Budget, setting: Setting, options: MethodOptions) -> DensityFpa:
    return gaussian(budget, setting, options, DensityFpa)


def fpa_laplace(budget: Budget, setting: Setting, options: MethodOptions) -> DensityFpaLaplace:
    return laplace(budget, setting, options, DensityFpaLaplace)


def efpag(budget: Budget, setting: Setting, options: MethodOptions) -> DensityEfpag:
    return DensityEfpag.improved(budget, minimum_cover(setting), **_scheme(setting, options))


def efpag_basic(budget: Budget, setting: Setting, options: MethodOptions) -> DensityEfpag:
    return DensityEfpag.basic(budget, minimum_cover(setting), **_scheme(setting, options))


def efpag_repaired(budget: Budget, setting: Setting, options: MethodOptions) -> DensityEfpag:
    options = replace(options, ell=REPAIRED_ELL)
    return DensityEfpag.repaired(budget, minimum_cover(setting), **_scheme(setting, options))


def efpa(budget: Budget, setting: Setting, options: MethodOptions) -> DensityEfpa:
    return DensityEfpa.improved(budget, minimum_cover(setting), **_scheme(setting, options))


def _scheme(setting: Setting, options: MethodOptions) -> dict[str, int]:
    return {"slots": setting.slots, "ell": options.ell, "cap": options.cap}


def gaussian_noise(mechanism: DensityGaussian) -> NoiseOfCount:
    return NoiseOfCount("gaussian", mechanism.sigma / mechanism.lattice)


def laplace_noise(mechanism: DensityLaplace | DensityScmFull) -> NoiseOfCount:
    return NoiseOfCount("laplace", math.sqrt(2) * mechanism.scale / mechanism.lattice)


def wave_noise(mechanism: DensityFpa | DensityFpaLaplace) -> NoiseOfCount:
    """Many draws add up in each count: normal, or near it."""
    return NoiseOfCount("gaussian", math.sqrt(float((mechanism.noise_people**2).mean())))


def describe_scheme(mechanism: DensityEfpag | DensityEfpa) -> Mapping[str, Any]:
    """Public numbers of the scheme, for the manifest."""
    return {"cells": mechanism.cells, "lattice": mechanism.lattice}


def describe_efpag(mechanism: DensityEfpag) -> Mapping[str, Any]:
    return {**describe_scheme(mechanism), "least_cluster_visits": mechanism.tau}


def published(budget: Budget, setting: Setting, options: MethodOptions) -> PublishedEfpag:
    return PublishedEfpag(epsilon=_asked(budget), ell=options.ell, setting=setting)


def published_efpa(budget: Budget, setting: Setting, options: MethodOptions) -> PublishedEfpa:
    return PublishedEfpa(epsilon=_asked(budget), ell=options.ell, setting=setting)


def published_later(budget: Budget, setting: Setting, options: MethodOptions) -> PublishedLater:
    return PublishedLater(epsilon=_asked(budget), ell=options.ell, setting=setting)


def scm_event(budget: Budget, setting: Setting, options: MethodOptions) -> ScmEvent:
    return ScmEvent(epsilon=_asked(budget), ell=options.ell, slots=setting.slots)


def scm_zone(budget: Budget, setting: Setting, options: MethodOptions) -> ScmZone:
    return ScmZone(epsilon=_asked(budget), ell=options.ell, slots=setting.slots)


def spotme(budget: Budget, setting: Setting, options: MethodOptions) -> SpotMe:
    return SpotMe(p=SPOTME_P, ell=options.ell, weights=setting.weights)


def threshold(budget: Budget, setting: Setting, options: MethodOptions) -> Threshold:
    return Threshold(k=THRESHOLD_K, ell=options.ell)


def finish_best(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return best_to_people(noisy, setting)


def finish_scheme(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return scheme_to_people(noisy, setting, nights=options.nights)


def finish_scheme_basic(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return scheme_to_people(noisy, setting, nights=False)


def finish_plain(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return plain_density(noisy)


def _asked(budget: Budget) -> float:
    """The epsilon a comparator's noise is set by."""
    return budget.left / NANO
