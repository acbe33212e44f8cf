"""Released numbers rounded to the declared decimals, the ends of intervals outwards."""

from __future__ import annotations

import numpy as np

from shoal.stages.noisy import DensityEstimate


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
