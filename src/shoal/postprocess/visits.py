"""The number of all visits from two noisy numbers, under a narrow and a wide clip of users."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import log_ndtr

CLEAR = 3.0  # deviations by which the wide number must be larger
FAR = 8.0  # deviations from zero beyond which the cut does not matter, or only its tail does


@dataclass(frozen=True)
class Total:
    """A number of visits and the deviation of its noise."""

    visits: float
    deviation: float


def number_of_visits(narrow: Total, wide: Total) -> Total:
    """Visits, above zero, and the deviation that is left.

    The narrow clip has little noise and misses what very active users do; where the wide one is clearly
    larger, they matter. Visits cannot be negative: the mean and deviation are those of a normal
    distribution cut off at zero, so a number that drowns in its noise becomes small, not zero.

    >>> number_of_visits(Total(1000.0, 10.0), Total(1020.0, 40.0))
    Total(visits=1000.0, deviation=10.0)
    >>> number_of_visits(Total(1000.0, 10.0), Total(9000.0, 40.0))
    Total(visits=9000.0, deviation=40.0)
    >>> drowned = number_of_visits(Total(-20.0, 10.0), Total(30.0, 40.0))
    >>> round(drowned.visits, 1), round(drowned.deviation, 1)
    (3.7, 3.4)
    """
    clear = wide.visits - narrow.visits > CLEAR * math.hypot(narrow.deviation, wide.deviation)
    noisy = wide if clear else narrow
    at = noisy.visits / noisy.deviation
    if at > FAR:
        return noisy
    if at < -FAR:  # the tail of a normal distribution is nearly exponential
        return Total(noisy.deviation / -at, noisy.deviation / -at)
    hazard = math.exp(-0.5 * at * at - 0.5 * math.log(2 * math.pi) - float(log_ndtr(at)))
    left = max(1.0 - hazard * (at + hazard), 1e-6)
    return Total(noisy.visits + noisy.deviation * hazard, noisy.deviation * math.sqrt(left))
