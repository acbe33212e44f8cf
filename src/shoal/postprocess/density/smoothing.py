"""Smoothing of noisy measurements: profiles over slots, from public columns, and kriging over zones.

city_profile      the city's profile from noisy hourly totals: block James-Stein in the frequency domain
zone_columns      columns for zones, fitted to noisy regions: the shapes that a day takes in this city
orthonormal       orthonormal columns from public columns and noisy answers
krige             noisy values at zones, smoothed as far as near zones are alike

Kriging: value = mean + smooth field + own part + noise. The field has covariance s (1 - nugget) exp(-distance
/ reach), the own part variance s nugget; both are wanted, the noise is not. Two readings of mean, field and
own part: every zone is alike and has an own part of its own; or mean and field go with a zone's size, and the
own parts are those of sites, which zones share as their areas do. The reading and the three numbers have the
largest marginal likelihood on a grid, on a spread of at most FIT_ZONES zones. Values beyond four robust
deviations get an own part of their own size, so that a true outlier is not smoothed away. Each zone is
predicted from its own value and those of its NEAR nearest zones. The work is linear in zones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.linalg import get_lapack_funcs, solve_triangular
from scipy.spatial import KDTree

from shoal.space.clock import Clock
from shoal.space.setting import daily_waves, day_kinds
from shoal.stages.noisy import NoisyMeasurement

DAILY_BLOCK, OTHER_BLOCK = 2, 6  # frequencies shrunk together
LEAST = 0.02  # of the expected activity: a profile is positive everywhere


def city_profile(
    noisy: np.ndarray, weight: np.ndarray, sigma: float, expected: np.ndarray, per_day: float
) -> np.ndarray:
    """Positive shares of slots, summing to 1, from noisy totals times `weight` with noise `sigma` in each.

    Frequencies of whole periods per day are shrunk in pairs, the others six at a time: a block that is not
    larger than its noise is dropped. With no signal at all the expected activity is what remains.
    """
    slots = len(noisy)
    waves = np.fft.rfft(noisy - _expected_part(noisy, weight, expected), norm="ortho")
    number = np.arange(len(waves))
    days = slots / per_day if per_day > 0 else slots
    daily = (np.abs(number / days - np.round(number / days)) < 1e-6) & (number > 0)
    shrunk = np.zeros_like(waves)
    for chosen, size in ((number[daily], DAILY_BLOCK), (number[~daily], OTHER_BLOCK)):
        for start in range(0, len(chosen), size):
            block = chosen[start : start + size]
            energy = float((2 * np.abs(waves[block]) ** 2).sum())
            keep = max(0.0, 1.0 - 2 * len(block) * sigma**2 / energy) if energy > 0 else 0.0
            shrunk[block] = keep * waves[block]
    smooth = np.fft.irfft(shrunk, slots, norm="ortho") + _expected_part(noisy, weight, expected)
    totals = smooth / weight
    level = float(totals.mean())
    if level <= 0:
        return expected / expected.sum()
    totals = np.maximum(totals, LEAST * expected / expected.mean() * level)
    return totals / totals.sum()


def _expected_part(noisy: np.ndarray, weight: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The multiple of the expected activity nearest to the noisy totals: what shrinking goes towards."""
    column = expected * weight
    return column * max(float(column @ noisy) / float(column @ column), 0.0)


def hour_weights(profile: np.ndarray) -> np.ndarray:
    """How much an hour counts: quiet ones more, since errors are judged relative to counts."""
    return np.maximum(profile / profile.mean(), 0.168) ** -0.75


def region_dictionary(clock: Clock, profile: np.ndarray, waves: int) -> np.ndarray:
    """The weighted profile times kinds of days times waves of a day, orthonormal, the profile first."""
    kinds = day_kinds(clock)
    shapes = daily_waves(clock, waves)
    columns = [profile]
    for kind in np.unique(kinds):
        columns += [profile * (kinds == kind) * wave for wave in shapes]
    return orthonormal(columns)


def zone_columns(
    dictionary: np.ndarray, regions: NoisyMeasurement, profile: np.ndarray, learned: int
) -> np.ndarray:
    """float64 [slots, at most learned]: the city's profile, the strongest directions of regions' shapes."""
    level = np.maximum(regions.values[:, 0], regions.sigma)
    shapes = regions.values[:, 1:] / np.sqrt(level)[:, None]
    columns = [profile]
    if shapes.size and learned > 1:
        _, _, directions = np.linalg.svd(shapes, full_matrices=False)
        columns += list(directions[: learned - 1] @ dictionary[:, 1:].T)
    return orthonormal(columns)


DEPENDENT = 1e-4  # a column with less than this share outside the earlier ones adds nothing


