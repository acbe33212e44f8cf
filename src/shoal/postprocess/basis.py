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
