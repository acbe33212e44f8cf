"""Privacy lost to counts, won back by a protected release, and what the release is still good for."""

from __future__ import annotations

import numpy as np

SANITY = 0.001  # of a slot's mean total: smaller counts are judged against this


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
    """Mean relative error of counts [places, slots] (eq. 17).

    A count is judged against itself, and against 0.1 % of what a slot has on average at least: of the
    readings of the paper's sanity bound this is the one its printed figures agree with.

    >>> series_mre(np.array([[1000.0, 0.0], [1000.0, 0.0]]), np.array([[500.0, 1.0], [1000.0, 0.0]]))
    0.375
    """
    least = SANITY * float(exact.sum(axis=0).mean())
    return float(np.mean(np.abs(published - exact) / np.maximum(exact, least if least > 0 else 1.0)))
