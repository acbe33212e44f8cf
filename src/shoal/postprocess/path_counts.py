"""Moves of drawn trips counted as those of real ones were: each trip scaled to norm 1, or all alike."""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.space.cell_paths import DIRECTIONS, direction_between
from shoal.stages.synthetic import NoisyMovement


def counted_moves(first: np.ndarray, cells: np.ndarray, noisy: NoisyMovement, count: int) -> np.ndarray:
    """float64 [cells, 8].

    A unit with many trips adds about the moves of all of them, scaled: trips of synthetic units are not known
    apart, so there all moves count alike.
    """
    way = direction_between(cells[:-1], cells[1:], noisy.setting.grid.columns)
    out = np.zeros(count * DIRECTIONS)
    norm = noisy.norm if noisy.setting.each_trip else 0
    _count(first, cells, way, norm, out)
    return out.reshape(count, DIRECTIONS)


@njit(cache=True, nogil=True)
def _count(first, cells, way, norm, out):
    for trip in range(first.size - 1):
        begin, end = first[trip], first[trip + 1] - 1
        size = end - begin
        if size == 0:
            continue
        squares = 0.0
        if norm == 2:  # moves come again in few trips: then the same place counts its square
            for i in range(begin, end):
                same = 0
                for j in range(begin, end):
                    if cells[i] == cells[j] and way[i] == way[j]:
                        same += 1
                squares += same
        scale = 1.0 if norm == 0 else (1.0 / size if norm == 1 else 1.0 / np.sqrt(squares))
        for i in range(begin, end):
            out[cells[i] * 8 + way[i]] += scale
