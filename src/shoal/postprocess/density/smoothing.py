"""Smoothing of noisy measurements: profiles over slots, from public columns, and kriging over zones.

city_profile      the city's profile from noisy totals of slots: block James-Stein in the frequency domain
zone_columns      columns for zones: the main profiles of the noisy regions
orthonormal       orthonormal columns from public columns and noisy answers
krige             noisy values at zones, smoothed over near zones

Kriging: value = mean + smooth field + nugget effect + noise. The field has covariance
s (1 - nugget) exp(-distance / reach), the nugget effect variance s nugget; both are signal. There are two
variants: zones are exchangeable with independent nugget effects; or mean and field are proportional to a
zone's size, and the nugget effects are those of sites, which zones share in proportion to area. The variant
and its three parameters maximise the marginal likelihood on a grid, for at most FIT_ZONES zones. Values
beyond four robust deviations get a nugget variance of their own square, so that a true outlier is not
smoothed away. Each zone is predicted from its own value and those of its NEAR nearest zones. The work is
linear in zones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.linalg import get_lapack_funcs, solve_triangular
from scipy.spatial import KDTree

from shoal.space.clock import Clock
from shoal.space.setting import daily_harmonics, day_kinds
from shoal.stages.noisy import NoisyMeasurement

DAILY_BLOCK, OTHER_BLOCK = 2, 6  # frequencies shrunk together
LEAST = 0.02  # of the expected activity: a profile is positive everywhere
LEAST_PER_NOISE, MOST_LEAST = 0.4, 0.6  # the least, per relative noise of a slot
MAY_HIDE = 0.4  # of the noise's variance: what a block that was set to 0 may have contained


def city_profile(
    noisy: np.ndarray, weight: np.ndarray, sigma: float, expected: np.ndarray, per_day: float
) -> tuple[np.ndarray, float]:
    """Positive shares of slots, summing to 1, from noisy totals times `weight` with noise `sigma` in each.

    Also returns the share of the noise's variance that is left.

    Frequencies of whole periods per day are shrunk in pairs, the others in blocks of six: a block that is
    not larger than its noise is set to 0. Without any signal, the result is the expected activity.
    """
    slots = len(noisy)
    spectrum = np.fft.rfft(noisy - _expected_part(noisy, weight, expected), norm="ortho")
    number = np.arange(len(spectrum))
    days = slots / per_day if per_day > 0 else slots
    daily = (np.abs(number / days - np.round(number / days)) < 1e-6) & (number > 0)
    shrunk = np.zeros_like(spectrum)
    left = np.ones(len(spectrum))
    for chosen, size in ((number[daily], DAILY_BLOCK), (number[~daily], OTHER_BLOCK)):
        for start in range(0, len(chosen), size):
            block = chosen[start : start + size]
            energy = float((2 * np.abs(spectrum[block]) ** 2).sum())
            keep = max(0.0, 1.0 - 2 * len(block) * sigma**2 / energy) if energy > 0 else 0.0
            shrunk[block] = keep * spectrum[block]
            left[block] = max(keep, MAY_HIDE)
    smooth = np.fft.irfft(shrunk, slots, norm="ortho") + _expected_part(noisy, weight, expected)
    totals = smooth / weight
    level = float(totals.mean())
    if level <= 0:
        return expected / expected.sum(), 1.0
    noise = float(np.mean(sigma / weight)) / level
    least = min(max(LEAST_PER_NOISE * noise, LEAST), MOST_LEAST)
    totals = np.maximum(totals, least * expected / expected.mean() * level)
    return totals / totals.sum(), float(left.mean())


def _expected_part(noisy: np.ndarray, weight: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Least-squares multiple of the expected activity, towards which totals are shrunk."""
    column = expected * weight
    return column * max(float(column @ noisy) / float(column @ column), 0.0)


def hour_weights(profile: np.ndarray) -> np.ndarray:
    """float64 [slots]: weights of slots, larger in quiet ones, since errors are relative to counts."""
    return np.maximum(profile / profile.mean(), 0.168) ** -0.75


