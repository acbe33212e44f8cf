"""How many coefficients of each cluster to keep, by the exponential mechanism.

    u_k = |(F_k+1 .. F_T)|_2 + expected noise of k coefficients,        P(k) ~ exp(-eps0 u_k / (2 S))

The first part is 1-Lipschitz in the series, the second is public. It is rounded down to whole steps and
computed with exact integers, so a user who moves cluster E by d_E moves every u_k by at most
d_E + sqrt(T) + 1 steps, and the bounded range of the choice is eps0 (d_E + sqrt(T) + 1) / S.
Only sum d_E^2 <= ell is known:

    zCDP   S = sqrt(ell) (and the rounding): sum of squared ranges <= eps0^2, so eps0^2 / 8 for all clusters
    pure   S = min(ell, sqrt(clusters ell)):  sum of ranges        <= eps0    for all clusters

Acs and Castelluccia charge one run with S = sqrt(ell), which does not hold for pure epsilon across clusters.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.mechanisms.adders import ceil_sqrt
from shoal.mechanisms.integer_dct import SHIFT, STEPS
from shoal.privacy.noise import Noise


def choose_k(exact_waves: np.ndarray, noise_error: np.ndarray, scale: float, noise: Noise) -> np.ndarray:
    """int64 [clusters]: coefficients kept, 1 to T; scores in steps, P(k) ~ exp(-u_k / scale)."""
    public = np.rint(noise_error).astype(np.int64)
    allowed = candidates(exact_waves.shape[1])
    kept = np.empty(len(exact_waves), np.int64)
    for cluster, row in enumerate(exact_waves):
        scores = -(tails(row) + public)[allowed - 1]
        kept[cluster] = allowed[noise.choose("select", scores, scale)]
    return kept


def candidates(slots: int) -> np.ndarray:
    """int64: every k up to 256, then steps of 1 % up to T: public, and quick on long windows.

    >>> len(candidates(168)), len(candidates(8760)), int(candidates(8760)[-1])
    (168, 612, 8760)
    """
    every = np.arange(1, min(slots, 256) + 1)
    steps = 256 * 1.01 ** np.arange(1, 2000)
    coarse = np.append(np.rint(steps[steps < slots]).astype(np.int64), slots)
    return np.unique(np.concatenate([every, coarse]))


def tails(row: np.ndarray) -> np.ndarray:
    """int64 [T]: floor of the L2 norm of what is dropped when the first 1, 2, ... T are kept; exact."""
    squares = [int(c) ** 2 for c in row.tolist()]
    result = np.empty(len(squares), np.int64)
    left = 0
    for k in range(len(squares), 0, -1):
        result[k - 1] = math.isqrt(left)
        left += squares[k - 1]
    return result


def shift_squared(ell: int, clusters: int, slots: int, lattice: int) -> int:
    """S in zCDP, in steps: joint L2 of what a user moves the clusters' utilities by, rounded up."""
    return (
        STEPS * ceil_sqrt(ell * lattice**2)
        + wave_rounding(ell, slots, lattice)
        + (ceil_sqrt(slots) + 1) * ceil_sqrt(clusters)
    )


def shift_summed(ell: int, clusters: int, slots: int, lattice: int) -> int:
    """S in pure mode, in steps: sum over clusters of what a user moves the utilities by, rounded up."""
    joint = min(ell * lattice, ceil_sqrt(clusters * ell * lattice**2))
    return STEPS * joint + wave_rounding(ell, slots, lattice) + (ceil_sqrt(slots) + 1) * clusters


def wave_rounding(ell: int, slots: int, lattice: int) -> int:
    """What the rounding of the waves adds to the shift, in steps: sqrt(T) |dx|_1 / 2^24, rounded up."""
    return ((ceil_sqrt(slots) * ell * lattice) >> SHIFT) + 1
