"""Synthetic paths as points with times and coordinates, so that encoding the points gives the paths back.

A visit that begins at tick k and stays s steps has points at k, k + 1, ..., k + s steps after the start.
Visits that begin at a tick at which the visit before still has a point are spread evenly over that step,
after that point and before the next tick: encoding keeps the first point of a step and fills the line in.
Points lie strictly inside their cell, each at a random place, and follow the trip: a place is drawn in every
cell, then moved towards those before and after it.

Stays and times of drawn trips come from noisy tables: of stays by cell, of the pace of moves, and of
start times.

>>> from shoal.space.cells import CellGrid
>>> grid = CellGrid(box=(0, 0, 300, 200), columns=3, rows=2, planar=True)
>>> points = path_points(SyntheticPaths.of(grid, 60, [[(0, 0, 1), (4, 2, 0)]]), seed=1)
>>> (points.time_us // 10**6).tolist(), (points.x // 100).tolist(), (points.y // 100).tolist()
([0, 60, 120], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0])
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.postprocess.synthetic.bridge_tables import block_sides, blocks_of, by_class
from shoal.postprocess.synthetic.numbers import (
    conditional,
    onto_total,
    pick,
    shrunk,
    stream,
    to_margins,
    uniform,
    uniforms,
)
from shoal.space.cell_paths import DURATION_BINS, PACES, class_of_moves
from shoal.space.cells import CellGrid
from shoal.space.clock import HOUR_KINDS
from shoal.space.trip_setting import PART_OF_KIND, WEEK_PARTS
from shoal.stages.synthetic import NoisyMovement, NoisyTable, SyntheticPaths

PLACE_PURPOSE = 71
SECOND_US = 1_000_000
MARGIN = 0.08  # least distance of points from the border of their cell, in sides of the cell
DECIMALS = {False: 6, True: 2}  # of degrees, and of metres (planar)


@dataclass(frozen=True, kw_only=True, eq=False)
class PathPoints:
    """Points of trips, in order of trips and time."""

    trip: np.ndarray = field(repr=False)  # int64: number of the trip, from 0
    number: np.ndarray = field(repr=False)  # int32: of the point in its trip, from 0
    time_us: np.ndarray = field(repr=False)  # int64
    x: np.ndarray = field(repr=False)  # float64: longitude, or metres
    y: np.ndarray = field(repr=False)


def path_points(paths: SyntheticPaths, seed: int, low: int = 0, high: int | None = None) -> PathPoints:
    """Points of trips `low` to `high` (all): the same for a trip whatever the range.

    Trips start at whole seconds. The seed is not for privacy.
    """
    high = paths.count if high is None else min(high, paths.count)
    points = (
        np.add.reduceat(paths.stay.astype(np.int64) + 1, paths.first[:-1]) if paths.count else np.empty(0)
    )
    first = np.concatenate([[0], np.cumsum(points[low:high])]).astype(np.int64)
    size = int(first[-1])
    trip, number = np.empty(size, np.int64), np.empty(size, np.int32)
    time_us, u, v = np.empty(size, np.int64), np.empty(size), np.empty(size)
    start_us = paths.start_us // SECOND_US * SECOND_US
    step_us = round(paths.step_s * SECOND_US)
    _times(paths.first, paths.tick, paths.stay, start_us, step_us, low, first, trip, number, time_us)
    _places(paths.first, paths.cells, paths.stay, paths.grid.columns, np.uint64(seed), low, first, u, v)
    x, y = paths.grid.corner(u, v)
    decimals = decimals_of(paths.grid)
    return PathPoints(trip=trip, number=number, time_us=time_us, x=x.round(decimals), y=y.round(decimals))


def decimals_of(grid: CellGrid) -> int:
    """Decimals of written coordinates: rounding moves a point by at most a hundredth of a cell."""
    return max(DECIMALS[grid.planar], math.ceil(math.log10(50 / min(grid.cell_size))))


@njit(cache=True, nogil=True)
def _times(first, tick, stay, start_us, step_us, low, points, trip, number, time_us):
    whole = step_us % SECOND_US == 0  # then all times are whole seconds, where a step has enough of them
    for i in range(points.size - 1):
        at, last = points[i], np.int64(-1)  # last: the latest tick that has a point
        visit, end = first[low + i], first[low + i + 1]
        while visit < end:
            quick = 0  # visits in a row that begin where the one before still is
            while visit + quick < end and tick[visit + quick] + stay[visit + quick] <= last:
                quick += 1
            for j in range(quick):
                part = step_us * (j + 1) // (quick + 1)
                if whole and step_us >= SECOND_US * (quick + 1):
                    part -= part % SECOND_US
                time_us[at] = start_us[low + i] + last * step_us + part
                at += 1
            visit += quick
            if visit == end:
                break
            for step in range(stay[visit] + 1):
                time_us[at] = start_us[low + i] + (tick[visit] + step) * step_us
                if tick[visit] + step <= last:  # stays, though it begins within a step: no encoded path does
                    time_us[at] += step_us // 2
                at += 1
            last = np.int64(tick[visit]) + stay[visit]
            visit += 1
        for p in range(points[i], points[i + 1]):
            trip[p] = low + i
            number[p] = p - points[i]


@njit(cache=True, nogil=True)
def _places(first, cells, stay, columns, seed, low, points, u, v):
    for i in range(points.size - 1):
        begin, end = first[low + i], first[low + i + 1]
        state = stream(seed, PLACE_PURPOSE, low + i)
        at = points[i]
        x, y = _place(cells, columns, begin, end, begin, state)
        for visit in range(begin, end):
            next_x, next_y = _place(cells, columns, begin, end, min(visit + 1, end - 1), state)
            for step in range(stay[visit] + 1):
                part = 0.5 * step / (stay[visit] + 1)  # points of a stay drift towards the next place
                u[at] = _inside(x + part * (next_x - x), cells[visit] % columns)
                v[at] = _inside(y + part * (next_y - y), cells[visit] // columns)
                at += 1
            x, y = next_x, next_y


@njit(cache=True, nogil=True)
def _place(cells, columns, begin, end, visit, state):
    """A drawn place of the visit's cell, moved towards those of the visits around it."""
    x, y, weight = 0.0, 0.0, 0.0
    for other in range(max(begin, visit - 1), min(end, visit + 2)):
        part = 2.0 if other == visit else 1.0
        x += part * (cells[other] % columns + uniform(state, 2 * (other - begin)))
        y += part * (cells[other] // columns + uniform(state, 2 * (other - begin) + 1))
        weight += part
    return _inside(x / weight, cells[visit] % columns), _inside(y / weight, cells[visit] // columns)


@njit(cache=True, nogil=True)
def _inside(value, side):
    return min(max(value, side + MARGIN), side + 1 - MARGIN)


STAY_PURPOSE, TICK_PURPOSE = 41, 42
GOES_ON = 0.8  # probability that the next step of a stay is at the same visit
MOST_AT_ONCE = 6  # cells passed within one step
# Public prior of the ticks per move; most moves take one.
DURATION_PRIOR = np.array([0.02, 0.05, 0.08, 0.1, 0.35, 0.15, 0.1, 0.07, 0.05, 0.03])
LONGEST_PACE = 8.0  # ticks per move in the open class
# Prior standard deviation of a region's share of a part of the week around the overall share, relative.
TIDE_DEVIATION = 1.0
LEAST_TIDE = 0.02  # of the prediction
FITTING_ROUNDS = 10


def place_stays(
    first: np.ndarray, cells: np.ndarray, total: np.ndarray, rate: np.ndarray, seed: int
) -> np.ndarray:
    """int32 per visit: each trip's total of stayed steps, in runs at visits drawn by `rate`."""
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
    """int32 per visit: the tick at which it begins.

    A trip's ticks of movement are drawn given its moves. With fewer ticks than moves, some cells are passed
    within a step, if the straight line between the points at both ticks crosses exactly these cells. With
    more ticks, some moves take several.
    """
    moves = np.diff(first) - 1
    if noisy.durations is None or noisy.paces is None:
        return _even_ticks(first, stay)
    bins = DURATION_BINS.size + 1
    rows = by_class(noisy.durations, DURATION_PRIOR)
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
    """One tick per move."""
    before = np.cumsum(stay + 1) - stay - 1
    return (before - np.repeat(before[first[:-1]], np.diff(first))).astype(np.int32)


def _pace_weights(paces: NoisyTable, noisy: NoisyMovement) -> tuple[np.ndarray, np.ndarray]:
    """float64 [cells] twice: relative rates of quick and of slow moves from each cell."""
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
def _by_weight(cells, weight, begin, size, draw):
    """A number below `size`, by the weight of the cell that the move leaves."""
    total = 0.0
    for i in range(size):
        total += weight[cells[begin + i]]
    left = draw * total
    i = 0
    while i < size - 1 and left >= weight[cells[begin + i]]:
        left -= weight[cells[begin + i]]
        i += 1
    return i


@njit(cache=True, nogil=True)
def _merges(cells, cost, begin, moves, i, columns):
    """Whether the visit after move i can be passed within a step: the line crosses exactly these cells."""
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

    Draws a part of the week given the regions of both ends, then a slot of that part, then a time within it.
    """
    clock, count = noisy.setting.clock, begin.size
    weight = _slot_weights(noisy)
    edges, draws = clock.edges_us, uniforms(seed, 61, count)
    if noisy.start_tides is None or noisy.end_tides is None or not count:
        slot = pick(weight, draws)
    else:
        part_of_slot = PART_OF_KIND[noisy.setting.kind_of_slot]
        share = np.bincount(part_of_slot, weight, WEEK_PARTS)
        region = noisy.tide_region_of_cell
        probabilities = tide_probabilities(
            (noisy.start_tides, noisy.end_tides), region[begin], region[end], share
        )
        ends = np.cumsum(probabilities, axis=2)[region[begin], region[end]]
        part = (ends <= uniforms(seed, 63, count)[:, None] * ends[:, -1:]).sum(axis=1)
        part = np.minimum(part, int(np.flatnonzero(share)[-1]))
        slot = np.zeros(count, np.int64)
        for each in np.unique(part):
            own = part == each
            slot[own] = pick(np.where(part_of_slot == each, weight, 0.0), draws[own])
    within = uniforms(seed, 62, count)
    return edges[slot] + (within * (edges[slot + 1] - edges[slot])).astype(np.int64)


def tide_probabilities(
    tides: tuple[NoisyTable, NoisyTable], begin: np.ndarray, end: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """float64 [regions, regions, parts]: probabilities of parts of the week given start and end regions.

    Iterative proportional fitting to three tables: drawn trips between regions; parts by the region of the
    start; parts by that of the end. The last two are noisy tides, shrunk towards the overall share.
    """
    count = tides[0].values.size // WEEK_PARTS
    trips = np.bincount(begin * count + end, minlength=count * count).reshape(count, count).astype(np.float64)
    by_start, by_end = (
        _shrunk_tides(table, trips.sum(axis=axis), share) for table, axis in zip(tides, (1, 0), strict=True)
    )
    usual = share / share.sum()
    fitted = trips[:, :, None] * usual
    for _ in range(FITTING_ROUNDS):
        fitted *= (by_start / np.maximum(fitted.sum(axis=1), 1e-300))[:, None, :]
        fitted *= (by_end / np.maximum(fitted.sum(axis=0), 1e-300))[None, :, :]
        fitted = conditional(fitted, usual) * trips[:, :, None]
    return conditional(fitted, usual)


def _shrunk_tides(table: NoisyTable, trips: np.ndarray, share: np.ndarray) -> np.ndarray:
    """float64 [regions, parts]: noisy tides fitted to the sums `trips` by region and `share` by part.

    Two standard deviations are subtracted from their total, so that tides that are mostly noise are shrunk to
    the overall share.
    """
    usual = np.outer(trips, share) / (trips.sum() * share.sum())
    total = float(table.values.sum()) - 2 * table.deviation * np.sqrt(table.values.size)
    expected = usual * max(total, 1.0)
    fitted = shrunk(table, expected.ravel(), TIDE_DEVIATION).reshape(expected.shape)
    return to_margins(np.maximum(fitted, LEAST_TIDE * expected), trips, share * (trips.sum() / share.sum()))


def _slot_weights(noisy: NoisyMovement) -> np.ndarray:
    """float64 [slots]: relative number of trips that start in each, from noisy days and hours."""
    setting = noisy.setting
    clock = setting.clock
    day, kinds = (
        np.ones(size) if table is None else _shrunk_times(table)
        for table, size in ((noisy.days, len(clock.days)), (noisy.hours, HOUR_KINDS))
    )
    slot_day, slot_kind = clock.day_of_slot, setting.kind_of_slot
    minutes = clock.minutes
    within = (kinds[slot_kind] + 1e-9 * kinds.sum()) * minutes  # a slot's weight within its day
    share = within / np.bincount(slot_day, within)[slot_day]
    return day[slot_day] * share


def _shrunk_times(table: NoisyTable) -> np.ndarray:
    """Noisy counts shrunk towards the uniform distribution."""
    total = max(float(table.values.sum()), 1.0)
    return onto_total(shrunk(table, np.full(table.values.size, total / table.values.size), 1.0), total)
