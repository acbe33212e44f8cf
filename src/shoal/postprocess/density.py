"""Noisy counts to released people per zone and slot, with 95 % intervals.

The interval is that of the noise alone, around the count of bounded visits: it does not cover what the
bound on visits per user leaves out, which the manifest says. Both ends are cut at zero, since counts are
not negative, and widened to hold the released value; neither can lower the coverage.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.postprocess.nonnegative import Z95, keep_totals
from shoal.postprocess.rounding import round_density
from shoal.stages.noisy import DensityEstimate, NoisyCounts


def estimate_density(noisy: NoisyCounts, decimals: int = 1) -> DensityEstimate:
    """Non-negative people with intervals, rounded to the declared decimals (ends rounded outwards)."""
    return round_density(plain_density(noisy), decimals)


def plain_density(noisy: NoisyCounts) -> DensityEstimate:
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
