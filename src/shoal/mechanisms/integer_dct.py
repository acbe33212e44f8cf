"""Orthonormal DCT-II of integer series in integer arithmetic, with exact bounds on what one user changes.

The waves are rounded to integers: B = 2^28 C + E, C the orthonormal DCT-II, every |E| <= 1 (rounding gives
1/2, the cosine's own error is far below the rest). A coefficient is floor(B x / 2^24): a whole number of
steps of 1/16 lattice unit. All of it is 64-bit integer arithmetic that cannot overflow, so there is no
floating point between the counts and the noise. For series that change by dx, per cluster,

    |B dx| / 2^24  <=  16 |dx|_2 + sqrt(T) |dx|_1 / 2^24       in L2 (E is at most sqrt(T) per column)
    floor          moves each coefficient of a touched cluster by less than 1 more.
"""

from __future__ import annotations

import numpy as np
import scipy.fft

from shoal.errors import GuaranteeError

WAVE_BITS = 28
SHIFT = 24
STEPS = 2 ** (WAVE_BITS - SHIFT)  # of a coefficient, per lattice unit
LARGEST_SUM = 2**53  # of a series, in lattice units: 8e9 visits
LARGEST_SLOTS = 2**16
_CHUNK = 512


def coefficients(units: np.ndarray) -> np.ndarray:
    """int64 [rows, slots]: DCT-II of each row, in steps, rounded down."""
    rows, slots = units.shape
    if units.dtype != np.int64 or slots > LARGEST_SLOTS:
        raise GuaranteeError("noise-lattice", "waves are taken of 64-bit integers and at most 65,536 slots.")
    if rows and float(np.abs(units.astype(np.float64)).sum(axis=1).max()) >= LARGEST_SUM:
        raise GuaranteeError("noise-lattice", "the counts do not fit the lattice; use a coarser one.")
    # |high| sums to at most 2^29 and low is below 2^24: products with waves stay below 2^62.
    high, low = units >> SHIFT, units & (2**SHIFT - 1)
    result = np.empty((rows, slots), np.int64)
    for start in range(0, slots, _CHUNK):
        block = waves(start, min(start + _CHUNK, slots), slots).T
        result[:, start : start + _CHUNK] = high @ block + ((low @ block) >> SHIFT)
    return result


def waves(start: int, stop: int, slots: int) -> np.ndarray:
    """int64 [stop - start, slots]: rows of the orthonormal DCT-II times 2^28, rounded."""
    kept = np.arange(start, stop)[:, None]
    angle = (2 * np.arange(slots)[None, :] + 1) * kept % (4 * slots)  # whole periods removed exactly
    cosine = np.sqrt(2.0 / slots) * np.cos(angle * (np.pi / (2 * slots)))
    cosine[kept[:, 0] == 0] = np.sqrt(1.0 / slots)
    return np.rint(cosine * 2.0**WAVE_BITS).astype(np.int64)


def series_of(noisy_visits: np.ndarray) -> np.ndarray:
    """float64 [rows, slots]: the inverse transform of noisy coefficients (after the noise: plain floats)."""
    if not noisy_visits.size:
        return noisy_visits
    return np.asarray(scipy.fft.idct(noisy_visits, type=2, norm="ortho", axis=1))
