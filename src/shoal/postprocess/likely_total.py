"""A noisy number that is known to lie between two bounds: its likely value.

Beforehand the lower bound is the most likely and the upper one not at all, with a straight line between: a
cap is set so that few reach it. The noise is taken as normal. A precise number stays as it is; one that says
nothing becomes a third of the way up, not a bound.

>>> likely_between(500.0, 0.1, 100.0, 900.0), round(likely_between(5000.0, 1e7, 100.0, 1000.0))
(500.0, 400)
"""

from __future__ import annotations

import numpy as np

FAR = 6.0  # deviations from the noisy number, beyond which nothing counts
PLACES, WEIGHTS = np.polynomial.legendre.leggauss(64)


def likely_between(noisy: float, deviation: float, low: float, high: float) -> float:
    """The mean of what the number can be."""
    first, last = max(low, noisy - FAR * deviation), min(high, noisy + FAR * deviation)
    if high <= low or first >= last:
        return min(max(noisy, low), max(high, low))
    if deviation < 1e-3 * (high - low):
        return min(max(noisy, low), high)
    at = first + (PLACES + 1) / 2 * (last - first)
    distance = ((at - noisy) / deviation) ** 2 / 2
    chance = WEIGHTS * (high - at) * np.exp(distance.min() - distance)
    return float(min(max((at * chance).sum() / chance.sum(), low), high))
