"""Cells of a grid in the order of a Hilbert curve: cells near each other in the order are near on the map.

>>> hilbert_order(2, 2).tolist()
[0, 2, 3, 1]
"""

from __future__ import annotations

import numpy as np


def hilbert_order(rows: int, columns: int) -> np.ndarray:
    """int64 [cells]: cell numbers row * columns + column along the curve.

    The curve fills the smallest square of a power of two around the grid; cells beyond the grid are skipped.
    """
    y, x = np.divmod(np.arange(rows * columns, dtype=np.int64), columns)
    return np.argsort(hilbert_place(x, y, max(rows, columns) - 1), kind="stable")


def hilbert_place(x: np.ndarray, y: np.ndarray, largest: int) -> np.ndarray:
    """int64: how far along the curve cells lie; both coordinates from 0 to `largest`."""
    x, y = x.copy(), y.copy()
    place = np.zeros_like(x)
    side = 1 << max(largest.bit_length() - 1, 0)
    while side > 0:
        right, up = (x & side) > 0, (y & side) > 0
        place += side * side * ((3 * right) ^ up)
        # a quarter's own curve is turned; the lower two are mirrored, the last one at the other diagonal
        flip = right & ~up
        x, y = (
            np.where(flip, side - 1 - (x & (side - 1)), x & (side - 1)),
            np.where(flip, side - 1 - (y & (side - 1)), y & (side - 1)),
        )
        x, y = np.where(up, x, y), np.where(up, y, x)
        side >>= 1
    return place
