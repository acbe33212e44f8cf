"""A noisy map, or a flat one where noise is most of what the map says about rectangles."""

from __future__ import annotations

import numpy as np

from shoal.space.euler import Euler
from shoal.space.rectangles import Rectangles

LEAST_SIGNAL = 2.0  # squared gaps to the flat map, in units of what noise alone makes of them


def map_or_flat(noisy: np.ndarray, total: float, variance: float, given: Rectangles) -> np.ndarray:
    """[rows, columns] cells with noise of `variance` each: as they are, or total / cells everywhere.

    A rectangle of many cells is off the flat map by noise of variance times its area. The map is kept if
    its squared gaps, summed over the given rectangles, are at least twice that. It is not cut at 0: sums
    over many cells would rise with every cut.
    """
    flat = total / noisy.size
    gaps = Euler(faces=noisy - flat).answers(given)
    if (gaps**2).sum() >= LEAST_SIGNAL * variance * given.areas.sum():
        return noisy
    return np.full(noisy.shape, flat)
