"""Each method's mechanism from a budget and public things, and the way from its noisy output to people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.kinds.density.method import MethodOptions, NoiseOfCount
from shoal.mechanisms.density.best import DensityBest
from shoal.mechanisms.density.gaussian import DensityGaussian
from shoal.mechanisms.density.laplace import DensityLaplace
from shoal.mechanisms.density.scaled import ScaledCounts
from shoal.postprocess.density.best import finish_best as best_to_people
from shoal.postprocess.density.numbers import plain_density
from shoal.postprocess.density.scaled import scaled_density
from shoal.privacy.accounting import NANO
from shoal.privacy.budget import Budget
from shoal.space.cover import minimum_cover
from shoal.space.setting import Setting
from shoal.stages.noisy import DensityEstimate
from shoal_baselines.comparators.counts import ScmEvent, ScmZone, SpotMe, Threshold
from shoal_baselines.comparators.published_density import PublishedEfpa, PublishedEfpag, PublishedLater
from shoal_baselines.mechanisms.efpa import DensityEfpa
from shoal_baselines.mechanisms.efpag import DensityEfpag
from shoal_baselines.mechanisms.fpa import DensityFpa
from shoal_baselines.mechanisms.fpa_laplace import DensityFpaLaplace
from shoal_baselines.mechanisms.scm_full import DensityScmFull
from shoal_baselines.postprocess.scheme import finish_scheme as scheme_to_people

REPAIRED_ELL = 20  # as the repaired scheme was measured
SPOTME_P = 0.5  # of the published range .1 to .9 (Pyrgelis et al. 2017, table 5)
THRESHOLD_K = 10  # people: a usual rule of thumb


def best(budget: Budget, setting: Setting, options: MethodOptions) -> DensityBest:
    return DensityBest.within(budget, setting, users=options.users)


def gaussian(
    budget: Budget, setting: Setting, options: MethodOptions, kind: Any = DensityGaussian
) -> ScaledCounts:
    """Plain counts, or waves of them, in Gaussian noise; shares of the budget for what scales them up."""
    weights = setting.weights
    public = {"ell": options.ell, "slots": setting.slots, "lattice": weights.lattice}
    return _scaled(
        budget,
        setting,
        options,
        lambda rho: kind.within(rho, column_l2_squared=weights.column_l2_squared, **public),
    )


def laplace(
    budget: Budget, setting: Setting, options: MethodOptions, kind: Any = DensityLaplace
) -> ScaledCounts:
    """The same in Laplace noise."""
    weights = setting.weights
    public = {"ell": options.ell, "slots": setting.slots, "lattice": weights.lattice}
    return _scaled(
        budget, setting, options, lambda epsilon: kind.within(epsilon, column_l1=weights.column_l1, **public)
    )


def scm_full(budget: Budget, setting: Setting, options: MethodOptions) -> ScaledCounts:
    public = {"zones": setting.zones, "slots": setting.slots, "lattice": setting.weights.lattice}
    options = replace(options, ell=setting.slots)  # no cap: a visit in every slot
    return _scaled(budget, setting, options, lambda epsilon: DensityScmFull.within(epsilon, **public))


def _scaled(budget: Budget, setting: Setting, options: MethodOptions, counts: Any) -> ScaledCounts:
    held = np.asarray(setting.weights.matrix.sum(axis=0)) / setting.weights.lattice
    return ScaledCounts.within(
        budget,
        counts,
        cap=options.cap,
        ell=options.ell,
        slots=setting.slots,
        inside=(float(held.min(initial=1.0)), float(held.max(initial=0.0))),
    )


def fpa(budget: Budget, setting: Setting, options: MethodOptions) -> ScaledCounts:
    return gaussian(budget, setting, options, DensityFpa)


def fpa_laplace(budget: Budget, setting: Setting, options: MethodOptions) -> ScaledCounts:
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


def gaussian_noise(mechanism: Any) -> NoiseOfCount:
    """Of one count, before it is scaled up."""
    return NoiseOfCount("gaussian", mechanism.counts.sigma / mechanism.counts.lattice)


def laplace_noise(mechanism: Any) -> NoiseOfCount:
    return NoiseOfCount("laplace", math.sqrt(2) * mechanism.counts.scale / mechanism.counts.lattice)


def wave_noise(mechanism: Any) -> NoiseOfCount:
    """Many draws add up in each count: normal, or near it."""
    return NoiseOfCount("gaussian", math.sqrt(float((mechanism.counts.noise_people**2).mean())))


def describe_gaussian(mechanism: Any) -> Mapping[str, Any]:
    """Public numbers of plain counts, for the manifest; the noise is that before counts are scaled up."""
    counts = mechanism.counts
    return {"noise_scale_people": counts.sigma / counts.lattice, "lattice": counts.lattice}


def describe_laplace(mechanism: Any) -> Mapping[str, Any]:
    counts = mechanism.counts
    return {"noise_scale_people": counts.scale / counts.lattice, "lattice": counts.lattice}


def describe_counts(mechanism: Any) -> Mapping[str, Any]:
    return mechanism.counts.describe()


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
    return ScmEvent(epsilon=_asked(budget), visits=setting.places * setting.slots)


def scm_zone(budget: Budget, setting: Setting, options: MethodOptions) -> ScmZone:
    return ScmZone(
        epsilon=_asked(budget),
        slots=setting.slots,
        places=setting.places,
        zone_visits=setting.weights.row_l1 / setting.weights.lattice,
    )


def spotme(budget: Budget, setting: Setting, options: MethodOptions) -> SpotMe:
    return SpotMe(p=SPOTME_P, weights=setting.weights)


def threshold(budget: Budget, setting: Setting, options: MethodOptions) -> Threshold:
    return Threshold(k=THRESHOLD_K)


def finish_best(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return best_to_people(noisy, setting)


def finish_scheme(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return scheme_to_people(noisy, setting, nights=options.nights)


def finish_scheme_basic(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return scheme_to_people(noisy, setting, nights=False)


def finish_scaled(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return scaled_density(noisy)


def finish_plain(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return plain_density(noisy)


def _asked(budget: Budget) -> float:
    """The epsilon a comparator's noise is set by."""
    return budget.left / NANO
