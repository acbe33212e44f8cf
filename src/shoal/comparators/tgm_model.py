"""Counts of trips by prefix: the graphical model of TGM, exact and only where trips were.

A node is a way of cells that some trip has gone; its children are that way and one cell more. Every node has
three counts: trips that came this way, steps they stayed at its end, trips that ended there. Children of a
node lie together, so that a choice reads its numbers and at most eight others.

Source  Ghane's thesis, algorithm 8. As printed, line 12 does not extend the prefix where a cell is new to the
        model, so that counts would depend on the order of trips; taken as a slip, for line 17 extends it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.space.cell_paths import CellPaths, direction_between


class Ways(NamedTuple):
    """Ways as a tree. Node `root[cell]` is the way of that cell alone, -1 where there is none."""

    root: np.ndarray  # int64 [cells]
    children: np.ndarray  # int64 [nodes + 1]: those of node i are children[i] to children[i + 1]
    direction: np.ndarray  # int8 [nodes]: of the last move of the way, -1 where it has none
    count: np.ndarray  # int64 [nodes]: trips that came this way
    stay: np.ndarray  # int64 [nodes]: steps stayed at its end
    ended: np.ndarray  # int64 [nodes]: trips that ended there


def prefixes(paths: CellPaths) -> Ways:
    """Whole prefixes: ways from a trip's start."""
    return _ways(paths, np.arange(paths.count), paths.first[:-1], longest=None)


def parts(paths: CellPaths, longest: int) -> Ways:
    """Ways of at most `longest` cells from anywhere in a trip, counted as often as a trip goes them."""
    return _ways(paths, paths.trip_of_visit, np.arange(paths.cells.size), longest)


def _ways(paths: CellPaths, trip: np.ndarray, at: np.ndarray, longest: int | None) -> Ways:
    """Level by level: all ways of one cell, of two cells, ..., each level sorted by parent and cell."""
    size, levels, nodes = paths.grid.count, [], 0
    last = paths.first[trip + 1] - 1
    before = np.full(at.size, -1, np.int64)  # the node of a way without its last cell
    while at.size and (longest is None or len(levels) < longest):
        # before + 1, so that keys of the first level are cells
        key, node = np.unique((before + 1) * size + paths.cells[at], return_inverse=True)
        ended = at == last
        sums = (np.bincount(node, weight, key.size) for weight in (None, paths.stay[at], ended))
        levels.append((key // size - 1, key % size, *(part.astype(np.int64) for part in sums)))
        before, at, last = nodes + node[~ended], at[~ended] + 1, last[~ended]
        nodes += key.size
    empty = np.empty(0, np.int64)
    parent, cell, count, stay, ended = (np.concatenate([empty, *column]) for column in _columns(levels))
    root = np.full(size, -1, np.int64)
    alone = np.flatnonzero(parent < 0)
    root[cell[alone]] = alone
    direction = direction_between(cell[parent], cell, paths.grid.columns)
    direction[alone] = -1
    children = np.searchsorted(parent, np.arange(nodes + 1))
    return Ways(root, children, direction, count, stay, ended)


def _columns(levels: list[tuple[np.ndarray, ...]]) -> list[list[np.ndarray]]:
    return [[level[column] for level in levels] for column in range(5)]