def region_dictionary(clock: Clock, profile: np.ndarray, harmonics: int) -> np.ndarray:
    """Orthonormal columns: the profile, then profile x kind of day x Fourier component of a day."""
    kinds = day_kinds(clock)
    components = daily_harmonics(clock, harmonics)
    columns = [profile]
    for kind in np.unique(kinds):
        columns += [profile * (kinds == kind) * component for component in components]
    return orthonormal(columns)


def zone_columns(
    dictionary: np.ndarray, regions: NoisyMeasurement, profile: np.ndarray, learned: int
) -> np.ndarray:
    """float64 [slots, at most learned]: the city's profile and leading singular vectors of the regions."""
    level = np.maximum(regions.values[:, 0], regions.sigma)
    shapes = regions.values[:, 1:] / np.sqrt(level)[:, None]
    columns = [profile]
    if shapes.size and learned > 1:
        _, _, directions = np.linalg.svd(shapes, full_matrices=False)
        columns += list(directions[: learned - 1] @ dictionary[:, 1:].T)
    return orthonormal(columns)


DEPENDENT = 1e-4  # columns with a smaller share outside the earlier ones are dropped


def orthonormal(columns: Iterable[np.ndarray]) -> np.ndarray:
    """float64 [slots, columns]: Gram-Schmidt in order, twice for accuracy; dependent columns are dropped.

    >>> orthonormal([np.array([3.0, 0.0]), np.array([1.0, 0.0]), np.array([1.0, 1.0])]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    basis: list[np.ndarray] = []
    for column in columns:
        rest = np.asarray(column, np.float64).copy()
        size = float(np.linalg.norm(rest))
        if not size > 0 or not np.isfinite(size):
            continue
        rest /= size
        for _ in range(2):
            for earlier in basis:
                rest -= earlier * (earlier @ rest)
        left = float(np.linalg.norm(rest))
        if left > DEPENDENT:
            basis.append(rest / left)
    return np.array(basis).T if basis else np.zeros((0, 0))


def complement(basis: np.ndarray) -> np.ndarray:
    """float64 [slots, slots - columns]: orthonormal columns that complete `basis`."""
    slots, columns = basis.shape
    whole, _ = np.linalg.qr(basis, mode="complete")
    return whole[:, columns:] if columns < slots else np.zeros((slots, 0))


def probes(basis: np.ndarray, count: int) -> np.ndarray:
    """float64 [slots, at most count]: pseudo-random sign columns, made orthogonal to `basis` and each other.

    Each has the same expected squared product with a series that the basis does not explain.
    """
    slots = len(basis)
    signs = np.where(_scrambled(slots * count) & 1, 1.0, -1.0).reshape(count, slots)
    return orthonormal([*basis.T, *signs])[:, basis.shape[1] :]


def _scrambled(count: int) -> np.ndarray:
    """uint64 [count]: 1, 2, ... mixed by the finaliser of SplitMix64; public, the same every time."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


FIT_ZONES, FIT_TOGETHER = 200, 4  # in groups of near zones, since the fit needs their covariances
NEAR = 40
AT_ONCE = 4_000  # zones that are predicted together
REACHES = (1.0, 2.0, 4.0, 8.0)  # in typical distances: multiples of `scale`
NUGGETS = (0.02, 0.2, 0.5, 0.9)
SIZES = (0.1, 0.4, 1.0, 1.8)  # s, as shares of the variance that the noise does not explain
OUTLIER = 4.0
(potrf,) = get_lapack_funcs(("potrf",), dtype=np.float64)


