"""Noisy tables shrunk and projected onto known totals and margins, and random numbers for drawing trips.

Empirical-Bayes shrinkage of noisy values, from other noisy values alone:

Prediction          by least squares on other values, over all places. Their noise is independent of that of
                    the value, so what predicts noisy values best predicts the true ones best as well.
Residual variance   squared residuals minus the noise variance, fitted by isotonic regression on the
                    prediction; where places are few, b p or c p^2.
Shrunk value        prediction + variance / (variance + noise variance) (noisy - prediction): linear, so that
                    sums over many places stay unbiased; it may be negative, and is projected afterwards.

The random numbers are not for privacy. Every trip has a stream of its own, from a seed and the trip's number,
which does not depend on threads or order: a model and a seed always give the same trips. SplitMix64 (Steele,
Lea and Flood 2014), which passes the usual tests of randomness.

>>> uniforms(seed=7, purpose=1, count=3).round(3).tolist()
[0.142, 0.172, 0.739]
>>> onto_total(np.array([3.0, -1.0, 2.0]), 4.0).tolist()
[2.5, 0.0, 1.5]
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64
from scipy.optimize import isotonic_regression

from shoal.stages.synthetic import NoisyTable

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


def pick(weights: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """int64: a place for each of `draws` in [0, 1), in proportion to weights (at least one above 0)."""
    if not draws.size:
        return np.empty(0, np.int64)
    ends = np.cumsum(np.maximum(weights, 0.0))
    place = np.searchsorted(ends, draws * ends[-1], side="right")
    return np.minimum(place, int(np.flatnonzero(np.diff(ends, prepend=0.0))[-1]))


def onto_total(values: np.ndarray, total: float) -> np.ndarray:
    """The nearest table (least squares) that is non-negative and sums to `total`."""
    flat = np.asarray(values, np.float64).ravel()
    if total <= 0 or not flat.size:
        return np.zeros(values.shape)
    flat = flat - flat.max()  # same result; avoids cancellation where the total is far below the values
    falling = np.sort(flat)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, flat.size + 1)
    last = int(np.flatnonzero(falling > over)[-1])
    return np.maximum(flat - over[last], 0.0).reshape(values.shape)


def onto_own_total(values: np.ndarray, total: float) -> np.ndarray:
    """Projects a table to be non-negative with its own sum, then scales it to `total`.

    Projected onto `total` itself, the difference between the two sums would be spread evenly over all places,
    empty ones included. In empty places, positive and negative noise have the same mass on average: the mass
    of negative values is therefore subtracted from the sum once more.
    """
    below = float(np.maximum(-values, 0.0).sum())
    projected = onto_total(values, max(float(values.sum()) - below, 0.3 * total))
    return projected * (total / max(float(projected.sum()), 1e-300))


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
    positive = falling > over
    last = np.full(totals.size, -1)
    np.maximum.at(last, of[positive], np.flatnonzero(positive))
    cut = np.where(last >= 0, over[np.maximum(last, 0)], np.inf)
    return np.where(totals[group] > 0, np.maximum(values - cut[group], 0.0), 0.0)


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
    """Rows scaled to sum to 1; a row without mass is taken from `fallback`."""
    total = table.sum(axis=-1, keepdims=True)
    usual = fallback / np.maximum(fallback.sum(axis=-1, keepdims=True), 1e-300)
    return np.where(total > 0, table / np.where(total > 0, total, 1.0), usual)


ROUNDS = 3
CLEAR = 3.0
ERRORS = 0.5
SQUARED_NOISE = 5.0  # variance of the square of Laplace noise, in fourth powers of its deviation
RIDGE = 1e-6
GROUPS = 60  # of places; the mean of a group is one knot of an isotonic fit
NARROWEST = 1 / 200  # share of all places in the group at the upper end
ISOTONIC_FROM = 400  # places, from which on the residual variance is fitted by isotonic regression


def shrunk(noisy: NoisyTable, expected: np.ndarray, relative: float | None = None) -> np.ndarray:
    """float64 [places]: noisy values shrunk towards their prediction `expected`.

    `relative` is the standard deviation of true values, as a share of the prediction, where places are too
    few to estimate it; values that are off by CLEAR deviations or more then stay nearly as they are. None:
    the residual variance is estimated.
    """
    if relative is None:
        spread = residual_variance(noisy, expected)
        return expected + spread / (spread + noisy.deviation**2) * (noisy.values - expected)
    spread = (relative * expected) ** 2 + 1e-9
    off = noisy.values - expected
    clear = 1.0 - 1.0 / np.maximum((off / (CLEAR * noisy.deviation)) ** 2, 1e-12)
    return expected + np.maximum(spread / (spread + noisy.deviation**2), clear) * off


def prediction(noisy: NoisyTable, features: np.ndarray) -> np.ndarray:
    """Non-negative prediction of each value from features [places, k] whose noise is independent of it.

    Weighted least squares on the features, then isotonic regression of the noisy values on the result, so
    that predictions are unbiased at every level, also near 0.
    """
    values, weight = noisy.values, np.ones(noisy.values.size)
    fitted = np.zeros(values.size)
    scaled = features / (np.sqrt((features**2).mean(axis=0)) + 1e-12)
    for _ in range(ROUNDS):
        square = scaled.T @ (scaled * weight[:, None])
        square += RIDGE * np.trace(square) / len(square) * np.eye(len(square))
        fitted = scaled @ np.linalg.solve(square, scaled.T @ (values * weight))
        weight = 1.0 / (residual_variance(noisy, np.maximum(fitted, 0.0)) + noisy.deviation**2 + 1e-12)
    return isotonic(fitted, values)


def select_by_mallows_cp(
    noisy: NoisyTable, simple: np.ndarray, rich: np.ndarray, parameters: int
) -> np.ndarray:
    """The prediction with the smaller Mallows' Cp; `rich` has `parameters` fitted parameters.

    Cp adds 2 sigma^2 per fitted parameter to squared residuals. `simple` is scaled by least squares first.
    """
    simple = simple * (max(float(noisy.values @ simple), 0.0) / max(float(simple @ simple), 1e-300))
    gain = ((noisy.values - simple) ** 2 - (noisy.values - rich) ** 2).sum()
    return rich if gain > 2 * parameters * noisy.deviation**2 else simple


def isotonic(prediction: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Isotonic regression of `values` on `prediction`, at least 0, by means over groups of places."""
    knots, means, size = _group_means(prediction, values)
    curve = np.maximum(isotonic_regression(means, weights=size).x, 0.0)
    fitted = np.interp(prediction, knots, curve)
    # Beyond the last knot the fit continues proportionally to the prediction.
    return np.where(prediction > knots[-1], curve[-1] * prediction / max(knots[-1], 1e-12), fitted)