def orthonormal(columns: Iterable[np.ndarray]) -> np.ndarray:
    """float64 [slots, kept]: Gram and Schmidt in order, twice for accuracy; dependent columns are left out.

    >>> orthonormal([np.array([3.0, 0.0]), np.array([1.0, 0.0]), np.array([1.0, 1.0])]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    kept: list[np.ndarray] = []
    for column in columns:
        rest = np.asarray(column, np.float64).copy()
        size = float(np.linalg.norm(rest))
        if not size > 0 or not np.isfinite(size):
            continue
        rest /= size
        for _ in range(2):
            for earlier in kept:
                rest -= earlier * (earlier @ rest)
        left = float(np.linalg.norm(rest))
        if left > DEPENDENT:
            kept.append(rest / left)
    return np.array(kept).T if kept else np.zeros((0, 0))


def complement(basis: np.ndarray) -> np.ndarray:
    """float64 [slots, slots - columns]: orthonormal columns that complete `basis`."""
    slots, columns = basis.shape
    whole, _ = np.linalg.qr(basis, mode="complete")
    return whole[:, columns:] if columns < slots else np.zeros((slots, 0))


def probes(basis: np.ndarray, count: int) -> np.ndarray:
    """float64 [slots, at most count]: orthonormal columns outside `basis`, of signs that follow no rhythm.

    What no column of the basis explains shows in each of them by chance, as much as in any other.
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


FIT_ZONES, FIT_TOGETHER = 200, 4  # near zones are taken together: how alike they are is what is asked
NEAR = 40
AT_ONCE = 4_000  # zones that are predicted together
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
class Reading:
    """What zones are taken to have in common before their values are seen."""

    size: np.ndarray  # float64 [zones]: mean and field go with it
    overlap: scipy.sparse.csr_array | None  # float64 [zones, zones], of the own parts; None: each its own

    def own(self, zones: np.ndarray) -> np.ndarray:
        """Covariance of own parts, [..., n, n], among the zones of each row of [..., n]."""
        if self.overlap is None:
            return np.broadcast_to(np.eye(zones.shape[-1]), (*zones.shape, zones.shape[-1]))
        one, other = np.broadcast_arrays(zones[..., :, None], zones[..., None, :])
        return np.asarray(self.overlap[one.ravel(), other.ravel()], np.float64).reshape(one.shape)


@dataclass(frozen=True)
class Layout:
    """Where zones lie, which are near, and the two readings of what they have in common."""

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
        away, near = (np.asarray(found).reshape(len(xy), count) for found in (away, near))
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
    """The likeliest numbers under one reading; size 0 where noise explains everything."""

    reading: Reading
    mean: np.ndarray
    own: np.ndarray  # variances of outliers
    minus_log: float
    size: float = 0.0
    nugget: float = 0.5
    reach: float = 1.0
    doubt: float = 0.0  # the mean size, each weighed by its likelihood: what may hide in the noise even so

    def signal(self, xy: np.ndarray, zones: np.ndarray) -> np.ndarray:
        """Covariance of what is wanted, [..., n, n], among the zones of each row of [..., n]."""
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
    """Smoothed values of all zones, and what stays uncertain about them.

    `sized`: values add up like people do, so larger zones may have more.
    """
    noise = np.broadcast_to(np.asarray(noise_variance, np.float64), values.shape)
    readings = [layout.alike, *([layout.sized] if sized and layout.sized is not None else [])]
    fits = [_fit(layout, reading, values, noise, outliers) for reading in readings]
    fit = min(fits, key=lambda found: found.minus_log)
    rest = values - fit.mean
    if fit.size == 0.0:
        kept = fit.own / (fit.own + noise + 1e-300)
        return Kriged(fit.mean + kept * rest, fit.doubt * fit.reading.size**2 + kept * noise)
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
    scores, found = np.array(tried).T
    likely = np.exp(best[0] - scores)
    return Fit(reading, mean, own, *best, float(likely @ found / likely.sum()))


def _mean(values: np.ndarray, noise: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The multiple of the sizes that fits best, noisy and large zones counting less."""
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
    """An own variance for values beyond four robust deviations, none for the others."""
    beyond_noise = max(float(np.mean(rest**2) - np.mean(noise)), 0.0)
    usual = np.sqrt(noise + beyond_noise * size**2 + 1e-300)
    scaled = rest / usual
    middle = np.median(scaled)
    deviation = 1.4826 * np.median(np.abs(scaled - middle))
    return np.where(np.abs(scaled - middle) > OUTLIER * deviation, rest**2, 0.0)


def _fit_zones(near: np.ndarray) -> np.ndarray:
    """Groups of near zones, spread over the order of zones."""
    together = min(FIT_TOGETHER, near.shape[1])
    seeds = np.unique(np.linspace(0, len(near) - 1, min(len(near), FIT_ZONES // together)).astype(np.int64))
    return np.unique(near[seeds, :together])


def _itself_first(near: np.ndarray) -> np.ndarray:
    """Each row begins with its own number, also where several zones share a centre."""
    rows = np.arange(len(near))
    for row in rows[near[:, 0] != rows]:
        others = near[row][near[row] != row][: near.shape[1] - 1]
        near[row] = np.concatenate([[row], others])
    return near


def _distances(points: np.ndarray) -> np.ndarray:
    return np.sqrt(((points[..., :, None, :] - points[..., None, :, :]) ** 2).sum(axis=-1))
