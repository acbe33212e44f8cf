"""Noisy counts of bounded visits to people: scaled up to all visits, with 95 % intervals.

A kept visit stands for r = K-hat / B-hat visits: r is at least 1, since the bound drops visits and adds none,
and 1 where the number of kept visits is not well above its own noise. The people that are left after
negative counts were removed are then scaled so that their total is K-hat, or the part of it inside the zones:
removing negative counts can add people where noise is large. Every rule looks at noisy numbers and public
scales only.

The interval is that of the noise times r, widened by the noise of r and by the chance of which visits were
kept. It does not cover that zones differ in how many of their visits the bound left out.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.postprocess.density.numbers import Z95, half_width, keep_totals
from shoal.stages.noisy import DensityEstimate, NoisyCounts, NoisyScaled

CLEAR = 4.0  # deviations above zero from which a noisy number is divided by, or scaled down to


def scaled_density(noisy: NoisyScaled, *_public: object) -> DensityEstimate:
    """Non-negative people whose total is that of all visits, where noise allows to say so; not rounded."""
    ratio = per_kept_visit(noisy)
    people = keep_totals(noisy.counts.values)
    people = people * total_factor(noisy, float(people.sum()), ratio)
    centre = ratio * noisy.counts.values
    half = _half_width(noisy, ratio, np.maximum(centre, people))
    low = np.minimum(np.maximum(centre - half, 0.0), people)
    high = np.maximum(centre + half, people)
    return DensityEstimate(people=people, low=low, high=high)


def per_kept_visit(noisy: NoisyScaled) -> float:
    """Visits that one kept visit stands for: from 1 to the public `most`."""
    if noisy.kept < max(CLEAR * noisy.kept_deviation, 1.0):
        return 1.0
    return min(max(noisy.visits / noisy.kept, 1.0), max(noisy.most, 1.0))


def total_factor(noisy: NoisyScaled, total: float, ratio: float) -> float:
    """What people of this total are scaled by: to all visits inside the zones.

    Where the counts together are not clear of their noise, never by more than the ratio: that would be to
    divide by noise.
    """
    known = noisy.visits >= CLEAR * noisy.visits_deviation and noisy.kept >= CLEAR * noisy.kept_deviation
    if not known or total <= 0 or noisy.kept <= 0:
        return ratio
    counted = float(noisy.counts.values.sum())
    inside = min(max(counted / noisy.kept, noisy.inside[0]), noisy.inside[1])
    wanted = ratio * noisy.kept * inside
    if counted >= CLEAR * total_deviation(noisy.counts):
        return wanted / total
    return min(wanted / total, ratio)


def total_deviation(counts: NoisyCounts) -> float:
    """Of the noise in the sum of all counts: draws are independent, of counts or of orthonormal waves."""
    laplace = math.sqrt(2.0) if counts.family == "discrete laplace" else 1.0
    return laplace * counts.scale * math.sqrt(counts.values.size)


def _half_width(noisy: NoisyScaled, ratio: float, people: np.ndarray) -> np.ndarray:
    noise = ratio * half_width(noisy.counts)
    doubt = 0.0
    if ratio > 1.0:
        doubt = np.hypot(noisy.visits_deviation / max(noisy.visits, 1.0), noisy.kept_deviation / noisy.kept)
    chance = (ratio - 1.0) * np.maximum(
        people, 0.0
    )  # variance: each visit was kept with probability 1 / ratio
    return np.sqrt(noise**2 + Z95**2 * (chance + (min(doubt, 1.0) * people) ** 2))
