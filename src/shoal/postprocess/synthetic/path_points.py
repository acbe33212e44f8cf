"""Synthetic paths as points with times and coordinates, so that encoding the points gives the paths back.

A visit that begins at tick k and stays s steps has points at k, k + 1, ..., k + s steps after the start.
Visits that begin at a tick at which the visit before still has a point are spread evenly over that step,
after that point and before the next tick: encoding keeps the first point of a step and fills the line in.
Points lie strictly inside their cell, each somewhere else, and follow the trip: a place is drawn in every
cell, then moved towards those before and after it.

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

from shoal.postprocess.synthetic.draws import stream, uniform
from shoal.space.cells import CellGrid
from shoal.stages.synthetic import SyntheticPaths

PLACE_PURPOSE = 71
SECOND_US = 1_000_000
MARGIN = 0.08  # of a cell's side, that points keep from its border
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
    """Points of trips `low` to `high` (all): a trip has the same ones, whatever else is asked for.

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
    """Of written coordinates: enough that rounding moves a point by a hundredth of a cell at most."""
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
                part = 0.5 * step / (stay[visit] + 1)  # who stays drifts towards the next place
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
