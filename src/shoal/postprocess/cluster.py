"""Cells merged into clusters of at least tau visits: the smallest goes to its nearest neighbour.

Acs and Castelluccia 2014, algorithm 3. Totals are noisy and geometry is public, so this is free.
A cluster's centre is the mean of its cells' centres (the paper: the centroid of their polygons).

>>> from shoal.space.cover import example_cover
>>> line = example_cover(3)
>>> cluster_cells(np.array([9.0, 1.0, 8.0]), line.cell_xy_m, line.neighbours, tau=5.0).tolist()
[0, 0, 1]
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np
import scipy.sparse


def cluster_cells(
    noisy_totals: np.ndarray, cell_xy_m: np.ndarray, neighbours: scipy.sparse.csr_array, tau: float
) -> np.ndarray:
    """int64 [cells]: the cluster of each cell, numbered in the order of their first cells.

    Ends when every cluster has at least tau, or only one is left. Equal totals and equal distances are
    decided by the smaller number, so the outcome is a function of the noisy totals alone.
    """
    cells = len(noisy_totals)
    totals = [float(total) for total in noisy_totals]
    sums = [(float(x), float(y), 1) for x, y in cell_xy_m]  # of centres, and how many
    near = [set(neighbours.indices[a:b].tolist()) for a, b in _rows(neighbours)]
    owner = list(range(cells))
    waiting = [(total, cell) for cell, total in enumerate(totals)]
    heapq.heapify(waiting)
    while waiting and waiting[0][0] < tau:
        total, cluster = heapq.heappop(waiting)
        if owner[cluster] != cluster or totals[cluster] != total:
            continue  # merged away, or grown since
        other = _nearest(cluster, near[cluster], sums)
        if other is None:
            continue  # the last cluster of its part of the map
        kept, gone = (cluster, other) if len(near[cluster]) >= len(near[other]) else (other, cluster)
        _merge(kept, gone, near)
        owner[gone] = kept
        totals[kept] = totals[cluster] + totals[other]
        sums[kept] = tuple(a + b for a, b in zip(sums[kept], sums[gone], strict=True))  # type: ignore[assignment]
        heapq.heappush(waiting, (totals[kept], kept))
    return _numbered(owner)


def _nearest(cluster: int, near: Iterable[int], sums: list[tuple[float, float, int]]) -> int | None:
    x, y, count = sums[cluster]
    x, y = x / count, y / count
    best = None
    for other in near:
        other_x, other_y, others = sums[other]
        distance = (other_x / others - x) ** 2 + (other_y / others - y) ** 2
        if best is None or (distance, other) < best:
            best = (distance, other)
    return None if best is None else best[1]


def _merge(kept: int, gone: int, near: list[set[int]]) -> None:
    for other in near[gone]:
        near[other].discard(gone)
        if other != kept:
            near[other].add(kept)
            near[kept].add(other)
    near[gone] = set()


def _numbered(owner: list[int]) -> np.ndarray:
    """Follow each cell to the cluster it ended in, and number clusters from 0."""
    number: dict[int, int] = {}
    result = np.empty(len(owner), np.int64)
    for cell in range(len(owner)):
        root = cell
        while owner[root] != root:
            root = owner[root]
        owner[cell] = root
        result[cell] = number.setdefault(root, len(number))
    return result


def _rows(graph: scipy.sparse.csr_array) -> Iterable[tuple[int, int]]:
    return zip(graph.indptr[:-1].tolist(), graph.indptr[1:].tolist(), strict=True)
