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

>>> posterior_mean_between(500.0, 0.1, 100.0, 900.0)
500.0
>>> round(posterior_mean_between(5000.0, 1e7, 100.0, 1000.0))
400
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


FAR = 6.0  # deviations from the noisy number, beyond which the likelihood is taken as 0
PLACES, WEIGHTS = np.polynomial.legendre.leggauss(64)


def posterior_mean_between(noisy: float, deviation: float, low: float, high: float) -> float:
    """Posterior mean of a number between `low` and `high`, given its noisy value."""
    first, last = max(low, noisy - FAR * deviation), min(high, noisy + FAR * deviation)
    if high <= low or first >= last:
        return min(max(noisy, low), max(high, low))
    if deviation < 1e-3 * (high - low):
        return min(max(noisy, low), high)
    at = first + (PLACES + 1) / 2 * (last - first)
    distance = ((at - noisy) / deviation) ** 2 / 2
    density = WEIGHTS * (high - at) * np.exp(distance.min() - distance)
    return float(min(max((at * density).sum() / density.sum(), low), high))
