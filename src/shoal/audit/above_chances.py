"""Exact chances of the sparse vector primitive, by integration over the threshold's noise.

For the lower bounds and for tests of the primitive (shoal/privacy/above.py), written from its definition:

    P(i) = integral f(t) prod_{j < i} F(t - m_j) (1 - F(t - m_i)) dt

with f the density of Laplace(scale) and F the distribution of Laplace(2 scale). The lattice is far finer than
either, so the integral stands for the sum.

>>> above_chances(np.array([0]), 1000.0).round(6).tolist()           # above or below by symmetry
[0.5, 0.5]
"""

from __future__ import annotations

import numpy as np
from scipy.stats import laplace

POINTS, REACH = 20_001, 40.0  # of the grid over the threshold's noise, in scales


def above_chances(margins: np.ndarray, scale: float) -> np.ndarray:
    """Chance of each index, and of none as the last: float64 [values + 1]."""
    threshold = np.linspace(-REACH, REACH, POINTS) * scale
    weight = laplace.pdf(threshold, scale=scale)
    weight /= weight.sum()
    chances = []
    for margin in margins.astype(np.float64):
        below = laplace.cdf(threshold - margin, scale=2 * scale)
        chances.append(float((weight * (1 - below)).sum()))
        weight = weight * below
    return np.array([*chances, float(weight.sum())])
