"""Random numbers for drawing synthetic trips, and noisy tables projected onto known totals and margins.

The numbers are not for privacy. Every trip has a stream of its own, from a seed and the trip's number, which
does not depend on threads or order: a model and a seed always give the same trips. SplitMix64 (Steele, Lea
and Flood 2014), which passes the usual tests of randomness.

>>> uniforms(seed=7, purpose=1, count=3).round(3).tolist()
[0.142, 0.172, 0.739]
>>> onto_total(np.array([3.0, -1.0, 2.0]), 4.0).tolist()
[2.5, 0.0, 1.5]
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


def onto_total(values: np.ndarray, total: float) -> np.ndarray:
    """The nearest table (least squares) that is non-negative and sums to `total`."""
    flat = np.asarray(values, np.float64).ravel()
    if total <= 0 or not flat.size:
        return np.zeros(values.shape)
    flat = flat - flat.max()  # changes nothing, but that a total far below the values is not lost in digits
    falling = np.sort(flat)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, flat.size + 1)
    kept = int(np.flatnonzero(falling > over)[-1])
    return np.maximum(flat - over[kept], 0.0).reshape(values.shape)


def onto_own_total(values: np.ndarray, total: float) -> np.ndarray:
    """Made non-negative with the sum it has, then scaled to `total`.

    A sum that noise moved away from the total would else be shared among all places alike, empty ones too.
    Where places are empty, noise above 0 weighs as much as noise below: that is taken off once more.
    """
    below = float(np.maximum(-values, 0.0).sum())
    found = onto_total(values, max(float(values.sum()) - below, 0.3 * total))
    return found * (total / max(float(found.sum()), 1e-300))


def onto_totals(values: np.ndarray, group: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """As `onto_total`, for every group of places by itself."""
    if not values.size:
        return np.zeros(0)
    order = np.lexsort((-values, group))
    size = np.bincount(group, minlength=totals.size)
    begin = np.concatenate([[0], np.cumsum(size)[:-1]])
    of = group[order]
    values = values - values[order][np.minimum(begin, values.size - 1)][group]  # as above, by group
    falling = values[order]
    running = np.cumsum(falling)
    before = np.concatenate([[0.0], running])[begin]
    rank = np.arange(values.size) - begin[of] + 1
    over = (running - before[of] - totals[of]) / rank
    kept = falling > over
    last = np.full(totals.size, -1)
    np.maximum.at(last, of[kept], np.flatnonzero(kept))
    cut = np.where(last >= 0, over[np.maximum(last, 0)], np.inf)
    found = np.maximum(values - cut[group], 0.0)
    return np.where(totals[group] > 0, found, 0.0)


def to_margins(seed: np.ndarray, rows: np.ndarray, columns: np.ndarray, rounds: int = 20) -> np.ndarray:
    """Iterative proportional fitting of tables [..., rows, columns] to the sums of rows and columns.

    The sums of columns are scaled to the total of the rows first.
    """
    fitted = np.array(seed, np.float64)
    columns = columns * (rows.sum(-1, keepdims=True) / np.maximum(columns.sum(-1, keepdims=True), 1e-300))
    for _ in range(rounds):
        fitted *= (rows / np.maximum(fitted.sum(axis=-1), 1e-300))[..., None]
        fitted *= (columns / np.maximum(fitted.sum(axis=-2), 1e-300))[..., None, :]
    return fitted


def conditional(table: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """Rows that sum to 1; a row without mass is the fallback's."""
    total = table.sum(axis=-1, keepdims=True)
    usual = fallback / np.maximum(fallback.sum(axis=-1, keepdims=True), 1e-300)
    return np.where(total > 0, table / np.where(total > 0, total, 1.0), usual)
