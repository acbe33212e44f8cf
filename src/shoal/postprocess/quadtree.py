"""Regions of a grid by a quadtree, split where noisy costs of blocks say so.

The tree stands on the smallest square of a power of two around the grid; blocks are cut at the grid's edge.
Level l has blocks of side / 2^l cells; the block of a cell is row / size * 2^l + column / size.

>>> costs = [np.array([8.0]), np.array([1.0, 1.0, 1.0, 9.0])]
>>> regions((2, 2), first=0, costs=costs, threshold=2.0).tolist()
[0, 1, 2, 3]
>>> regions((2, 2), first=0, costs=costs, threshold=9.0).tolist()
[0, 0, 0, 0]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def depth_of(shape: tuple[int, int]) -> int:
    """Levels below the root until blocks are cells."""
    return max(max(shape) - 1, 0).bit_length()


def blocks(shape: tuple[int, int], level: int) -> np.ndarray:
    """int64 [cells]: the block of every cell at a level, 0 <= block < 4^level."""
    shift = depth_of(shape) - level
    row, column = np.divmod(np.arange(shape[0] * shape[1], dtype=np.int64), shape[1])
    return ((row >> shift) << level) + (column >> shift)


def regions(
    shape: tuple[int, int], *, first: int, costs: Sequence[np.ndarray], threshold: float
) -> np.ndarray:
    """int64 [cells]: the region of every cell, numbered from 0.

    `costs[i]` are of the 4^(first + i) blocks of level first + i. All blocks of the first level are there. One
    is split into four if its cost is more than `threshold` above the mean cost of the four (algorithm 5).
    """
    split = np.ones(4**first, bool)
    block = blocks(shape, first)
    region = block.copy()  # distinct over levels: those of finer levels come after
    for step, (cost, finer) in enumerate(zip(costs[:-1], costs[1:], strict=True)):
        level = first + step
        row, column = np.divmod(np.arange(4 ** (level + 1)), 2 ** (level + 1))
        parent = (row >> 1 << level) + (column >> 1)
        mean = np.bincount(parent, np.asarray(finer, np.float64)) / 4
        split = split & (cost - mean > threshold)
        here = split[block]
        block = blocks(shape, level + 1)
        region = np.where(here, block + _before(first, level + 1), region)
        split = split[parent]
    return np.unique(region, return_inverse=True)[1].reshape(-1)


def _before(first: int, level: int) -> int:
    """Blocks of all coarser levels from the first on."""
    return sum(4**above for above in range(first, level))
