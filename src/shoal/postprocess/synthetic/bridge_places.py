"""Where trips start and end, from coarse blocks down to cells; regions of like weight; flows between."""

from __future__ import annotations

import numpy as np

from shoal.postprocess.shrinkage import prediction, select_by_mallows_cp, shrunk
from shoal.postprocess.synthetic.bridge_parts import ALL_PARTS, Parts
from shoal.postprocess.synthetic.draws import onto_own_total, onto_totals, to_margins
from shoal.postprocess.synthetic.moves import boxes, visits_of
from shoal.space.cells import CellGrid
from shoal.stages.synthetic import NoisyTable

LEARNT = 12  # numbers in a prediction of places: weights of features and levels of the curve, about
DISTANCE_CLASSES = 12
# Of flows around what margins and distance say, relative; a public guess. Wide, since what is off is off for
# whole quarters of a city: drawn nearer, sums over many flows would stay off.
FLOW_DEVIATION = 2.0
FEWEST_REGIONS, MOST_REGIONS = 4, 100


def block_sides(grid: CellGrid) -> tuple[int, ...]:
    """Sides of blocks in cells, finest first: 1, 3, 9, ... while the grid has several."""
    sides = [1]
    while 3 * sides[-1] < max(grid.columns, grid.rows) / 2:
        sides.append(3 * sides[-1])
    return tuple(sides)


