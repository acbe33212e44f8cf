"""Empirical-Bayes shrinkage of noisy values, from other noisy values and bounds alone.

Prediction          by least squares on other values, over all places. Their noise is independent of that of
                    the value, so what predicts noisy values best predicts the true ones best as well.
Residual variance   squared residuals minus the noise variance, fitted by isotonic regression on the
                    prediction; where places are few, b p or c p^2.
Shrunk value        prediction + variance / (variance + noise variance) (noisy - prediction): linear, so that
                    sums over many places stay unbiased; it may be negative, and is projected afterwards.

A number between two known bounds has the posterior mean under a prior density that falls linearly from the
lower bound to zero at the upper one, with normal noise. A precise number stays as it is; where the noise
hides it altogether, the result lies a third of the way up.

>>> likely_between(500.0, 0.1, 100.0, 900.0), round(likely_between(5000.0, 1e7, 100.0, 1000.0))
(500.0, 400)
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from shoal.stages.synthetic import NoisyTable

ROUNDS = 3
CLEAR = 3.0
ERRORS = 0.5
SQUARED_NOISE = 5.0  # variance of the square of Laplace noise, in fourth powers of its deviation
RIDGE = 1e-6
TOGETHER = 60  # groups of places whose mean is a point of the curve
NARROWEST = 1 / 200  # of all places, the group at the upper end
CURVE_FROM = 400  # places, from which on scatter is a curve


def likely(noisy: NoisyTable, expected: np.ndarray, relative: float | None = None) -> np.ndarray:
    """float64 [places]: noisy values drawn to what is expected of them.

    `relative` scatter around what is expected, where places are too few to learn it; None: learnt. Then
    values that are clearly off (CLEAR deviations and more) are believed, whatever was expected.
    """
    if relative is None:
        spread = scatter(noisy, expected)
        return expected + spread / (spread + noisy.deviation**2) * (noisy.values - expected)
    spread = (relative * expected) ** 2 + 1e-9
    off = noisy.values - expected
    clear = 1.0 - 1.0 / np.maximum((off / (CLEAR * noisy.deviation)) ** 2, 1e-12)
    return expected + np.maximum(spread / (spread + noisy.deviation**2), clear) * off


def prediction(noisy: NoisyTable, features: np.ndarray) -> np.ndarray:
    """At least 0: what features [places, k], of other noise, say of each value.

    A weighted sum of features, by least squares; then a rising curve through the means of noisy values along
    it, so that what is predicted is right on average, also where there is nothing.
    """
    values, weight = noisy.values, np.ones(noisy.values.size)
    told = np.zeros(values.size)
    scaled = features / (np.sqrt((features**2).mean(axis=0)) + 1e-12)
    for _ in range(ROUNDS):
        square = scaled.T @ (scaled * weight[:, None])
        square += RIDGE * np.trace(square) / len(square) * np.eye(len(square))
        told = scaled @ np.linalg.solve(square, scaled.T @ (values * weight))
        weight = 1.0 / (scatter(noisy, np.maximum(told, 0.0)) + noisy.deviation**2 + 1e-12)
    return rising(told, values)


def better(noisy: NoisyTable, simple: np.ndarray, rich: np.ndarray, learnt: int) -> np.ndarray:
    """Of two predictions the one nearer to the noisy values, after a price for what the rich one learnt.

    Mallows' Cp: each of `learnt` numbers fits the noise of two values, which says nothing of the true ones.
    """
    simple = simple * (max(float(noisy.values @ simple), 0.0) / max(float(simple @ simple), 1e-300))
    gain = ((noisy.values - simple) ** 2 - (noisy.values - rich) ** 2).sum()
    return rich if gain > 2 * learnt * noisy.deviation**2 else simple


def rising(told: np.ndarray, values: np.ndarray) -> np.ndarray:
    """At least 0: the mean of values as a rising function of what was told of them."""
    at, means, size = _along(told, values)
    curve = np.maximum(isotonic_regression(means, weights=size).x, 0.0)
    found = np.interp(told, at, curve)
    # Beyond the last mean the curve goes on as a line through 0 and it.
    return np.where(told > at[-1], curve[-1] * told / max(at[-1], 1e-12), found)


def _along(told: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of both over groups of places in the order of `told`, and how many places each has."""
    order = np.argsort(told, kind="stable")
    groups = max(2, min(TOGETHER, told.size // 20))
    left = np.geomspace(1.0, NARROWEST, groups)  # narrow groups at the upper end, where values differ most
    cuts = (told.size * (1 - left)).astype(np.int64)
    cuts = np.unique(np.concatenate([[0], cuts[(cuts > 0) & (cuts < told.size)], [told.size]]))
    size = np.diff(cuts)
    at, means = (np.add.reduceat(each[order], cuts[:-1]) / size for each in (told, values))
    return at, means, size


def scatter(noisy: NoisyTable, predicted: np.ndarray) -> np.ndarray:
    """float64 [places]: variance of true values around their prediction; at least a little.

    Half a standard error below the fit: where squared noise would explain it, nothing scatters.
    """
    rest = (noisy.values - predicted) ** 2 - noisy.deviation**2
    few = predicted.size < CURVE_FROM
    return (_scatter_law(noisy, predicted, rest) if few else _scatter_curve(noisy, predicted, rest)) + 1e-9


def _scatter_curve(noisy: NoisyTable, predicted: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """A rising curve through means of `rest` along the prediction; beyond its end it grows as p^2."""
    at, means, size = _along(predicted, rest)
    means = means - ERRORS * np.sqrt(SQUARED_NOISE / size) * noisy.deviation**2
    weight = size / (noisy.deviation**2 + at**2) ** 2  # so that a few large values do not decide
    curve = np.maximum(isotonic_regression(means, weights=weight).x, 0.0)
    found = np.interp(predicted, at, curve)
    return np.where(predicted > at[-1], curve[-1] * (predicted / max(at[-1], 1e-12)) ** 2, found)


def _scatter_law(noisy: NoisyTable, predicted: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """b p or c p^2, whichever says more."""
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
