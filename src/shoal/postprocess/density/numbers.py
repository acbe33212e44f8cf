"""Noisy counts to released people per zone and slot, with 95 % intervals.

The interval is that of the noise alone, around the count of bounded visits: it does not cover what the
bound on visits per user leaves out, which the manifest says. Both ends are cut at zero, since counts are
not negative, and widened to hold the released value; neither can lower the coverage.

Non-negative counts that keep each slot's noisy total.

Setting negative counts to zero would add people on average. Instead, in each slot the same amount is
subtracted from all zones, and negatives are set to zero, such that the slot's total stays what it was
(the Euclidean projection onto the simplex; "norm-sub" in Wang et al. 2020).

>>> keep_totals(np.array([[5.0], [-2.0], [3.0]])).ravel().tolist()
[4.0, 0.0, 2.0]

Released numbers rounded to the declared decimals, the ends of intervals outwards.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.stages.noisy import DensityEstimate, NoisyCounts


def estimate_density(noisy: NoisyCounts, decimals: int = 1) -> DensityEstimate:
    """Non-negative people with intervals, rounded to the declared decimals (ends rounded outwards)."""
    return round_density(plain_density(noisy), decimals)


def plain_density(noisy: NoisyCounts, *_public: object) -> DensityEstimate:
    """The same before rounding: non-negative people that keep each slot's total, intervals cut at zero."""
    half = half_width(noisy)
    people = keep_totals(noisy.values)
    low = np.minimum(np.maximum(noisy.values - half, 0.0), people)
    high = np.maximum(noisy.values + half, people)
    return DensityEstimate(people=people, low=low, high=high)


def half_width(noisy: NoisyCounts) -> np.ndarray | float:
    """Half a 95 % interval of the noise in a cell: b ln 20 for Laplace noise, else 1.96 standard deviations.

    Waves (FPA) add up many draws in each cell: normal, or near it. A lattice step is far below either.
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
    kept = (ordered > shift).sum(axis=0)
    lost = shift[np.maximum(kept, 1) - 1, np.arange(slots)]
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
