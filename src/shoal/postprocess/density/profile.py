"""Profiles over slots, from public columns and noisy totals.

city_profile      the city's profile from noisy totals of slots: block James-Stein in the frequency domain
zone_columns      columns for zones: the main profiles of the noisy regions
orthonormal       orthonormal columns from public columns and noisy answers
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shoal.space.clock import Clock
from shoal.space.setting import daily_harmonics, day_kinds
from shoal.stages.noisy import NoisyMeasurement

DAILY_BLOCK, OTHER_BLOCK = 2, 6  # frequencies shrunk together
LEAST = 0.02  # of the expected activity: a profile is positive everywhere


def city_profile(
    noisy: np.ndarray, weight: np.ndarray, sigma: float, expected: np.ndarray, per_day: float
) -> np.ndarray:
    """Positive shares of slots, summing to 1, from noisy totals times `weight` with noise `sigma` in each.

    Frequencies of whole periods per day are shrunk in pairs, the others in blocks of six: a block that is
    not larger than its noise is set to 0. Without any signal, the result is the expected activity.
    """
    slots = len(noisy)
    spectrum = np.fft.rfft(noisy - _expected_part(noisy, weight, expected), norm="ortho")
    number = np.arange(len(spectrum))
    days = slots / per_day if per_day > 0 else slots
    daily = (np.abs(number / days - np.round(number / days)) < 1e-6) & (number > 0)
    shrunk = np.zeros_like(spectrum)
    for chosen, size in ((number[daily], DAILY_BLOCK), (number[~daily], OTHER_BLOCK)):
        for start in range(0, len(chosen), size):
            block = chosen[start : start + size]
            energy = float((2 * np.abs(spectrum[block]) ** 2).sum())
            keep = max(0.0, 1.0 - 2 * len(block) * sigma**2 / energy) if energy > 0 else 0.0
            shrunk[block] = keep * spectrum[block]
    smooth = np.fft.irfft(shrunk, slots, norm="ortho") + _expected_part(noisy, weight, expected)
    totals = smooth / weight
    level = float(totals.mean())
    if level <= 0:
        return expected / expected.sum()
    totals = np.maximum(totals, LEAST * expected / expected.mean() * level)
    return totals / totals.sum()


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
