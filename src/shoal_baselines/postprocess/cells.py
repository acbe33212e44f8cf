"""A noisy map, or a flat one where noise is most of what the map says about rectangles.

The cheapest cover of a line of cells by dyadic intervals, from noisy costs.

>>> cover_by_intervals([np.array([9.0]), np.array([1.0, 8.0])], finest=1, cells=4, price=2.0).tolist()
[0, 0, 1, 2]

Cells of a grid in the order of a Hilbert curve: cells near each other in the order are near on the map.

>>> hilbert_order(2, 2).tolist()
[0, 2, 3, 1]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.space.cells import Euler, Rectangles

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


def interval_levels(cells: int, finest: int) -> list[int]:
    """Lengths of dyadic intervals, from one that holds all cells down to above `finest`."""
    length = 1 << max(cells - 1, 0).bit_length()
    lengths = []
    while length > finest:
        lengths.append(length)
        length //= 2
    return lengths


def cover_by_intervals(costs: Sequence[np.ndarray], finest: int, cells: int, price: float) -> np.ndarray:
    """int64 [cells]: the bucket of every cell, numbered along the line.

    `costs` are of intervals of the lengths of `interval_levels`, coarse to fine; each bucket costs `price`
    more, one of `finest` cells nothing else. A noisy cost below 0 counts as 0.
    """
    lengths = interval_levels(cells, finest)
    best = [np.full(-(-cells // finest), price)]
    for cost in reversed(costs):
        below = best[0]
        pairs = np.append(below, 0.0) if below.size % 2 else below
        best.insert(0, np.minimum(np.maximum(cost, 0.0) + price, pairs[0::2] + pairs[1::2]))
    starts = np.zeros(cells, bool)
    whole = np.ones(best[0].size, bool)  # intervals that are still undecided
    for level, length in enumerate(lengths):
        taken = whole & (best[level] >= np.maximum(costs[level], 0.0) + price)
        starts[np.flatnonzero(taken) * length] = True
        whole = np.repeat(whole & ~taken, 2)[: best[level + 1].size]
    starts[np.flatnonzero(whole) * finest] = True
    return np.cumsum(starts) - 1


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
