"""The number of all visits from two noisy numbers, under a narrow and a wide clip of users."""

from __future__ import annotations

import math

from scipy.special import log_ndtr

CLEAR = 3.0  # deviations by which the wide number must be larger


def number_of_visits(
    narrow: float, narrow_sigma: float, wide: float, wide_sigma: float
) -> tuple[float, float]:
    """Visits, above zero, and the deviation that is left.

    The narrow clip has little noise and misses what very active users do; where the wide one is clearly
    larger, they matter. Visits cannot be negative: the mean and deviation are those of a normal
    distribution cut off at zero, so a number that drowns in its noise becomes small, not zero.

    >>> number_of_visits(1000.0, 10.0, 1020.0, 40.0)
    (1000.0, 10.0)
    >>> [round(x, 1) for x in number_of_visits(1000.0, 10.0, 9000.0, 40.0)]
    [9000.0, 40.0]
    >>> [round(x, 1) for x in number_of_visits(-20.0, 10.0, 30.0, 40.0)]
    [3.7, 3.4]
    """
    clear = wide - narrow > CLEAR * math.hypot(narrow_sigma, wide_sigma)
    value, sigma = (wide, wide_sigma) if clear else (narrow, narrow_sigma)
    at = value / sigma
    if at > 8:
        return value, sigma
    if at < -8:  # the tail is exponential
        return sigma / -at, sigma / -at
    hazard = math.exp(-0.5 * at * at - 0.5 * math.log(2 * math.pi) - float(log_ndtr(at)))
    left = max(1.0 - hazard * (at + hazard), 1e-6)
    return value + sigma * hazard, sigma * math.sqrt(left)
