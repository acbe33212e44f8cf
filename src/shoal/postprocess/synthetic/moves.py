"""Likely moves from noisy ones: roads go on, are used both ways, and lie in busy places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoal.postprocess.shrinkage import prediction, shrunk
from shoal.postprocess.synthetic.bridge_parts import ALL_PARTS, Parts
from shoal.postprocess.synthetic.draws import onto_own_total
from shoal.space.cell_paths import DIRECTIONS, DX, DY
from shoal.space.cells import CellGrid
from shoal.stages.synthetic import NoisyTable


def shrunk_moves(
    grid: CellGrid, noisy: NoisyTable, total: float, beside: np.ndarray, parts: Parts = ALL_PARTS
) -> np.ndarray:
    """float64 [cells, 8]: non-negative, none off the grid, of the total.

    `beside` [cells, k] are other noisy numbers about cells that tell how busy they are.
    """
    inside = on_grid(grid)
    values = np.where(inside, noisy.values.reshape(-1, DIRECTIONS), 0.0)
    if parts.shrink and inside.any():  # a grid of one cell has no moves
        features = move_features(grid, values)
        cells = np.broadcast_to(beside[:, None, :], (*inside.shape, beside.shape[1]))
        features = np.concatenate([features, cells], axis=-1)
        own = replace(noisy, values=values[inside])
        values[inside] = shrunk(own, prediction(own, features[inside]))
    moves = np.zeros(inside.shape)
    moves[inside] = onto_own_total(values[inside], total)
    return moves


def on_grid(grid: CellGrid) -> np.ndarray:
    """bool [cells, 8]: whether a move stays on the grid."""
    row, column = np.divmod(np.arange(grid.count), grid.columns)
    x, y = column[:, None] + DX, row[:, None] + DY
    return (x >= 0) & (x < grid.columns) & (y >= 0) & (y < grid.rows)


def move_features(grid: CellGrid, values: np.ndarray) -> np.ndarray:
    """float64 [cells, 8, k]: what the other values say of each; none of them has its noise in it."""
    square = values.reshape(grid.rows, grid.columns, DIRECTIONS)
    parts = []
    busy = square.sum(axis=2)
    padded = np.pad(square, ((2, 2), (2, 2), (0, 0)))
    around = [boxes(busy, 4) - boxes(busy, 2), boxes(busy, 8) - boxes(busy, 4), np.ones_like(busy)]

    def shifted(way: int, dx: int, dy: int) -> np.ndarray:
        """The value of direction `way` at the cell dx, dy away; 0 off the grid."""
        return padded[2 + dy : 2 + dy + grid.rows, 2 + dx : 2 + dx + grid.columns, way % DIRECTIONS]

    for d in range(DIRECTIONS):
        x, y = int(DX[d]), int(DY[d])
        left, right = (d + 2) % 8, (d - 2) % 8
        back = (d + 4) % 8
        ring = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
        wide = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if max(abs(i), abs(j)) == 2]
        sides = [(int(DX[s]), int(DY[s])) for s in (left, right)]
        features = [
            shifted(d, -x, -y) + shifted(d, x, y),  # the way goes on
            shifted(d, -2 * x, -2 * y) + shifted(d, 2 * x, 2 * y),
            shifted(back, x, y),  # the same way back
            shifted(back, 0, 0) + shifted(back, 2 * x, 2 * y),
            sum(shifted(d, *side) for side in sides),  # beside it
            shifted(d - 1, 0, 0) + shifted(d + 1, 0, 0),
            shifted(d - 1, -x, -y) + shifted(d + 1, -x, -y),
            shifted(d - 1, int(-DX[(d - 1) % 8]), int(-DY[(d - 1) % 8]))
            + shifted(d + 1, int(-DX[(d + 1) % 8]), int(-DY[(d + 1) % 8])),  # turning into it
            shifted(d - 1, x, y) + shifted(d + 1, x, y),  # turning out of it
            sum(shifted(d, *place) for place in ring),
            sum(shifted(d, *place) for place in wide),
            sum(shifted(way, 0, 0) for way in range(8) if way != d),  # a busy cell
            sum(shifted(way, x, y) for way in range(8)),  # and where it leads
            sum(shifted(way, *place) for place in ring for way in (d - 1, d + 1, back)),
            both_ways(shifted(d, -x, -y), shifted(d, x, y)),
            both_ways(shifted(d, x, y), shifted(back, x, y)),
            both_ways(shifted(d, -x, -y), shifted(back, x, y)),
            boxes(square[:, :, d], 4) - boxes(square[:, :, d], 2),
            *around,
        ]
        parts.append(np.stack(features, axis=-1))
    return np.stack(parts, axis=2).reshape(grid.count, DIRECTIONS, -1)


def both_ways(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Large where both are."""
    return np.sqrt(np.maximum(one, 0.0) * np.maximum(other, 0.0))


def boxes(values: np.ndarray, reach: int) -> np.ndarray:
    """Sums over the cells at most `reach` away along both axes, of those on the grid."""
    rows, columns = values.shape
    ends = np.pad(np.cumsum(np.cumsum(values, axis=0), axis=1), ((1, 0), (1, 0)))
    y0, y1 = np.clip(np.arange(rows) - reach, 0, rows), np.clip(np.arange(rows) + reach + 1, 0, rows)
    x0 = np.clip(np.arange(columns) - reach, 0, columns)
    x1 = np.clip(np.arange(columns) + reach + 1, 0, columns)
    return ends[y1][:, x1] - ends[y0][:, x1] - ends[y1][:, x0] + ends[y0][:, x0]


def inflow(grid: CellGrid, moves: np.ndarray) -> np.ndarray:
    """float64 [cells, 8]: moves into every cell, by their direction."""
    square = np.pad(moves.reshape(grid.rows, grid.columns, DIRECTIONS), ((1, 1), (1, 1), (0, 0)))
    parts = [
        square[1 - DY[d] : 1 - DY[d] + grid.rows, 1 - DX[d] : 1 - DX[d] + grid.columns, d]
        for d in range(DIRECTIONS)
    ]
    return np.stack(parts, axis=-1).reshape(-1, DIRECTIONS)


def visits_of(grid: CellGrid, moves: np.ndarray) -> np.ndarray:
    """float64 [cells]: moves out of and into every cell."""
    return moves.sum(axis=1) + inflow(grid, moves).sum(axis=1)
