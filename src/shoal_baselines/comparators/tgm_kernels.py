"""Compiled walk of TGM: one synthetic trip after the other, algorithm 9 without its first line.

Counts of trips by prefix: the graphical model of TGM, exact and only where trips were.

A node is a way of cells that some trip has gone; its children are that way and one cell more. Every node has
three counts: trips that came this way, steps they stayed at its end, trips that ended there. Children of a
node lie together, so that a choice reads its numbers and at most eight others.

Source  Ghane's thesis, algorithm 8. As printed, line 12 does not extend the prefix where a cell is new to the
        model, so that counts would depend on the order of trips; taken as a slip, for line 17 extends it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shoal.postprocess.synthetic.numbers import stream, uniform
from shoal.space.cell_paths import DIRECTIONS, DX, DY, CellPaths, direction_between

STAY, END, OPTIONS = 8, 9, 10  # after the eight directions
THRESHOLD, WALK = 2, 3  # purposes of streams
COSINE = np.cos(np.arange(DIRECTIONS) * np.pi / 4)
# Sides that a direction belongs to, east, north, west, south: a corner to two (section 5.4.4).
_SIDES = np.array([[0, 0], [0, 1], [1, 1], [1, 2], [2, 2], [2, 3], [3, 3], [3, 0], [4, 4]], np.int64)


class Rules(NamedTuple):
    """What does not depend on trips."""

    columns: int
    rows: int
    private: bool
    probabilities: bool  # utilities are shares, not counts
    budgets: np.ndarray  # float64: of step 1, 2, ...; the walk ends where they end
    compares: bool  # whether lines 13 to 15 are there
    printed: bool  # line 13 as printed; else as section 5.4.3 says
    theta: float
    theta_scale: float  # of its Laplace noise
    theta_once: bool  # one noise for a trip; else one for each comparison
    powers: np.ndarray  # float64 [window + 1]: alpha^0, alpha^1, ...


@njit(cache=True, nogil=True)
def sizes(whole: Ways, parts: Ways, rules: Rules, seed, starts):
    """int64 [trips + 1]: where the visits of each trip begin."""
    first = np.zeros(starts.size + 1, np.int64)
    nothing = np.empty(0, np.int32)
    for trip in range(starts.size):
        first[trip + 1] = first[trip] + _walk(
            whole, parts, rules, seed, trip, starts[trip], nothing, nothing, nothing
        )
    return first


@njit(cache=True, nogil=True)
def fill(whole: Ways, parts: Ways, rules: Rules, seed, starts, first, cells, tick, stay):
    """The visits themselves: the same draws once more."""
    for trip in range(starts.size):
        to = slice(first[trip], first[trip + 1])
        _walk(whole, parts, rules, seed, trip, starts[trip], cells[to], tick[to], stay[to])


@njit(cache=True, nogil=True)
def _walk(whole, parts, rules, seed, trip, start, cells, tick, stay):
    """Lines 8 to 20 for one trip, written down where there is room; the number of its visits."""
    state, theta = stream(seed, WALK, trip), stream(seed, THRESHOLD, trip)
    cell, node, ahead = np.int64(start), whole.root[start], -1
    taken, utility = np.full(rules.powers.size - 1, -1, np.int64), np.empty(OPTIONS)
    visits, step, now = 0, 0, 0
    entered = True
    while True:
        if entered:
            _write(visits, cell, now, cells, tick, stay)
            visits, entered = visits + 1, False
        if rules.private and step >= rules.budgets.size:
            return visits
        _next(whole, parts, node, cell, rules.probabilities, utility)
        _weigh(utility, taken, now, rules.powers)
        budget = rules.budgets[step] if rules.private else 0.0
        option = choose(utility, cell, rules, budget, uniform(state, now))
        if option == END:
            return visits
        paid = True
        if rules.compares and option < STAY and ahead >= 0 and inside(cell, ahead, rules):
            noisy = rules.theta + laplace(uniform(theta, 0 if rules.theta_once else now), rules.theta_scale)
            less = COSINE[(option - ahead) % DIRECTIONS] < noisy
            if less == rules.printed:
                option, paid = ahead, rules.printed
        if taken.size:
            taken[now % taken.size] = option
        now += 1
        step += paid
        if option == STAY:
            if cells.size:
                stay[visits - 1] += 1
            continue
        node = _child(whole, node, option)
        cell, ahead, entered = cell + DY[option] * rules.columns + DX[option], option, True


@njit(cache=True, nogil=True)
def laplace(chance, scale):
    """Laplace noise from a number between 0 and 1."""
    side = chance - 0.5 + 2.0**-54
    return -scale * np.sign(side) * np.log(1.0 - 2.0 * abs(side))


@njit(cache=True, nogil=True)
def _write(visit, cell, now, cells, tick, stay):
    if cells.size:
        cells[visit], tick[visit], stay[visit] = cell, now, 0


@njit(cache=True, nogil=True)
def _child(ways, node, direction):
    if node >= 0:
        for child in range(ways.children[node], ways.children[node + 1]):
            if ways.direction[child] == direction:
                return child
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _next(whole, parts, node, cell, probabilities, utility):
    """Equations 5.2 to 5.4: the utility of every option, of the prefix or else of all trips at the cell."""
    utility[:] = 0.0
    if node >= 0:
        _read(whole, node, probabilities, utility)
    elif parts.root[cell] >= 0:
        _read(parts, parts.root[cell], probabilities, utility)


@njit(cache=True, nogil=True)
def _read(ways, node, probabilities, utility):
    for child in range(ways.children[node], ways.children[node + 1]):
        utility[ways.direction[child]] = ways.count[child]
    utility[STAY], utility[END] = ways.stay[node], ways.ended[node]
    if probabilities:
        # as printed: who ends here is also among those who came
        utility /= ways.stay[node] + ways.count[node] + ways.ended[node]


@njit(cache=True, nogil=True)
def _weigh(utility, taken, now, powers):
    """Section 5.4.4: times alpha^c, c of the last steps to the same side; a corner has the better side's."""
    if not taken.size:
        return
    counts = np.zeros(5, np.int64)
    for place in range(min(now, taken.size)):
        one, other = _SIDES[taken[place]]
        counts[one] += 1
        if other != one:
            counts[other] += 1
    for option in range(END):
        one, other = _SIDES[option]
        utility[option] *= powers[max(counts[one], counts[other])]


@njit(cache=True, nogil=True)
def choose(utility, cell, rules, budget, chance):
    """The exponential mechanism, P ~ exp(budget u / 2), over options inside the grid; without noise P ~ u."""
    weight = np.zeros(OPTIONS)
    most = utility.max()
    for option in range(OPTIONS):
        if option >= STAY or inside(cell, option, rules):
            u = utility[option]
            weight[option] = np.exp(budget * (u - most) / 2) if rules.private else u
    left = chance * weight.sum()
    last = END
    for option in range(OPTIONS):
        if weight[option] > 0:
            last = option
            left -= weight[option]
            if left < 0:
                break
    return last


@njit(cache=True, nogil=True)
def inside(cell, direction, rules):
    x, y = cell % rules.columns + DX[direction], cell // rules.columns + DY[direction]
    return 0 <= x < rules.columns and 0 <= y < rules.rows


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