def _group_means(prediction: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of both over groups of places in the order of `prediction`, and the sizes of the groups."""
    order = np.argsort(prediction, kind="stable")
    places = prediction.size
    groups = max(2, min(GROUPS, places // 20))
    left = np.geomspace(1.0, NARROWEST, groups)  # narrow groups at the upper end, where values differ most
    cuts = (places * (1 - left)).astype(np.int64)
    cuts = np.unique(np.concatenate([[0], cuts[(cuts > 0) & (cuts < places)], [places]]))
    size = np.diff(cuts)
    knots, means = (np.add.reduceat(each[order], cuts[:-1]) / size for each in (prediction, values))
    return knots, means, size


def residual_variance(noisy: NoisyTable, predicted: np.ndarray) -> np.ndarray:
    """float64 [places], positive: variance of true values around their prediction.

    Half a standard error is subtracted before fitting, so that the noise of the squares alone gives 0.
    """
    rest = (noisy.values - predicted) ** 2 - noisy.deviation**2
    few = predicted.size < ISOTONIC_FROM
    return (
        _power_law_variance(noisy, predicted, rest) if few else _isotonic_variance(noisy, predicted, rest)
    ) + 1e-9


def _isotonic_variance(noisy: NoisyTable, predicted: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Isotonic regression of `rest` on the prediction p; beyond the last knot it grows as p^2."""
    at, means, size = _group_means(predicted, rest)
    means = means - ERRORS * np.sqrt(SQUARED_NOISE / size) * noisy.deviation**2
    weight = size / (noisy.deviation**2 + at**2) ** 2  # so that a few large values do not decide
    curve = np.maximum(isotonic_regression(means, weights=weight).x, 0.0)
    fitted = np.interp(predicted, at, curve)
    return np.where(predicted > at[-1], curve[-1] * (predicted / max(at[-1], 1e-12)) ** 2, fitted)


def _power_law_variance(noisy: NoisyTable, predicted: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """b p or c p^2, whichever explains more of the squared residuals."""
    weight = (
        1.0 / (noisy.deviation**2 + predicted**2 + 1e-12) ** 2
    )  # so that a few large values do not decide
    best, gain = np.zeros(predicted.size), 0.0
    for shape in (predicted, predicted**2):
        square = max(float((shape**2 * weight).sum()), 1e-300)
        fitted = float((shape * weight * rest).sum()) / square
        noise = SQUARED_NOISE * float(((shape * weight) ** 2).sum())
        error = ERRORS * np.sqrt(noise) * noisy.deviation**2 / square
        if fitted > error and (fitted - error) ** 2 * square > gain:
            best, gain = (fitted - error) * shape, (fitted - error) ** 2 * square
    return best
