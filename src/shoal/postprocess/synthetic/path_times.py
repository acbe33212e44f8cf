"""Stays and times of drawn trips: where steps are stayed, how quick moves are, when a trip starts."""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.postprocess.shrinkage import shrunk
from shoal.postprocess.synthetic.bridge_parts import by_class
from shoal.postprocess.synthetic.bridge_places import block_sides, blocks_of
from shoal.postprocess.synthetic.draws import (
    conditional,
    onto_total,
    pick,
    stream,
    to_margins,
    uniform,
    uniforms,
)
from shoal.space.cells import CellGrid
from shoal.space.path_setting import DAY_KINDS, PART_OF_KIND, WEEK_PARTS
from shoal.space.path_tables import DURATION_BINS, PACES, class_of_moves
from shoal.stages.synthetic import NoisyMovement, NoisyTable

STAY_PURPOSE, TICK_PURPOSE = 41, 42
GOES_ON = 0.8  # chance that a further step is stayed where the one before was
MOST_AT_ONCE = 6  # cells passed within one step
# Public: of the ticks per move where noise hides everything else; most moves take one.
DURATION_GUESS = np.array([0.02, 0.05, 0.08, 0.1, 0.35, 0.15, 0.1, 0.07, 0.05, 0.03])
LONGEST_PACE = 8.0  # ticks per move in the open class
TIDE_DEVIATION = 1.0  # of a region's share of a part of the week around that of all, relative; a public guess
LEAST_TIDE = 0.02  # of what is expected
FITTING_ROUNDS = 10


def place_stays(
    first: np.ndarray, cells: np.ndarray, total: np.ndarray, rate: np.ndarray, seed: int
) -> np.ndarray:
    """int32 per visit: each trip's total spread over its visits, in runs, by the rate of their cells."""
    stay = np.zeros(cells.size, np.int32)
    _stays(first, cells, total.astype(np.int64), rate, np.uint64(seed), stay)
    return stay


@njit(cache=True, nogil=True)
def _stays(first, cells, total, rate, seed, stay):
    for trip in range(first.size - 1):
        if total[trip] == 0:
            continue
        begin, end = first[trip], first[trip + 1]
        weight = 0.0
        for i in range(begin, end):
            weight += rate[cells[i]]
        state = stream(seed, STAY_PURPOSE, trip)
        at = begin
        for step in range(total[trip]):
            if step == 0 or uniform(state, 2 * step) >= GOES_ON:
                left = uniform(state, 2 * step + 1) * weight
                at = begin
                while at < end - 1 and left >= rate[cells[at]]:
                    left -= rate[cells[at]]
                    at += 1
            stay[at] += 1


def ticks_of(
    first: np.ndarray, cells: np.ndarray, stay: np.ndarray, grid: CellGrid, noisy: NoisyMovement, seed: int
) -> np.ndarray:
    """int32 per visit: when it begins.

    A trip's ticks of movement are drawn given its moves. Fewer ticks than moves: cells are passed within a
    step, where a straight line between the points of both ticks fills just them in again. More: some wait.
    """
    moves = np.diff(first) - 1
    if noisy.durations is None or noisy.paces is None:
        return _even_ticks(first, stay)
    bins = DURATION_BINS.size + 1
    rows = by_class(noisy.durations, DURATION_GUESS)
    ends = np.cumsum(rows, axis=1)
    which = class_of_moves(moves)
    place = (ends[which] <= (uniforms(seed, 51, moves.size) * ends[which, -1])[:, None]).sum(axis=1)
    edges = np.concatenate([[0.15], DURATION_BINS, [LONGEST_PACE]])
    place = np.minimum(place, bins - 1)
    low, high = edges[place], edges[place + 1]
    exact = place == np.searchsorted(
        DURATION_BINS, 1.0
    )  # one tick per move is common: the class is that alone
    ratio = np.where(exact, 1.0, low + uniforms(seed, 52, moves.size) * (high - low))
    wanted = np.maximum(np.rint(moves * ratio), np.minimum(moves, 1)).astype(np.int64)
    tick = np.zeros(cells.size, np.int32)
    quick, slow = _pace_weights(noisy.paces, noisy)
    _ticks(first, cells, stay, wanted, quick, slow, grid.columns, np.uint64(seed), tick)
    return tick


