"""The city's profile over slots from noisy hourly totals: block James-Stein in the frequency domain."""

from __future__ import annotations

import numpy as np

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
