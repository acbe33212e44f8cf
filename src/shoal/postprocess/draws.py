"""Chances for drawing synthetic trips: a stream of numbers for every trip, from a seed and the trip's number.

Not for privacy. The numbers do not depend on threads or order, so that a model and a seed always give the
same trips. SplitMix64 (Steele, Lea and Flood 2014), which passes the usual tests of randomness.

>>> uniforms(seed=7, purpose=1, count=3).round(3).tolist()
[0.142, 0.172, 0.739]
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

_STEP = np.uint64(0x9E3779B97F4A7C15)
_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_PART = 2.0**-53


@njit(cache=True, nogil=True)
def mix(word):
    """64 well mixed bits of 64 bits."""
    word = uint64(word)
    word = (word ^ (word >> uint64(30))) * _ONE
    word = (word ^ (word >> uint64(27))) * _TWO
    return word ^ (word >> uint64(31))


@njit(cache=True, nogil=True)
def stream(seed, purpose, number):
    """The state of the stream of one trip (or other thing) for one purpose."""
    return mix(mix(mix(uint64(seed) + _STEP) + uint64(purpose) * _STEP) + uint64(number) * _STEP)


@njit(cache=True, nogil=True)
def uniform(state, draw):
    """The draw-th number of a stream, at least 0 and below 1."""
    return np.float64(mix(state + uint64(draw + 1) * _STEP) >> uint64(11)) * _PART


@njit(cache=True, nogil=True)
def _fill(seed, purpose, out):
    for number in range(out.size):
        out[number] = uniform(stream(seed, purpose, number), 0)


def uniforms(seed: int, purpose: int, count: int) -> np.ndarray:
    """float64 [count]: one number for each of `count` things."""
    out = np.empty(count)
    _fill(np.uint64(seed), np.uint64(purpose), out)
    return out


def pick(weights: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """int64: places drawn in proportion to weights (at least one above 0), one for each chance."""
    if not chance.size:
        return np.empty(0, np.int64)
    ends = np.cumsum(np.maximum(weights, 0.0))
    place = np.searchsorted(ends, chance * ends[-1], side="right")
    return np.minimum(place, int(np.flatnonzero(np.diff(ends, prepend=0.0))[-1]))
