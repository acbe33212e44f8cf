"""Noisy counts to released people per zone and slot, with 95 % intervals.

Intervals. The interval is that of the noise alone, around the count of sampled visits: it does not cover
visits that the bound per user leaves out, as the manifest states. Both ends are cut at zero, since counts are
not negative, and widened to contain the released value; neither can lower the coverage.

Non-negative counts. Setting negative counts to zero would add people on average. Instead, in each slot the
same amount is subtracted from all zones and negatives are set to zero, such that the slot's total is
preserved (Euclidean projection onto the simplex; "norm-sub" in Wang et al. 2020).

>>> keep_totals(np.array([[5.0], [-2.0], [3.0]])).ravel().tolist()
[4.0, 0.0, 2.0]

Rounding. Numbers are rounded to the declared decimals, the ends of intervals outwards.

Scaling up. A sampled visit stands for r = K-hat / B-hat visits: r is at least 1, since the bound drops visits
and adds none, and 1 where the number of sampled visits is not well above its noise. After negative counts
were removed, people are scaled so that their total is K-hat, or the part of it inside the zones, since
removing negative counts can add people where noise is large. All rules use noisy numbers and public scales
only. The interval is that of the noise times r, widened by the noise of r and by the sampling variance. It
does not cover that the bound drops a larger share of visits in some zones than in others.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.stages.noisy import DensityEstimate, NoisyCounts, NoisyScaled


def estimate_density(noisy: NoisyCounts, decimals: int = 1) -> DensityEstimate:
    """Non-negative people with intervals, rounded to the declared decimals (ends rounded outwards)."""
    return round_density(plain_density(noisy), decimals)


def plain_density(noisy: NoisyCounts, *_public: object) -> DensityEstimate:
    """Non-negative people that preserve each slot's total, with intervals cut at zero; not rounded."""
    half = half_width(noisy)
    people = keep_totals(noisy.values)
    low = np.minimum(np.maximum(noisy.values - half, 0.0), people)
    high = np.maximum(noisy.values + half, people)
    return DensityEstimate(people=people, low=low, high=high)


def half_width(noisy: NoisyCounts) -> np.ndarray | float:
    """Half a 95 % interval of the noise in a cell: b ln 20 for Laplace noise, else 1.96 standard deviations.

    With Fourier components (FPA) the noise of a cell is a sum of many draws, so nearly normal. The lattice
    step is negligible against either.
    """
    reach = math.log(20.0) if noisy.family == "discrete laplace" else Z95
    return reach * noisy.scale * noisy.gain


Z95 = 1.959963984540054


def keep_totals(noisy: np.ndarray) -> np.ndarray:
    """Per slot (column): the nearest non-negative vector with the same total (zero if that is negative)."""
    zones, slots = noisy.shape
    totals = noisy.sum(axis=0)
    ordered = -np.sort(-noisy, axis=0)
    # With the j largest kept, each loses (their sum - total) / j; keep as many as stay positive.
    shift = (np.cumsum(ordered, axis=0) - totals) / np.arange(1, zones + 1)[:, None]
    positive = (ordered > shift).sum(axis=0)
    lost = shift[np.maximum(positive, 1) - 1, np.arange(slots)]
    result = np.maximum(noisy - lost, 0.0)
    result[:, totals <= 0] = 0.0
    return result


def round_density(estimate: DensityEstimate, decimals: int = 1) -> DensityEstimate:
    """People rounded, low rounded down, high rounded up; the interval holds the rounded value.

    >>> one = DensityEstimate(people=np.array([[1.26]]), low=np.array([[0.38]]), high=np.array([[2.11]]))
    >>> rounded = round_density(one, 1)
    >>> (rounded.people.item(), rounded.low.item(), rounded.high.item())
    (1.3, 0.3, 2.2)
    """
    unit = 10.0**decimals
    people = np.round(estimate.people, decimals)
    low = np.floor(estimate.low * unit) / unit
    high = np.ceil(estimate.high * unit) / unit
    return DensityEstimate(people=people, low=np.minimum(low, people), high=np.maximum(high, people))


CLEAR = 4.0  # deviations above zero that a noisy number needs to serve as a divisor or a target


def scaled_density(noisy: NoisyScaled, *_public: object) -> DensityEstimate:
    """Non-negative people, scaled to the total of all visits where the noise allows; not rounded."""
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
    """Deviation of the noise of the sum of all counts; draws are independent per count or coefficient."""
    laplace = math.sqrt(2.0) if counts.family == "discrete laplace" else 1.0
    return laplace * counts.scale * math.sqrt(counts.values.size)


def _half_width(noisy: NoisyScaled, ratio: float, people: np.ndarray) -> np.ndarray:
    noise = ratio * half_width(noisy.counts)
    doubt = 0.0
    if ratio > 1.0:
        doubt = np.hypot(noisy.visits_deviation / max(noisy.visits, 1.0), noisy.kept_deviation / noisy.kept)
    sampling = (ratio - 1.0) * np.maximum(people, 0.0)  # each visit was sampled with probability 1 / ratio
    return np.sqrt(noise**2 + Z95**2 * (sampling + (min(doubt, 1.0) * people) ** 2))
