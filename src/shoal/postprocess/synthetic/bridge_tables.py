"""Estimates from the noisy tables of the bridge generator: lengths, stays, moves, starts and ends, flows.

Lengths of trips are noisy histograms, one per class of the distance between their ends; stays are one per
class of the number of moves. Moves are predicted from moves that continue them, that lead back, and that are
nearby. Moves of drawn trips are counted like those of real trips: each trip scaled to norm 1, or all moves
alike. Starts and ends are fitted from coarse blocks down to cells, flows between regions of similar mass.
`Parts` are switches for ablations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from shoal.postprocess.synthetic.numbers import (
    conditional,
    onto_own_total,
    onto_total,
    onto_totals,
    prediction,
    select_by_mallows_cp,
    shrunk,
    to_margins,
    uniforms,
)
from shoal.space.cell_paths import DIRECTIONS, DX, DY, direction_between
from shoal.space.cells import CellGrid
from shoal.stages.synthetic import NoisyMovement, NoisyTable


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Public switches."""

    flows: bool = True  # flows between regions; else starts and ends are independent
    levels: bool = True  # places by blocks of several sizes; else by cells alone
    by_distance: bool = True  # moves beyond the distance, given the distance; else one distribution for all
    turns: bool = True  # memory of the direction; else moves are independent of it
    corners: bool = True  # turns by cell, where noise allows
    shrink: bool = True  # noisy moves, places and flows shrunk to their prediction; else only cut at 0
    calibrate: bool = True
    times: bool = True  # days, hours, tides, durations and paces; else evenly spread, a step per move
    tides: bool = True  # parts of the week by regions of the ends; else hours are independent of places


ALL_PARTS = Parts()


NEIGHBOURS = np.array([0.3, 0.7, 1.0, 0.7, 0.3])  # weights of nearby classes in the prediction of a class
PRIOR_DEVIATION = 0.7  # of a distribution around its public prior, relative
TAIL_BINS = 8  # whose decay is continued in the open last bin
MOST_TAIL = 400


def by_class(noisy: NoisyTable, prior: np.ndarray, *, alike: bool = False) -> np.ndarray:
    """float64 [classes, bins]: the distribution over bins in every class.

    A class is shrunk towards nearby classes, these towards the distribution of all classes together, and that
    towards the public `prior`. `alike`: one distribution for all classes.
    """
    bins = prior.size
    values = noisy.values.reshape(-1, bins)
    classes = values.shape[0]
    whole = _whole(values, prior, noisy.deviation)
    if alike:
        return np.tile(whole / whole.sum(), (classes, 1))
    near = np.stack([np.convolve(column, NEIGHBOURS, mode="same") for column in values.T], axis=1)
    near_noise = noisy.deviation * np.sqrt((NEIGHBOURS**2).sum())
    near_total = np.maximum(near.sum(axis=1), 1e-9)
    usual = near_total[:, None] * whole / whole.sum()
    shrunk_near = shrunk(NoisyTable(near.ravel(), near_noise), usual.ravel()).reshape(near.shape)
    near = np.maximum(shrunk_near, 0.0) + 1e-9
    total = np.maximum(values.sum(axis=1), 1e-9)
    expected = total[:, None] * near / near.sum(axis=1, keepdims=True)
    fitted = shrunk(noisy, expected.ravel())
    fitted = onto_totals(fitted, np.repeat(np.arange(classes), bins), total).reshape(classes, bins)
    return conditional(fitted, near)


def _whole(values: np.ndarray, prior: np.ndarray, deviation: float) -> np.ndarray:
    """float64 [bins]: the sum of all classes, shrunk towards the prior."""
    summed = NoisyTable(values.sum(axis=0), deviation * np.sqrt(values.shape[0]))
    total = max(float(summed.values.sum()), 1.0)
    prior = total * prior / prior.sum()
    return onto_total(shrunk(summed, prior, PRIOR_DEVIATION), total) + 1e-6 * prior


def falling(bins: int, fall: float) -> np.ndarray:
    """Geometric prior: each bin has `fall` times the mass of the one before, the last all that follow."""
    prior = fall ** np.arange(bins)
    prior[-1] /= 1 - fall
    return prior / prior.sum()


def fall_of(noisy: NoisyTable, bins: int) -> float:
    """Ratio of successive bins towards the open end, from the sum of all classes."""
    whole = noisy.values.reshape(-1, bins).sum(axis=0)
    tail = whole[-1 - TAIL_BINS : -1]
    half = TAIL_BINS // 2
    noise = noisy.deviation * np.sqrt(half * noisy.values.size / bins)
    early, late = tail[:half].sum(), tail[half:].sum()
    if early < 3 * noise or late <= 0:
        return 0.8
    return float(np.clip((late / early) ** (1 / half), 0.3, 0.95))


def drawn(rows: np.ndarray, which: np.ndarray, fall: float, seed: int, purpose: int) -> np.ndarray:
    """int64: a bin drawn from each row in `which`; the open last bin continues geometrically."""
    ends = np.cumsum(rows, axis=1)
    target = uniforms(seed, purpose, which.size) * ends[which, -1]
    place = (ends[which] <= target[:, None]).sum(axis=1)
    last = rows.shape[1] - 1
    more = np.log1p(-uniforms(seed, purpose + 1000, which.size)) / np.log(fall)
    return np.where(place >= last, last + np.minimum(more, MOST_TAIL).astype(np.int64), place)