def _even_ticks(first: np.ndarray, stay: np.ndarray) -> np.ndarray:
    """A step per move."""
    before = np.cumsum(stay + 1) - stay - 1
    return (before - np.repeat(before[first[:-1]], np.diff(first))).astype(np.int32)


def _pace_weights(paces: NoisyTable, noisy: NoisyMovement) -> tuple[np.ndarray, np.ndarray]:
    """float64 [cells]: how likely a move from there is quick, and how likely it is slow, against others."""
    grid = noisy.setting.grid
    block, count = blocks_of(grid, block_sides(grid)[-1])
    values = paces.values.reshape(count, PACES)
    whole = np.maximum(values.sum(axis=0), 0.0) + 1e-9
    total = np.maximum(values.sum(axis=1), 1e-9)
    usual = total[:, None] * whole / whole.sum()
    share = np.maximum(shrunk(paces, usual.ravel()).reshape(count, PACES), 1e-9)
    share /= share.sum(axis=1, keepdims=True)
    return (share[:, 0] + 0.02)[block], (share[:, 2:].sum(axis=1) + 0.02)[block]


@njit(cache=True, nogil=True)
def _ticks(first, cells, stay, wanted, quick, slow, columns, seed, tick):
    for trip in range(first.size - 1):
        begin, end = first[trip], first[trip + 1]
        moves = end - begin - 1
        cost = np.ones(max(moves, 1), np.int64)  # ticks of the move from visit begin + i
        state = stream(seed, TICK_PURPOSE, trip)
        groups, tries = moves, 0
        while groups > wanted[trip] and tries < 6 * moves:
            i = _by_weight(cells, quick, begin, moves - 1, uniform(state, tries))
            tries += 1
            if cost[i] == 1 and stay[begin + i + 1] == 0 and _merges(cells, cost, begin, moves, i, columns):
                cost[i] = 0
                groups -= 1
        for extra in range(wanted[trip] - groups):
            cost[_by_weight(cells, slow, begin, moves, uniform(state, tries + extra))] += 1
        now = 0
        tick[begin] = 0
        for i in range(moves):
            now += stay[begin + i] + cost[i]
            tick[begin + i + 1] = now


@njit(cache=True, nogil=True)
def _by_weight(cells, weight, begin, size, chance):
    """A number below `size`, by the weight of the cell that the move leaves."""
    total = 0.0
    for i in range(size):
        total += weight[cells[begin + i]]
    left = chance * total
    i = 0
    while i < size - 1 and left >= weight[cells[begin + i]]:
        left -= weight[cells[begin + i]]
        i += 1
    return i


@njit(cache=True, nogil=True)
def _merges(cells, cost, begin, moves, i, columns):
    """Whether the visit after move i can be passed within a step: the line over it has just these cells."""
    if i + 1 >= moves:
        return False
    low = i
    while low > 0 and cost[low - 1] == 0:
        low -= 1
    high = i + 1
    while cost[high] == 0:
        high += 1
    far = high + 1 - low
    if far > MOST_AT_ONCE:
        return False
    a, b = cells[begin + low], cells[begin + high + 1]
    dx, dy = b % columns - a % columns, b // columns - a // columns
    if max(abs(dx), abs(dy)) != far:
        return False
    for j in range(1, far):
        x = a % columns + (2 * dx * j + far) // (2 * far)
        y = a // columns + (2 * dy * j + far) // (2 * far)
        if cells[begin + low + j] != y * columns + x:
            return False
    return True


