"""Noisy measurements of the method `best` to people per zone and slot, with 95 % intervals.

1. zones' coefficients are kriged: totals first, then the others as shares of the total
2. what the basis leaves out is added as far as it stands out of the noise, where it was measured
3. counts are kept above a small positive floor
4. twice: slots are scaled to the city's profile, regions corrected by their own measurement
5. everything is scaled to the noisy number of visits
The interval adds up what is left uncertain: coefficients, scatter of the truth around the model, the city's
slots and total, what clipping took from some zones and not from others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.postprocess.kriging import Layout, krige
from shoal.postprocess.nonnegative import Z95
from shoal.postprocess.region_gap import correct_regions, unevenness
from shoal.postprocess.residual import Scatter, fit_scatter, keep_what_stands_out, uneven_squares
from shoal.postprocess.visits import Total, number_of_visits
from shoal.space.setting import Setting
from shoal.space.zone_sizes import zone_overlap, zone_sizes
from shoal.stages.noisy import DensityEstimate, NoisyBest

ROUNDS = 2
FLOOR = 0.05  # of what the zone's total and the city's profile would give
LEARNED = 0.985  # of the width, where scatter was learned: parts that overlap are added as if they did not


@dataclass(frozen=True)
class Model:
    """Smooth counts in people before the last corrections, with the variance of what is uncertain."""

    counts: np.ndarray  # float64 [zones, slots]
    variance: np.ndarray
    scatter: Scatter


def finish_best(noisy: NoisyBest, setting: Setting) -> DensityEstimate:
    """People, unrounded, with intervals."""
    total = total_of(noisy)
    model = smooth(noisy, setting, total.visits)
    uneven = unevenness(model.counts, noisy)
    counts = model.counts
    for _ in range(ROUNDS):
        counts = _to_profile(counts, noisy.profile)
        counts = correct_regions(counts, noisy)
    counts = _to_profile(counts, noisy.profile)
    people = counts * (total.visits / counts.sum()) if counts.sum() > 0 else counts
    scale = people / np.maximum(model.counts, 1e-12)
    city = noisy.profile_deviation / np.maximum(people.sum(axis=0), 1e-9)  # relative, of a slot's total
    relative = city**2 + (total.deviation / total.visits) ** 2 + uneven
    width = Z95 * (LEARNED if noisy.rest_weight > 0 else 1.0)
    half = width * np.sqrt(model.variance * scale**2 + relative * people**2)
    return DensityEstimate(people=people, low=np.maximum(people - half, 0.0), high=people + half)


def total_of(noisy: NoisyBest) -> Total:
    """The number of visits, from both of its measurements."""
    narrow, wide = (Total(float(m.values[0, 0]), m.sigma) for m in (noisy.visits, noisy.active))
    return number_of_visits(narrow, wide)


def smooth(noisy: NoisyBest, setting: Setting, visits: float) -> Model:
    """Counts from kriged coefficients, and from the rest where all of it was measured."""
    spread = setting.weights.site_share
    coefficients, remaining = _krige_columns(noisy, setting)
    counts = coefficients @ noisy.basis.T / noisy.weight
    floor = _floor(coefficients[:, 0], noisy)
    total = float(np.maximum(counts, floor).sum())
    to_people = visits / total if total > 0 else 1.0  # clipped visits to all visits
    model = np.maximum(counts, floor) * to_people
    variance = remaining @ (noisy.basis**2).T * (to_people / noisy.weight) ** 2
    scatter = _fit_rest(noisy, model, spread, to_people)
    signal = scatter.variance(model, spread)
    if not noisy.whole or noisy.rest_weight == 0:
        outside = 1.0 - (noisy.basis**2).sum(axis=1)
        return Model(model, variance + outside * signal, scatter)
    residual = to_people * (noisy.rest / noisy.rest_weight @ noisy.rest_basis.T / noisy.weight)
    outside = (noisy.rest_basis**2).sum(axis=1)
    noise = np.sqrt(outside) * noisy.zones_sigma[:, None] / noisy.rest_weight / noisy.weight * to_people
    kept = keep_what_stands_out(residual, noise, signal)
    left = signal * noise**2 / np.maximum(signal + noise**2, 1e-300)
    return Model(np.maximum(counts * to_people + kept, floor * to_people), variance + left, scatter)


def _fit_rest(noisy: NoisyBest, model: np.ndarray, spread: np.ndarray, to_people: float) -> Scatter:
    """How counts scatter around the model, from what was measured outside the columns."""
    unit = to_people / (noisy.rest_weight or 1.0)  # 0: no rest was measured, the usual scatter remains
    square = noisy.rest_basis**2
    counts = (spread[:, None] * model * noisy.weight**2) @ square
    squares = (uneven_squares(model) * noisy.weight**2) @ square
    return fit_scatter(noisy.rest * unit, noisy.zones_sigma[:, None] * unit, counts, squares)


def _krige_columns(noisy: NoisyBest, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients [zones, columns] of the orthonormal basis, and their remaining variances."""
    layout = Layout.of(setting.zone_xy_m, zone_sizes(setting.weights), zone_overlap(setting.weights))
    values, noise = noisy.zones, noisy.zones_sigma**2
    totals = krige(layout, values[:, 0], noise, outliers=noisy.outliers, sized=True)
    level = np.maximum(totals.mean, 0.02 * np.median(np.abs(totals.mean)) + 1e-9)
    coefficients, remaining = np.empty_like(values), np.empty_like(values)
    coefficients[:, 0], remaining[:, 0] = level, totals.variance
    for j in range(1, values.shape[1]):
        shares = krige(layout, values[:, j] / level, noise / level**2, outliers=noisy.outliers)
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