@dataclass(frozen=True)
class Kriged:
    """Predicted values with their remaining variance."""

    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class Reading:
    """One variant of the model: sizes of zones, and the correlation of their nugget effects."""

    size: np.ndarray  # float64 [zones]: mean and field are proportional to it
    overlap: scipy.sparse.csr_array | None  # float64 [zones, zones], of the nugget effects; None: independent

    def own(self, zones: np.ndarray) -> np.ndarray:
        """Correlation of nugget effects, [..., n, n], among the zones of each row of [..., n]."""
        if self.overlap is None:
            return np.broadcast_to(np.eye(zones.shape[-1]), (*zones.shape, zones.shape[-1]))
        one, other = np.broadcast_arrays(zones[..., :, None], zones[..., None, :])
        return np.asarray(self.overlap[one.ravel(), other.ravel()], np.float64).reshape(one.shape)


@dataclass(frozen=True)
class Layout:
    """Positions of zones, their nearest zones, and the variants of the model."""

    xy: np.ndarray  # float64 [zones, 2]
    scale: float  # typical distance between neighbours
    near: np.ndarray  # int64 [zones, neighbours], the zone itself first
    fit: np.ndarray  # int64: zones the likelihood is computed on
    alike: Reading
    sized: Reading | None

    @classmethod
    def of(
        cls,
        xy_m: np.ndarray,
        sizes: np.ndarray | None = None,
        overlap: scipy.sparse.csr_array | None = None,
    ) -> Layout:
        """Sizes with mean square 1 and overlap with mean 1 on its diagonal, where zones differ in them."""
        xy = np.asarray(xy_m, np.float64)
        count = min(len(xy), NEAR + 1)
        away, near = KDTree(xy).query(xy, k=count)
        away, near = (np.asarray(each).reshape(len(xy), count) for each in (away, near))
        near = _itself_first(near)
        scale = float(np.median(away[:, 1 : min(6, count)])) if count > 1 else 1.0
        differ = sizes is not None and bool(np.ptp(sizes) > 1e-6 * sizes.max())
        return cls(
            xy=xy,
            scale=scale or 1.0,
            near=near,
            fit=_fit_zones(near),
            alike=Reading(np.ones(len(xy)), None),
            sized=Reading(sizes, overlap) if differ and sizes is not None else None,
        )


@dataclass(frozen=True)
class Fit:
    """Parameters of largest likelihood under one variant; size 0 where noise explains everything."""

    reading: Reading
    mean: np.ndarray
    own: np.ndarray  # variances of outliers
    minus_log: float
    size: float = 0.0
    nugget: float = 0.5
    reach: float = 1.0
    doubt: float = 0.0  # mean size, weighted by likelihood: signal variance that the noise may hide

    def signal(self, xy: np.ndarray, zones: np.ndarray) -> np.ndarray:
        """Covariance of the signal, [..., n, n], among the zones of each row of [..., n]."""
        size = self.reading.size[zones]
        field = np.exp(-_distances(xy[zones]) / self.reach) * size[..., :, None] * size[..., None, :]
        signal = self.size * ((1 - self.nugget) * field + self.nugget * self.reading.own(zones))
        steps = np.arange(zones.shape[-1])
        signal[..., steps, steps] += self.own[zones]
        return signal


def krige(
    layout: Layout,
    values: np.ndarray,
    noise_variance: np.ndarray,
    *,
    outliers: bool = True,
    sized: bool = False,
) -> Kriged:
    """Predicted values of all zones with their remaining variance.

    `sized`: also tries the variant in which values are proportional to the sizes of zones.
    """
    noise = np.broadcast_to(np.asarray(noise_variance, np.float64), values.shape)
    readings = [layout.alike, *([layout.sized] if sized and layout.sized is not None else [])]
    fits = [_fit(layout, reading, values, noise, outliers) for reading in readings]
    fit = min(fits, key=lambda each: each.minus_log)
    rest = values - fit.mean
    if fit.size == 0.0:
        share = fit.own / (fit.own + noise + 1e-300)
        return Kriged(fit.mean + share * rest, fit.doubt * fit.reading.size**2 + share * noise)
    mean, variance = np.empty_like(rest), np.empty_like(rest)
    for start in range(0, len(rest), AT_ONCE):
        near = layout.near[start : start + AT_ONCE]
        signal = fit.signal(layout.xy, near)
        to_zone, before = signal[:, 0, :].copy(), signal[:, 0, 0].copy()
        steps = np.arange(near.shape[1])
        signal[:, steps, steps] += noise[near]
        solved = np.linalg.solve(signal, to_zone[:, :, None])[:, :, 0]
        mean[start : start + len(near)] = (solved * rest[near]).sum(axis=1)
        variance[start : start + len(near)] = before - (solved * to_zone).sum(axis=1)
    return Kriged(fit.mean + mean, np.maximum(variance, 0.0))


