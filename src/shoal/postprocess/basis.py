"""Orthonormal columns over slots: built from public columns and noisy answers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

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
