"""Walks with a given number of moves from a start to an end: bridges of a Markov chain with direction.

With probabilities P(out | cell, in), walks of L moves from s to e are drawn from the distribution of the
chain given that it is at e after L moves. beta_k(c, in) is the probability of being at e after k more moves:

    beta_0(c) = 1 if c = e         beta_k(c, in) = sum over out of P(out | c, in) beta_{k-1}(c + out, out)

and a move is drawn in proportion to P(out | c, in) beta_{k-1}(c + out, out): no walk is rejected.
More than NEAR moves from the end, messages do not depend on `in` (an eighth of the work); the moves drawn
there still do. Messages are computed once for all trips to an end, in the box that these can reach.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from shoal.postprocess.synthetic.numbers import stream, uniform
from shoal.space.cell_paths import DX, DY, chebyshev

NEAR = 12
ALONE = 3  # up to so many trips to an end have messages of their own, in a smaller box
WALK_PURPOSE = 11
MOST_TOGETHER = 4096  # trips to one end that share their messages; keeps threads evenly busy


def walk(
    probabilities: np.ndarray,
    first_probabilities: np.ndarray,
    columns: int,
    begin: np.ndarray,
    end: np.ndarray,
    moves: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """first [trips + 1] and cells of walks from `begin` to `end`.

    probabilities [cells, 8, 8] by direction in and out, first_probabilities [cells, 8]: positive for every
    move that stays on the grid, zero for those that leave it. `moves` must suffice, and not be 1 from a cell
    to itself.
    """
    rows = probabilities.shape[0] // columns
    if not np.array_equal(moves, possible_moves(begin, end, moves, columns, rows)):
        raise ValueError("no walk of so many moves leads from a start to its end")
    first = np.concatenate([[0], np.cumsum(moves + 1)]).astype(np.int64)
    cells = np.empty(int(first[-1]), np.int32)
    order = np.lexsort((moves, end))
    cuts = _cuts(end[order])
    near = np.ascontiguousarray(probabilities, np.float32)
    far = np.ascontiguousarray(first_probabilities, np.float32)

    def part(low: int, high: int) -> None:
        chosen = order[cuts[low] : cuts[high]]
        _walk_all(near, far, columns, rows, begin, end, moves, first, chosen, np.uint64(seed), cells)

    threads = os.cpu_count() or 1
    steps = np.unique(np.linspace(0, cuts.size - 1, 16 * threads + 1).astype(np.int64))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, steps[:-1].tolist(), steps[1:].tolist()))
    return first, cells


def possible_moves(
    begin: np.ndarray, end: np.ndarray, moves: np.ndarray, columns: int, rows: int
) -> np.ndarray:
    """int64: `moves`, or a few more where no walk has so many; a grid of one cell has none."""
    apart = chebyshev(begin, end, columns)
    enough = np.maximum(moves, apart)
    if columns * rows == 1:
        return apart
    if min(columns, rows) == 1:  # to and fro alone: an odd move more never arrives
        return enough + (enough - apart) % 2
    return np.where((apart == 0) & (enough == 1), 2, enough)


def _cuts(ends: np.ndarray) -> np.ndarray:
    """First positions of groups of trips with the same end, and the number of trips."""
    fresh = np.flatnonzero(np.diff(ends, prepend=-1))
    return np.append(fresh, ends.size)


@njit(cache=True, nogil=True)
def _walk_all(near, far, columns, rows, begin, end, moves, first, chosen, seed, cells):
    at = 0
    while at < chosen.size:
        stop = at
        while stop < chosen.size and end[chosen[stop]] == end[chosen[at]] and stop - at < MOST_TOGETHER:
            stop += 1
        if stop - at <= ALONE:
            stop = at + 1
        group = chosen[at:stop]
        x0, x1, y0, y1, longest = _reach(columns, rows, begin, end, moves, group)
        exact, flat = _messages(near, far, columns, begin, end[group[0]], group, x0, x1, y0, y1, longest)
        for trip in group:
            state = stream(seed, WALK_PURPOSE, trip)
            _draw(
                near,
                far,
                columns,
                exact,
                flat,
                x0,
                y0,
                begin[trip],
                end[trip],
                moves[trip],
                state,
                first[trip],
                cells,
            )
        at = stop


@njit(cache=True, nogil=True)
def _reach(columns, rows, begin, end, moves, group):
    """The box that walks of the group can reach, and the number of moves of the longest."""
    x0, x1, y0, y1, longest = columns, -1, rows, -1, 0
    for trip in group:
        sx, sy = begin[trip] % columns, begin[trip] // columns
        ex, ey = end[trip] % columns, end[trip] // columns
        left = moves[trip]
        longest = max(longest, left)
        slack_x, slack_y = (left - abs(sx - ex)) // 2, (left - abs(sy - ey)) // 2
        x0, x1 = min(x0, min(sx, ex) - slack_x), max(x1, max(sx, ex) + slack_x)
        y0, y1 = min(y0, min(sy, ey) - slack_y), max(y1, max(sy, ey) + slack_y)
    return max(x0, 0), min(x1, columns - 1), max(y0, 0), min(y1, rows - 1), longest


@njit(cache=True, nogil=True)
def _messages(near, far, columns, begin, end, group, x0, x1, y0, y1, longest):
    """exact [k, y, x, in] for k up to NEAR, flat [k, y, x] for all k, with a border of zeros around."""
    wide, high = x1 - x0 + 3, y1 - y0 + 3
    sharp = min(longest, NEAR)
    exact = np.zeros((sharp + 1, high, wide, 8), np.float32)
    flat = np.zeros((longest + 1, high, wide), np.float32)
    ex, ey = end % columns - x0 + 1, end // columns - y0 + 1
    exact[0, ey, ex, :] = 1.0
    flat[0, ey, ex] = 1.0
    ahead = np.empty(8, np.float32)
    alone = group.size == 1  # then cells out of reach of its start are left out, too
    sx, sy = begin[group[0]] % columns - x0 + 1, begin[group[0]] // columns - y0 + 1
    for k in range(1, longest + 1):
        most, most_flat = np.float32(0.0), np.float32(0.0)
        low_x, high_x = max(1, ex - k), min(wide - 2, ex + k)
        low_y, high_y = max(1, ey - k), min(high - 2, ey + k)
        if alone:
            left = longest - k
            low_x, high_x = max(low_x, sx - left), min(high_x, sx + left)
            low_y, high_y = max(low_y, sy - left), min(high_y, sy + left)
        for y in range(low_y, high_y + 1):
            for x in range(low_x, high_x + 1):
                cell = (y + y0 - 1) * columns + x + x0 - 1
                total = np.float32(0.0)
                for out in range(8):
                    total += far[cell, out] * flat[k - 1, y + DY[out], x + DX[out]]
                flat[k, y, x] = total
                most_flat = max(most_flat, total)
                if k > sharp:
                    continue
                for out in range(8):
                    ahead[out] = exact[k - 1, y + DY[out], x + DX[out], out]
                for into in range(8):
                    total = np.float32(0.0)
                    for out in range(8):
                        total += near[cell, into, out] * ahead[out]
                    exact[k, y, x, into] = total
                    most = max(most, total)
        # only ratios within a level matter: scaled to avoid underflow
        for y in range(low_y, high_y + 1):
            for x in range(low_x, high_x + 1):
                if most_flat > 0:
                    flat[k, y, x] /= most_flat
                if k <= sharp and most > 0:
                    for into in range(8):
                        exact[k, y, x, into] /= most
    return exact, flat


@njit(cache=True, nogil=True)
def _draw(near, far, columns, exact, flat, x0, y0, begin, end, moves, state, at, cells):
    weight = np.empty(8, np.float64)
    cell, into = begin, -1
    cells[at] = cell
    for k in range(moves, 0, -1):
        x, y = cell % columns - x0 + 1, cell // columns - y0 + 1
        total = 0.0
        for out in range(8):
            probability = far[cell, out] if into < 0 else near[cell, into, out]
            ny, nx = y + DY[out], x + DX[out]
            later = exact[k - 1, ny, nx, out] if k - 1 < exact.shape[0] else flat[k - 1, ny, nx]
            weight[out] = np.float64(probability) * later
            total += weight[out]
        if total <= 0.0:  # underflow: any move from which the end can still be reached
            total = _any_way(near, far, columns, cell, into, end, k, weight)
        left = uniform(state, moves - k) * total
        out = 0
        while out < 7 and left >= weight[out]:
            left -= weight[out]
            out += 1
        while weight[out] <= 0.0:
            out -= 1
        cell = cell + DY[out] * columns + DX[out]
        into = out
        at += 1
        cells[at] = cell


@njit(cache=True, nogil=True)
def _any_way(near, far, columns, cell, into, end, k, weight):
    """Probabilities of the moves after which the end can be reached in time; returns their sum."""
    total = 0.0
    for out in range(8):
        weight[out] = far[cell, out] if into < 0 else near[cell, into, out]
        after = cell + DY[out] * columns + DX[out]
        if weight[out] > 0.0:
            apart = max(abs(after % columns - end % columns), abs(after // columns - end // columns))
            if apart > k - 1 or (apart == 0 and k - 1 == 1):
                weight[out] = 0.0
        total += weight[out]
    return total
