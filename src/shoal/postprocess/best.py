"""Noisy measurements of the method `best` to people per zone and slot, with 95 % intervals.

1. zones' coefficients are kriged: totals first, then the others as shares of the total
2. what the basis leaves out is added as far as it stands out of the noise, where it was measured
3. counts are kept above a small positive floor
4. twice: slots are scaled to the city's profile, regions corrected by their own measurement
5. everything is scaled to the noisy number of visits
The interval adds up what is left uncertain: coefficients, scatter of the truth around the model, the profile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.postprocess.kriging import Layout, krige
from shoal.postprocess.nonnegative import Z95
from shoal.postprocess.residual import COUNTS, Scatter, fit_scatter, keep_what_stands_out
from shoal.space.setting import Setting
from shoal.stages.noisy import DensityEstimate, NoisyBest

ROUNDS = 2
FLOOR = 0.05  # of what the zone's total and the city's profile would give
MOST_CORRECTED = 2.0  # factor by which a region may be corrected in a slot


@dataclass(frozen=True)
class Model:
    """Smooth counts before scaling, with the variance of what is uncertain about them."""

    counts: np.ndarray  # float64 [zones, slots]
    variance: np.ndarray
    scatter: Scatter


def finish_best(noisy: NoisyBest, setting: Setting) -> DensityEstimate:
    """People, unrounded, with intervals."""
    spread = spread_of(setting)
    model = _smooth(noisy, setting, spread)
    counts = model.counts
    for _ in range(ROUNDS):
        counts = _to_profile(counts, noisy.profile)
        counts = _correct_regions(counts, noisy)
    counts = _to_profile(counts, noisy.profile)
    total = counts.sum()
    people = counts * (max(noisy.visits, 0.0) / total) if total > 0 else counts
    scale = people / np.maximum(model.counts, 1e-12)
    city = noisy.profile_deviation / np.maximum(people.sum(axis=0), 1e-9)  # relative, of a slot's total
    half = Z95 * np.sqrt(model.variance * scale**2 + (city * people) ** 2)
    return DensityEstimate(people=people, low=np.maximum(people - half, 0.0), high=people + half)


def spread_of(setting: Setting) -> np.ndarray:
    """float64 [zones]: squared area weights over weights: what one visit more counts in a zone on average."""
    matrix, lattice = setting.weights.matrix, setting.weights.lattice
    zone_of = np.repeat(np.arange(setting.zones), np.diff(matrix.indptr))
    share = matrix.data / lattice
    sums = np.bincount(zone_of, share, setting.zones)
    squares = np.bincount(zone_of, share**2, setting.zones)
    return np.divide(squares, sums, out=np.ones_like(sums), where=sums > 0)


def _smooth(noisy: NoisyBest, setting: Setting, spread: np.ndarray) -> Model:
    coefficients, remaining = _krige_columns(noisy, setting)
    counts = coefficients @ noisy.basis.T / noisy.weight
    variance = remaining @ (noisy.basis**2).T / noisy.weight**2
    floor = _floor(coefficients[:, 0], noisy)
    if noisy.rest is None or noisy.rest_basis is None:
        counts = np.maximum(counts, floor)
        outside = 1.0 - (noisy.basis**2).sum(axis=1)
        return Model(counts, variance + outside * COUNTS.variance(counts, spread), COUNTS)
    residual = noisy.rest / noisy.rest_weight @ noisy.rest_basis.T / noisy.weight
    outside = (noisy.rest_basis**2).sum(axis=1)
    noise = np.sqrt(outside) * noisy.zones.sigma / noisy.rest_weight / noisy.weight
    noise = np.broadcast_to(noise, residual.shape)
    model = np.maximum(counts, floor)
    scatter = fit_scatter(residual, noise, model, spread)
    signal = scatter.variance(model, spread)
    counts = np.maximum(counts + keep_what_stands_out(residual, noise, signal), floor)
    left = signal * noise**2 / np.maximum(signal + noise**2, 1e-300)
    return Model(counts, variance + left, scatter)


def _krige_columns(noisy: NoisyBest, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients [zones, columns] of the orthonormal basis, and their remaining variances."""
    layout = Layout.of(setting.zone_xy_m)
    values = noisy.zones.values / noisy.column_weight
    noise = (noisy.zones.sigma / noisy.column_weight) ** 2
    totals = krige(layout, values[:, 0], np.full(len(values), noise[0]), outliers=noisy.outliers)
    level = np.maximum(totals.mean, 0.02 * np.median(np.abs(totals.mean)) + 1e-9)
    coefficients, remaining = np.empty_like(values), np.empty_like(values)
    coefficients[:, 0], remaining[:, 0] = level, totals.variance
    for j in range(1, values.shape[1]):
        shares = krige(layout, values[:, j] / level, noise[j] / level**2, outliers=noisy.outliers)
        coefficients[:, j], remaining[:, j] = shares.mean * level, shares.variance * level**2
    return coefficients, remaining


def _floor(totals: np.ndarray, noisy: NoisyBest) -> np.ndarray:
    """A small part of what a zone would have if it followed the city."""
    along = noisy.basis[:, 0] / noisy.weight  # the profile, up to a factor
    return FLOOR * totals[:, None] * np.maximum(along, 0.0)


def _to_profile(counts: np.ndarray, profile: np.ndarray) -> np.ndarray:
    """Slots scaled so that the city follows its profile."""
    sums = counts.sum(axis=0)
    return counts * np.divide(profile * counts.sum(), sums, out=np.ones_like(sums), where=sums > 0)


def _correct_regions(counts: np.ndarray, noisy: NoisyBest) -> np.ndarray:
    """Regions moved towards their own, less clipped measurement, as far as it stands out of its noise."""
    regions = int(noisy.region_of.max()) + 1
    sums = np.zeros((regions, counts.shape[1]))
    np.add.at(sums, noisy.region_of, counts)
    seen = (sums * noisy.weight) @ noisy.dictionary
    total = float(noisy.regions.values[:, 0].sum())
    if total <= 0 or seen[:, 0].sum() <= 0:
        return counts
    scale = total / seen[:, 0].sum()
    gap = noisy.regions.values / scale - seen
    noise = (noisy.regions.sigma / scale) ** 2
    energy = np.mean(gap**2, axis=0)
    share = np.maximum(0.0, 1.0 - noise / np.maximum(energy, 1e-300))
    correction = (gap * share) @ noisy.dictionary.T / noisy.weight
    factor = 1.0 + correction / np.maximum(sums, 1e-12)
    return counts * np.clip(factor, 1 / MOST_CORRECTED, MOST_CORRECTED)[noisy.region_of]
