"""Noisy counts to released people per zone and slot, with 95 % intervals.

The interval is that of the noise alone, around the count of bounded visits: it does not cover what the
bound on visits per user leaves out, which the manifest says. Both ends are cut at zero, since counts are
not negative, and widened to hold the released value; neither can lower the coverage.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.postprocess.nonnegative import Z95, keep_totals
from shoal.stages.noisy import DensityEstimate, NoisyCounts


def estimate_density(noisy: NoisyCounts, decimals: int = 1) -> DensityEstimate:
    """Non-negative people with intervals, rounded to the declared decimals (ends rounded outwards)."""
    half = half_width(noisy)
    people = np.round(keep_totals(noisy.values), decimals)
    unit = 10.0**decimals
    low = np.floor(np.maximum(noisy.values - half, 0.0) * unit) / unit
    high = np.ceil(np.maximum(noisy.values + half, 0.0) * unit) / unit
    return DensityEstimate(people=people, low=np.minimum(low, people), high=np.maximum(high, people))


def half_width(noisy: NoisyCounts) -> float:
    """Half a 95 % interval of the noise: 1.96 sigma, or b ln 20 for Laplace; a lattice step is far below."""
    if noisy.family == "discrete gaussian":
        return Z95 * noisy.scale
    return math.log(20.0) * noisy.scale
