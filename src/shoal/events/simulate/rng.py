"""A random stream per (seed, user, week, purpose), in compiled code.

SplitMix64: the state is a counter, so a stream needs no set-up, and a user's draws do not depend on
which block, thread or part the user falls into. Not for privacy: see `shoal.privacy.noise`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

PERSON, DIARY, VISITS, SAMPLES, TRIPS, TRANSIT, PLACE = 1, 2, 3, 4, 5, 6, 7  # purposes

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True)
def mix(z):
    """A 64-bit bijection that scrambles its argument."""
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def open_stream(state, seed, user, week, purpose):
    """Point `state` (uint64[1]) at the stream of this user, week and purpose."""
    z = mix(np.uint64(seed) + _GOLDEN)
    z = mix(z ^ (np.uint64(user) + _GOLDEN))
    state[0] = mix(z ^ ((np.uint64(week) << np.uint64(8)) + np.uint64(purpose) + _GOLDEN))


@njit(cache=True)
def uniform(state):
    """One draw from [0, 1)."""
    state[0] += _GOLDEN
    return np.float64(mix(state[0]) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def below(state, n):
    """One integer from 0 to n - 1."""
    return int(uniform(state) * n)


@njit(cache=True)
def normal(state):
    """One standard normal draw (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(state)))
    return radius * math.cos(2.0 * math.pi * uniform(state))


@njit(cache=True)
def pick(state, cumulative):
    """An index with the probabilities whose running sums are given (the last is 1)."""
    u = uniform(state)
    low, high = 0, cumulative.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True)
def user_id(index, seed):
    """An arbitrary-looking id below 2**40, different for different users: a bijection on 40 bits."""
    mask = np.uint64((1 << 40) - 1)
    z = (np.uint64(index) + mix(np.uint64(seed))) & mask
    for _ in range(3):
        z = (z * np.uint64(0xD6E8FEB86659FD93)) & mask
        z ^= z >> np.uint64(21)
    return np.int64(z)
