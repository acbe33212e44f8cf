"""Regions of a grid by a quadtree, split where noisy costs of blocks say so.

The tree stands on the smallest square of a power of two around the grid; blocks are cut at the grid's edge.
Level l has blocks of side / 2^l cells; the block of a cell is row / size * 2^l + column / size.

>>> costs = [np.array([8.0]), np.array([1.0, 1.0, 1.0, 9.0])]
>>> gaps = [costs[0] - mean_of_children(costs[1], level=0)]
>>> regions((2, 2), first=0, gaps=gaps, threshold=2.0).tolist()
[0, 1, 2, 3]
>>> regions((2, 2), first=0, gaps=gaps, threshold=9.0).tolist()
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
    shape: tuple[int, int], *, first: int, gaps: Sequence[np.ndarray], threshold: float
) -> np.ndarray:
    """int64 [cells]: the region of every cell, numbered from 0.

    `gaps[i]` are of the blocks of level first + i: how much more a block costs than its four children do on
    average. All blocks of the first level are there; one is split where its gap is above the threshold
    (algorithm 5), and so on below it.
    """
    split = np.ones(4**first, bool)
    block = blocks(shape, first)
    region = block.copy()  # numbers of finer levels come after those of coarser ones
    for level, gap in enumerate(gaps, first):
        split = split & (gap > threshold)
        here = split[block]
        block = blocks(shape, level + 1)
        before = sum(4**coarser for coarser in range(first, level + 1))
        region = np.where(here, block + before, region)
        split = split[_parents(level)]
    return np.unique(region, return_inverse=True)[1].reshape(-1)


def mean_of_children(finer: np.ndarray, level: int) -> np.ndarray:
    """float64 [4^level]: the mean of each block's four children, from values of all blocks of level + 1."""
    return np.bincount(_parents(level), np.asarray(finer, np.float64)) / 4


def _parents(level: int) -> np.ndarray:
    """int64 [4^(level + 1)]: the block of `level` that holds each block of the next."""
    row, column = np.divmod(np.arange(4 ** (level + 1)), 2 ** (level + 1))
    return (row >> 1 << level) + (column >> 1)
