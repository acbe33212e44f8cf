"""GPS-like trips: every journey of a diary along a street lattice, a point every 15 to 60 seconds."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from shoal.events.simulate.people import (
    TRIPS,
    Ground,
    People,
    below,
    normal,
    open_stream,
    point_of,
    uniform,
    user_id,
)
from shoal.events.simulate.rhythm import empty_week, plan_week

BLOCK_M = 120.0  # between two parallel streets
TURN = 0.35  # how the lattice lies against north, in radians
NOISE_M = 5.0
ROUTE_POINTS = 6000
TRIPS_PER_USER = 4096  # space for trip numbers in a trip's id


def loggers(people: People, share: float, seed: int) -> People:
    """The users of the block who carry a GPS logger."""
    carries = _carries(people.index, share, seed)
    return People(*(column[carries] for column in people))


def draw_trips(people: People, ground: Ground, weeks: int, seed: int):
    """Every trip: user, trip, first point (offsets), and per point seconds since the local start, x and y."""
    size = np.zeros((len(people.index), weeks, 2), np.int64)
    _count(people, ground, weeks, seed, size)
    trips, points = size[:, :, 0].sum(), size[:, :, 1].sum()
    user, trip = np.empty(trips, np.int64), np.empty(trips, np.int64)
    first = np.empty(trips + 1, np.int64)
    second, x, y = np.empty(points, np.int64), np.empty(points), np.empty(points)
    first[trips] = points
    _fill(people, ground, weeks, seed, user, trip, first, second, x, y)
    return user, trip, first, second, x, y


@njit(cache=True)
def _carries(index, share, seed):
    state = np.empty(1, np.uint64)
    carries = np.empty(index.shape[0], np.bool_)
    for i in range(index.shape[0]):
        open_stream(state, seed, index[i], 0, TRIPS + 32)
        carries[i] = uniform(state) < share
    return carries


@njit(cache=True)
def _interval(state, seed, user):
    """Seconds between two points of this user's logger."""
    open_stream(state, seed, user, 0, TRIPS + 48)
    return (15, 20, 30, 60)[below(state, 4)]


@njit(cache=True)
def _points(stays, k, every):
    """Number of points of the journey that follows stay k."""
    return int((stays.arrive[k + 1] - stays.leave[k]) * 60.0 / every) + 1


@njit(cache=True, nogil=True)
def _count(people, ground, weeks, seed, size):
    state = np.empty(1, np.uint64)
    stays = empty_week()
    for i in range(people.index.shape[0]):
        every = _interval(state, seed, people.index[i])
        for week in range(weeks):
            plan_week(stays, state, ground, people, i, seed, week)
            size[i, week, 0] = stays.size[0] - 1
            for k in range(stays.size[0] - 1):
                size[i, week, 1] += _points(stays, k, every)


@njit(cache=True, nogil=True)
def _fill(people, ground, weeks, seed, user, trip, first, second, x, y):
    state = np.empty(1, np.uint64)
    stays = empty_week()
    route = np.empty((ROUTE_POINTS, 2))
    at, row = 0, 0
    for i in range(people.index.shape[0]):
        who = people.index[i]
        every = _interval(state, seed, who)
        number = 0
        for week in range(weeks):
            plan_week(stays, state, ground, people, i, seed, week)
            for k in range(stays.size[0] - 1):
                xa, ya = point_of(state, ground, seed, who, stays.site[k], stays.kind[k])
                xb, yb = point_of(state, ground, seed, who, stays.site[k + 1], stays.kind[k + 1])
                open_stream(state, seed, who, week * 256 + k, TRIPS)
                corners = _lay_route(state, route, xa, ya, xb, yb)
                n = _points(stays, k, every)
                start = week * 604800 + int(stays.leave[k] * 60.0)
                _walk(state, route, corners, n, x[at : at + n], y[at : at + n])
                for j in range(n):
                    second[at + j] = start + j * every
                user[row] = user_id(who, seed)
                trip[row] = user_id(who * TRIPS_PER_USER + number, seed + 1)
                first[row] = at
                row, at, number = row + 1, at + n, number + 1


@njit(cache=True)
def _lay_route(state, route, xa, ya, xb, yb):
    """Corners of a staircase along the lattice from a to b; returns how many. Straight on is likelier."""
    c, s = math.cos(TURN), math.sin(TURN)
    step = BLOCK_M * max(1.0, math.ceil((abs(xb - xa) + abs(yb - ya)) * 1.5 / BLOCK_M / (ROUTE_POINTS - 8)))
    u, v = round((c * xa + s * ya) / step), round((c * ya - s * xa) / step)
    goal_u, goal_v = round((c * xb + s * yb) / step), round((c * yb - s * xb) / step)
    route[0, 0], route[0, 1] = xa, ya
    n, along_u = 1, uniform(state) < 0.5
    while True:
        route[n, 0], route[n, 1] = step * (c * u - s * v), step * (s * u + c * v)
        n += 1
        left_u, left_v = abs(goal_u - u), abs(goal_v - v)
        if left_u + left_v == 0:
            break
        if uniform(state) < 0.3:
            along_u = uniform(state) * (left_u + left_v) < left_u
        if left_u == 0 or left_v == 0:
            along_u = left_u > 0
        if along_u:
            u += 1 if goal_u > u else -1
        else:
            v += 1 if goal_v > v else -1
    route[n, 0], route[n, 1] = xb, yb
    return n + 1


@njit(cache=True)
def _walk(state, route, corners, n, x, y):
    """n points from end to end of the route, at a speed that varies and sometimes drops, with noise."""
    length = 0.0
    for k in range(corners - 1):
        length += math.hypot(route[k + 1, 0] - route[k, 0], route[k + 1, 1] - route[k, 1])
    total = 0.0
    for j in range(1, n):
        x[j] = 0.1 if uniform(state) < 0.12 else 0.6 + 0.8 * uniform(state)  # traffic lights
        total += x[j]
    gone, k, before = 0.0, 0, 0.0
    piece = math.hypot(route[1, 0] - route[0, 0], route[1, 1] - route[0, 1])
    for j in range(n):
        gone += x[j] * length / total if j > 0 else 0.0
        while k < corners - 2 and gone > before + piece:
            before += piece
            k += 1
            piece = math.hypot(route[k + 1, 0] - route[k, 0], route[k + 1, 1] - route[k, 1])
        share = min((gone - before) / piece, 1.0) if piece > 0 else 0.0
        x[j] = route[k, 0] + share * (route[k + 1, 0] - route[k, 0]) + NOISE_M * normal(state)
        y[j] = route[k, 1] + share * (route[k + 1, 1] - route[k, 1]) + NOISE_M * normal(state)