def _fit(layout: Layout, reading: Reading, values: np.ndarray, noise: np.ndarray, outliers: bool) -> Fit:
    """Size, nugget and reach of largest marginal likelihood on the zones of the fit."""
    mean = _mean(values, noise, reading.size)
    own = _outliers(values - mean, noise, reading.size) if outliers else np.zeros_like(mean)
    at = layout.fit
    rest, plain = (values - mean)[at], (noise + own)[at]
    total = float(np.mean(rest**2))
    left = max(total - float(np.mean(noise[at])), 0.02 * total)
    best = (_nothing(rest, plain), 0.0, 0.5, layout.scale)
    tried = [best[:2]]
    sizes, own_parts = reading.size[at], reading.own(at)
    apart = _distances(layout.xy[at])
    for reach in (layout.scale * r for r in REACHES):
        field = np.exp(-apart / reach) * sizes[:, None] * sizes
        for nugget in NUGGETS:
            shape = (1 - nugget) * field + nugget * own_parts
            for share in SIZES:
                score = _minus_log_likelihood(share * left * shape, plain, rest)
                tried.append((score, share * left))
                if score < best[0]:
                    best = (score, share * left, nugget, reach)
    scores, tried_sizes = np.array(tried).T
    likelihood = np.exp(best[0] - scores)
    return Fit(reading, mean, own, *best, float(likelihood @ tried_sizes / likelihood.sum()))


def _mean(values: np.ndarray, noise: np.ndarray, size: np.ndarray) -> np.ndarray:
    """float64 [zones]: best-fitting multiple of the sizes, with noisy and large zones weighted less."""
    plain = size * float(size @ values) / float(size @ size)
    weight = size / (noise + np.mean((values - plain) ** 2) * size**2 + 1e-300)
    return size * float(weight @ values) / float(weight @ size)


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


def _outliers(rest: np.ndarray, noise: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Extra variance of values beyond four robust deviations; 0 for the others."""
    beyond_noise = max(float(np.mean(rest**2) - np.mean(noise)), 0.0)
    usual = np.sqrt(noise + beyond_noise * size**2 + 1e-300)
    scaled = rest / usual
    middle = np.median(scaled)
    deviation = 1.4826 * np.median(np.abs(scaled - middle))
    return np.where(np.abs(scaled - middle) > OUTLIER * deviation, rest**2, 0.0)


def _fit_zones(near: np.ndarray) -> np.ndarray:
    """Groups of near zones, evenly spread over the order of zones."""
    together = min(FIT_TOGETHER, near.shape[1])
    seeds = np.unique(np.linspace(0, len(near) - 1, min(len(near), FIT_ZONES // together)).astype(np.int64))
    return np.unique(near[seeds, :together])


def _itself_first(near: np.ndarray) -> np.ndarray:
    """Moves each zone to the front of its row, also where several zones share a centre."""
    rows = np.arange(len(near))
    for row in rows[near[:, 0] != rows]:
        others = near[row][near[row] != row][: near.shape[1] - 1]
        near[row] = np.concatenate([[row], others])
    return near


def _distances(points: np.ndarray) -> np.ndarray:
    return np.sqrt(((points[..., :, None, :] - points[..., None, :, :]) ** 2).sum(axis=-1))
