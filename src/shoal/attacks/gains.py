"""Privacy lost to counts, won back by a protected release, and what the release is still good for."""

from __future__ import annotations

import numpy as np

SANITY = 0.001  # of a series' sum: smaller counts are judged against this


def privacy_loss(error_prior: np.ndarray, error_counts: np.ndarray) -> np.ndarray:
    """Share of the adversary's error that the counts took away; 0 where they did not help (eq. 6).

    >>> privacy_loss(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75, 0.0])).tolist()
    [0.5, 0.0, 0.0]
    """
    helped = (error_prior > 0) & (error_counts < error_prior)
    return np.divide(error_prior - error_counts, error_prior, out=np.zeros_like(error_prior), where=helped)


def privacy_gain(error_raw: np.ndarray, error_protected: np.ndarray) -> np.ndarray:
    """Share of the room above the error with raw counts that protection gives back (eq. 16).

    >>> privacy_gain(np.array([0.5, 0.5, 1.0]), np.array([0.75, 0.25, 1.0])).tolist()
    [0.5, 0.0, 0.0]
    """
    protected = (error_raw < 1) & (error_protected > error_raw)
    return np.divide(
        error_protected - error_raw, 1 - error_raw, out=np.zeros_like(error_raw), where=protected
    )


def series_mre(exact: np.ndarray, published: np.ndarray) -> float:
    """Mean relative error over series [places, slots], counts judged against 0.1 % of their series' sum at
    least (eq. 17), and against one person where a series is empty.

    >>> series_mre(np.array([[10.0, 0.0]]), np.array([[5.0, 1.0]]))
    50.25
    """
    least = SANITY * exact.sum(axis=1, keepdims=True)
    least = np.where(least > 0, least, 1.0)
    return float(np.mean(np.abs(published - exact) / np.maximum(exact, least)))
