"""The cheapest cover of a line of cells by dyadic intervals, from noisy costs.

>>> cover_by_intervals([np.array([9.0]), np.array([1.0, 8.0])], finest=1, cells=4, price=2.0).tolist()
[0, 0, 1, 2]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


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
