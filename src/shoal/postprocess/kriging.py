"""Kriging: noisy values at zones, smoothed as far as near zones are alike.

Model: value = mean + smooth field + the zone's own part + noise. The field has covariance s (1 - nugget)
exp(-distance / reach), the zone's own part variance s nugget; both are wanted, the noise is not. The three
numbers have the largest marginal likelihood on a grid, on a spread of at most FIT_ZONES zones. Values beyond
four robust deviations get an own part of their own size, so that a true outlier is not smoothed away.
Each zone is predicted from its own value and those of its NEAR nearest zones. The work is linear in zones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular
from scipy.spatial import KDTree

FIT_ZONES = 200
NEAR = 40
REACHES = (1.0, 2.0, 4.0, 8.0)  # in typical distances: multiples of `scale`
NUGGETS = (0.02, 0.2, 0.5, 0.9)
SIZES = (0.1, 0.4, 1.0, 1.8)  # s, as shares of the variance the noise does not explain
OUTLIER = 4.0
(potrf,) = get_lapack_funcs(("potrf",), dtype=np.float64)


@dataclass(frozen=True)
class Kriged:
    """Predicted values with their remaining variance."""

    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class Layout:
    """Where zones lie: neighbours of each, and the distances kriging needs, computed once."""

    xy: np.ndarray  # float64 [zones, 2]
    scale: float  # typical distance between neighbours
    near: np.ndarray  # int64 [zones, neighbours], the zone itself first
    apart: np.ndarray  # float64 [zones, neighbours, neighbours]
    fit: np.ndarray  # int64: zones the likelihood is computed on
    fit_apart: np.ndarray

    @classmethod
    def of(cls, xy_m: np.ndarray) -> Layout:
        xy = np.asarray(xy_m, np.float64)
        count = min(len(xy), NEAR + 1)
        _, near = KDTree(xy).query(xy, k=count)
        near = np.asarray(near).reshape(len(xy), count)
        near = _itself_first(near)
        apart = _distances(xy[near])
        fit = np.unique(np.linspace(0, len(xy) - 1, min(len(xy), FIT_ZONES)).astype(np.int64))
        scale = float(np.median(apart[:, 0, 1 : min(6, count)])) if count > 1 else 1.0
        return cls(xy, scale or 1.0, near, apart, fit, _distances(xy[fit][None])[0])


def krige(layout: Layout, values: np.ndarray, noise_variance: np.ndarray, *, outliers: bool = True) -> Kriged:
    """Smoothed values of all zones, and what stays uncertain about them."""
    noise = np.broadcast_to(np.asarray(noise_variance, np.float64), values.shape)
    weight = 1.0 / (noise + np.var(values) + 1e-300)
    mean = float((weight * values).sum() / weight.sum())
    rest = values - mean
    own = _outliers(rest) if outliers else np.zeros_like(rest)
    size, nugget, reach, doubt = _fit(layout, rest, noise, own)
    if size == 0.0:
        return Kriged(
            np.full_like(rest, mean) + own * rest / (own + noise + 1e-300),
            doubt + own * noise / (own + noise + 1e-300),
        )
    signal = size * (1 - nugget) * np.exp(-layout.apart / reach)
    steps = np.arange(layout.near.shape[1])
    signal[:, steps, steps] += size * nugget + own[layout.near]
    observed = signal.copy()
    observed[:, steps, steps] += noise[layout.near]
    to_zone = signal[:, 0, :]
    solved = np.linalg.solve(observed, to_zone[:, :, None])[:, :, 0]
    predicted = mean + (solved * rest[layout.near]).sum(axis=1)
    variance = signal[:, 0, 0] - (solved * to_zone).sum(axis=1)
    return Kriged(predicted, np.maximum(variance, 0.0))


def _fit(
    layout: Layout, rest: np.ndarray, noise: np.ndarray, own: np.ndarray
) -> tuple[float, float, float, float]:
    """Size, nugget and reach of largest marginal likelihood; size 0 where noise explains everything.

    And the mean size, each weighed by its likelihood: what may hide in the noise even then.
    """
    at = layout.fit
    values, plain = rest[at], noise[at] + own[at]
    total = float(np.mean(values**2))
    left = max(total - float(np.mean(noise[at])), 0.02 * total)
    best = (_nothing(values, plain), 0.0, 0.5, layout.scale)
    tried = [best[:2]]
    for reach in (layout.scale * r for r in REACHES):
        field = np.exp(-layout.fit_apart / reach)
        for nugget in NUGGETS:
            shape = (1 - nugget) * field
            shape[np.diag_indices_from(shape)] += nugget
            for share in SIZES:
                score = _minus_log_likelihood(share * left * shape, plain, values)
                tried.append((score, share * left))
                if score < best[0]:
                    best = (score, share * left, nugget, reach)
    scores, sizes = np.array(tried).T
    likely = np.exp(best[0] - scores)
    return *best[1:], float(likely @ sizes / likely.sum())


def _nothing(values: np.ndarray, plain: np.ndarray) -> float:
    safe = np.maximum(plain, 1e-300)
    return float(0.5 * (values**2 / safe).sum() + 0.5 * np.log(safe).sum())


def _minus_log_likelihood(signal: np.ndarray, plain: np.ndarray, values: np.ndarray) -> float:
    covariance = signal.copy()
    covariance[np.diag_indices_from(covariance)] += plain
    lower, failed = potrf(covariance, lower=1, overwrite_a=1)
    if failed:
        return np.inf
    scaled = solve_triangular(lower, values, lower=True, check_finite=False)
    return float(0.5 * scaled @ scaled + np.log(np.diag(lower)).sum())


def _outliers(rest: np.ndarray) -> np.ndarray:
    """An own variance for values beyond four robust deviations, none for the others."""
    middle = np.median(rest)
    deviation = 1.4826 * np.median(np.abs(rest - middle))
    return np.where(np.abs(rest - middle) > OUTLIER * deviation, (rest - middle) ** 2, 0.0)


def _itself_first(near: np.ndarray) -> np.ndarray:
    """Each row begins with its own number, also where several zones share a centre."""
    rows = np.arange(len(near))
    for row in rows[near[:, 0] != rows]:
        others = near[row][near[row] != row][: near.shape[1] - 1]
        near[row] = np.concatenate([[row], others])
    return near


def _distances(points: np.ndarray) -> np.ndarray:
    return np.sqrt(((points[:, :, None, :] - points[:, None, :, :]) ** 2).sum(axis=-1))