def start_times(noisy: NoisyMovement, begin: np.ndarray, end: np.ndarray, seed: int) -> np.ndarray:
    """int64 per trip, from cell `begin` to cell `end`, in microseconds.

    A part of the week as is usual between them, a day and an hour of that part, any moment of that hour.
    """
    clock, count = noisy.setting.clock, begin.size
    weight = _slot_weights(noisy)
    edges, chance = clock.edges_us, uniforms(seed, 61, count)
    if noisy.start_tides is None or noisy.end_tides is None or not count:
        slot = pick(weight, chance)
    else:
        part_of_slot = PART_OF_KIND[noisy.setting.kind_of_slot]
        share = np.bincount(part_of_slot, weight, WEEK_PARTS)
        region = noisy.tide_region_of_cell
        chances = tide_chances((noisy.start_tides, noisy.end_tides), region[begin], region[end], share)
        ends = np.cumsum(chances, axis=2)[region[begin], region[end]]
        part = (ends <= uniforms(seed, 63, count)[:, None] * ends[:, -1:]).sum(axis=1)
        part = np.minimum(part, int(np.flatnonzero(share)[-1]))
        slot = np.zeros(count, np.int64)
        for each in np.unique(part):
            own = part == each
            slot[own] = pick(np.where(part_of_slot == each, weight, 0.0), chance[own])
    within = uniforms(seed, 62, count)
    return edges[slot] + (within * (edges[slot + 1] - edges[slot])).astype(np.int64)


def tide_chances(
    tides: tuple[NoisyTable, NoisyTable], begin: np.ndarray, end: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """float64 [regions, regions, parts]: the part of the week of trips from region `begin` to region `end`.

    Proportional fitting to three tables: trips that were drawn between regions; parts by the region of the
    start; parts by that of the end. The last two are noisy tides, drawn to the same share everywhere.
    """
    count = tides[0].values.size // WEEK_PARTS
    held = np.bincount(begin * count + end, minlength=count * count).reshape(count, count).astype(np.float64)
    by_start, by_end = (
        _likely_tides(table, held.sum(axis=axis), share) for table, axis in zip(tides, (1, 0), strict=True)
    )
    usual = share / share.sum()
    fitted = held[:, :, None] * usual
    for _ in range(FITTING_ROUNDS):
        fitted *= (by_start / np.maximum(fitted.sum(axis=1), 1e-300))[:, None, :]
        fitted *= (by_end / np.maximum(fitted.sum(axis=0), 1e-300))[None, :, :]
        fitted = conditional(fitted, usual) * held[:, :, None]
    return conditional(fitted, usual)


def _likely_tides(table: NoisyTable, held: np.ndarray, share: np.ndarray) -> np.ndarray:
    """float64 [regions, parts]: noisy tides of the sums `held` by region and of `share` by part.

    Their total is taken as two deviations less than it looks: where it is noise, tides are as usual.
    """
    usual = np.outer(held, share) / (held.sum() * share.sum())
    total = float(table.values.sum()) - 2 * table.deviation * np.sqrt(table.values.size)
    expected = usual * max(total, 1.0)
    found = shrunk(table, expected.ravel(), TIDE_DEVIATION).reshape(expected.shape)
    return to_margins(np.maximum(found, LEAST_TIDE * expected), held, share * (held.sum() / share.sum()))


def _slot_weights(noisy: NoisyMovement) -> np.ndarray:
    """float64 [slots]: how many trips start in each, by noisy days and hours."""
    setting = noisy.setting
    clock = setting.clock
    day, kinds = (
        np.ones(size) if table is None else _likely_times(table)
        for table, size in ((noisy.days, len(clock.days)), (noisy.hours, DAY_KINDS))
    )
    slot_day, slot_kind = clock.day_of_slot, setting.kind_of_slot
    minutes = clock.minutes
    within = (kinds[slot_kind] + 1e-9 * kinds.sum()) * minutes  # a slot's weight within its day
    share = within / np.bincount(slot_day, within)[slot_day]
    return day[slot_day] * share


def _likely_times(table: NoisyTable) -> np.ndarray:
    """Drawn to all alike, as far as noise asks for it."""
    total = max(float(table.values.sum()), 1.0)
    return onto_total(shrunk(table, np.full(table.values.size, total / table.values.size), 1.0), total)