def blocks_of(grid: CellGrid, side: int) -> tuple[np.ndarray, int]:
    """The block of every cell, and how many there are."""
    across = -(-grid.columns // side)
    row, column = np.divmod(np.arange(grid.count), grid.columns)
    return (row // side) * across + column // side, across * -(-grid.rows // side)


def shrunk_places(
    grid: CellGrid,
    sides: tuple[int, ...],
    starts: tuple[NoisyTable, ...],
    ends: tuple[NoisyTable, ...],
    moves: np.ndarray,
    total: float,
    parts: Parts = ALL_PARTS,
) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends per cell. They are expected where there are visits and where the others are."""
    visits = visits_of(grid, moves)
    found = []
    for own, other in ((starts, ends), (ends, starts)):
        expected = visits
        if parts.shrink:
            square = own[0].values.reshape(grid.rows, grid.columns)
            ring = (boxes(square, 1) - square).ravel()
            wide = (boxes(square, 3) - boxes(square, 1)).ravel()
            features = np.stack([visits, ring, wide, *per_cell(grid, sides, other).T], axis=1)
            expected = select_by_mallows_cp(own[0], visits, prediction(own[0], features), LEARNT)
        found.append(places(grid, sides, own, expected + 1e-3 * expected.mean(), total, parts))
    return found[0], found[1]


def per_cell(grid: CellGrid, sides: tuple[int, ...], tables: tuple[NoisyTable, ...]) -> np.ndarray:
    """float64 [cells, levels]: the value of each cell's block, shared over its cells."""
    found = []
    for side, table in zip(sides, tables, strict=True):
        block, count = blocks_of(grid, side)
        found.append((table.values / np.maximum(np.bincount(block, minlength=count), 1))[block])
    return np.stack(found, axis=1)


def places(
    grid: CellGrid,
    sides: tuple[int, ...],
    noisy: tuple[NoisyTable, ...],
    expected: np.ndarray,
    total: float,
    parts: Parts = ALL_PARTS,
) -> np.ndarray:
    """float64 [cells], non-negative, of the total: noisy blocks from coarse to fine.

    Within a block mass is expected in proportion to `expected`, and moved as far from that as noise allows.
    """
    parent = np.zeros(grid.count, np.int64)
    mass = np.array([total])
    for side, table in reversed(tuple(zip(sides, noisy, strict=True))):
        block, count = blocks_of(grid, side)
        share = np.bincount(block, expected, count) + 1e-12
        above = np.zeros(count, np.int64)
        above[block] = parent
        usual = mass[above] * share / np.bincount(above, share, mass.size)[above]
        found = drawn_to(table, usual, parts)
        mass = onto_own_total(found, total) if mass.size == 1 else onto_totals(found, above, mass)
        parent = block
    return mass


def drawn_to(noisy: NoisyTable, expected: np.ndarray, parts: Parts) -> np.ndarray:
    """Noisy values drawn to what is expected, as far as they are seen to scatter around it."""
    return shrunk(noisy, expected) if parts.shrink else noisy.values


def regions(grid: CellGrid, mass: np.ndarray, wanted: int) -> np.ndarray:
    """int64 [cells]: a k-d partition into about `wanted` regions of like mass, cut across the longer side."""
    region = np.zeros(grid.count, np.int64)
    weight = mass.reshape(grid.rows, grid.columns) + 1e-9
    boxes = [(0, grid.rows, 0, grid.columns)]
    while len(boxes) < wanted:
        heavy = max(boxes, key=lambda box: (_inside(weight, box) if _cuttable(box) else -1.0, box))
        if not _cuttable(heavy):
            break
        boxes.remove(heavy)
        boxes += _halves(weight, heavy)
    square = region.reshape(grid.rows, grid.columns)
    for number, (top, bottom, left, right) in enumerate(sorted(boxes)):
        square[top:bottom, left:right] = number
    return region


def _inside(weight: np.ndarray, box: tuple[int, int, int, int]) -> float:
    return float(weight[box[0] : box[1], box[2] : box[3]].sum())


def _cuttable(box: tuple[int, int, int, int]) -> bool:
    return (box[1] - box[0]) * (box[3] - box[2]) > 1


def _halves(weight: np.ndarray, box: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    top, bottom, left, right = box
    along = 0 if bottom - top >= right - left else 1
    line = np.cumsum(weight[top:bottom, left:right].sum(axis=1 - along))
    cut = int(np.argmin(np.abs(line[:-1] - line[-1] / 2))) + 1
    if along == 0:
        return [(top, top + cut, left, right), (top + cut, bottom, left, right)]
    return [(top, bottom, left, left + cut), (top, bottom, left + cut, right)]


def flows(
    grid: CellGrid,
    region: np.ndarray,
    noisy: NoisyTable,
    starts: np.ndarray,
    ends: np.ndarray,
    parts: Parts = ALL_PARTS,
) -> np.ndarray:
    """float64 [regions, regions]: noisy flows shrunk to what margins and distance say, fitted to margins."""
    count = int(region.max()) + 1
    begin, end = np.bincount(region, starts, count), np.bincount(region, ends, count)
    total = begin.sum()
    values = noisy.values.reshape(count, count)
    expected = np.outer(begin, end) / max(total, 1e-12)
    away = _distance_classes(grid, region, count)
    for _ in range(3):  # how much more or less there is at a distance than margins alone would have
        usual = np.bincount(away.ravel(), expected.ravel(), DISTANCE_CLASSES)
        seen = np.bincount(away.ravel(), values.ravel(), DISTANCE_CLASSES)
        noise = noisy.deviation * np.sqrt(np.bincount(away.ravel(), minlength=DISTANCE_CLASSES))
        trust = usual**2 / (usual**2 + noise**2 + 1e-12)
        ratio = 1.0 + trust * (np.maximum(seen, 0.0) / np.maximum(usual, 1e-12) - 1.0)
        expected = to_margins(expected * ratio[away] + 1e-12, begin + 1e-9, end + 1e-9, 5)
    found = shrunk(noisy, expected.ravel(), FLOW_DEVIATION) if parts.shrink else noisy.values
    found = found.reshape(count, count)
    found = onto_own_total(found, total) + 1e-6 * expected
    return to_margins(found, begin + 1e-9, end + 1e-9)


def _distance_classes(grid: CellGrid, region: np.ndarray, count: int) -> np.ndarray:
    """int64 [regions, regions]: classes of distance, about equally full, one of its own within a region."""
    row, column = np.divmod(np.arange(grid.count), grid.columns)
    size = np.bincount(region, minlength=count)
    width, height = grid.cell_m
    x, y = np.bincount(region, column, count) / size * width, np.bincount(region, row, count) / size * height
    apart = np.hypot(x[:, None] - x, y[:, None] - y)
    cuts = np.quantile(apart[apart > 0], np.linspace(0, 1, DISTANCE_CLASSES)[1:-1]) if count > 1 else []
    away = 1 + np.searchsorted(cuts, apart)
    return np.where(np.eye(count, dtype=bool), 0, away)