def counted_moves(first: np.ndarray, cells: np.ndarray, noisy: NoisyMovement, count: int) -> np.ndarray:
    """float64 [cells, 8]: moves by cell and direction, counted as in the measured table.

    Where a unit has many trips, its moves are scaled together. Drawn trips are not assigned to units, so all
    their moves count alike.
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


def shrunk_moves(
    grid: CellGrid, noisy: NoisyTable, total: float, beside: np.ndarray, parts: Parts = ALL_PARTS
) -> np.ndarray:
    """float64 [cells, 8]: non-negative, none off the grid, of the total.

    `beside` [cells, k]: other noisy numbers that predict the number of moves in a cell.
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
    """float64 [cells, 8, k]: predictors of each value from other values, with independent noise."""
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
    """Geometric mean of the positive parts."""
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


PARAMETERS = 12  # of a prediction of places, about: weights of features and levels of the isotonic fit
DISTANCE_CLASSES = 12
# Prior standard deviation of flows around the prediction from margins and distance, relative. It is large
# since errors of the prediction are shared by whole quarters of a city: with more shrinkage, sums over many
# flows would stay biased.
FLOW_DEVIATION = 2.0
FEWEST_REGIONS, MOST_REGIONS = 4, 100


def block_sides(grid: CellGrid) -> tuple[int, ...]:
    """Sides of blocks in cells, finest first: 1, 3, 9, ... while the grid has several."""
    sides = [1]
    while 3 * sides[-1] < max(grid.columns, grid.rows) / 2:
        sides.append(3 * sides[-1])
    return tuple(sides)


def blocks_of(grid: CellGrid, side: int) -> tuple[np.ndarray, int]:
    """The block of every cell, and the number of blocks."""
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
    """Starts and ends per cell, predicted from visits, from nearby values, and from each other."""
    visits = visits_of(grid, moves)
    fitted = []
    for own, other in ((starts, ends), (ends, starts)):
        expected = visits
        if parts.shrink:
            square = own[0].values.reshape(grid.rows, grid.columns)
            ring = (boxes(square, 1) - square).ravel()
            wide = (boxes(square, 3) - boxes(square, 1)).ravel()
            features = np.stack([visits, ring, wide, *per_cell(grid, sides, other).T], axis=1)
            expected = select_by_mallows_cp(own[0], visits, prediction(own[0], features), PARAMETERS)
        fitted.append(places(grid, sides, own, expected + 1e-3 * expected.mean(), total, parts))
    return fitted[0], fitted[1]


def per_cell(grid: CellGrid, sides: tuple[int, ...], tables: tuple[NoisyTable, ...]) -> np.ndarray:
    """float64 [cells, levels]: the value of each cell's block, shared over its cells."""
    columns = []
    for side, table in zip(sides, tables, strict=True):
        block, count = blocks_of(grid, side)
        columns.append((table.values / np.maximum(np.bincount(block, minlength=count), 1))[block])
    return np.stack(columns, axis=1)


def places(
    grid: CellGrid,
    sides: tuple[int, ...],
    noisy: tuple[NoisyTable, ...],
    expected: np.ndarray,
    total: float,
    parts: Parts = ALL_PARTS,
) -> np.ndarray:
    """float64 [cells], non-negative, of the total: noisy blocks from coarse to fine.

    Within a block, mass is predicted in proportion to `expected`, and noisy values are shrunk towards that.
    """
    parent = np.zeros(grid.count, np.int64)
    mass = np.array([total])
    for side, table in reversed(tuple(zip(sides, noisy, strict=True))):
        block, count = blocks_of(grid, side)
        share = np.bincount(block, expected, count) + 1e-12
        above = np.zeros(count, np.int64)
        above[block] = parent
        usual = mass[above] * share / np.bincount(above, share, mass.size)[above]
        fitted = shrunk_to(table, usual, parts)
        mass = onto_own_total(fitted, total) if mass.size == 1 else onto_totals(fitted, above, mass)
        parent = block
    return mass


def shrunk_to(noisy: NoisyTable, expected: np.ndarray, parts: Parts) -> np.ndarray:
    """Noisy values shrunk towards `expected` according to their residual variance, unless switched off."""
    return shrunk(noisy, expected) if parts.shrink else noisy.values


def regions(grid: CellGrid, mass: np.ndarray, wanted: int) -> np.ndarray:
    """int64 [cells]: a k-d partition into about `wanted` regions of similar mass."""
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
    """float64 [regions, regions]: noisy flows shrunk to a gravity model, fitted to the margins."""
    count = int(region.max()) + 1
    begin, end = np.bincount(region, starts, count), np.bincount(region, ends, count)
    total = begin.sum()
    values = noisy.values.reshape(count, count)
    expected = np.outer(begin, end) / max(total, 1e-12)
    away = _distance_classes(grid, region, count)
    for _ in range(3):  # ratio of noisy flows at a distance to those that margins alone predict
        usual = np.bincount(away.ravel(), expected.ravel(), DISTANCE_CLASSES)
        measured = np.bincount(away.ravel(), values.ravel(), DISTANCE_CLASSES)
        noise = noisy.deviation * np.sqrt(np.bincount(away.ravel(), minlength=DISTANCE_CLASSES))
        trust = usual**2 / (usual**2 + noise**2 + 1e-12)
        ratio = 1.0 + trust * (np.maximum(measured, 0.0) / np.maximum(usual, 1e-12) - 1.0)
        expected = to_margins(expected * ratio[away] + 1e-12, begin + 1e-9, end + 1e-9, 5)
    fitted = shrunk(noisy, expected.ravel(), FLOW_DEVIATION) if parts.shrink else noisy.values
    fitted = fitted.reshape(count, count)
    fitted = onto_own_total(fitted, total) + 1e-6 * expected
    return to_margins(fitted, begin + 1e-9, end + 1e-9)


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
