"""Simulated records: each user's diary observed at sites at the moments of a phone's activity, or all along.

Events are visits in the sense of Acs and Castelluccia 2014: distinct in (user, site, hour). Samples are not.
Transit trips are the longer journeys of a diary, touched in at one station and out at another.

GPS-like trips are the journeys of a diary along a street lattice, a point every 15 to 60 seconds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import ndtr

from shoal.events.simulate.people import (
    ROAD,
    TRANSIT,
    TRIPS,
    Ground,
    People,
    below,
    normal,
    open_stream,
    pick,
    point_of,
    site_at,
    uniform,
    user_id,
)
from shoal.events.simulate.rhythm import Rhythm, empty_week, plan_week, stay_at

HOUR_SITES = 8  # most records of one user and hour when records are distinct


class Habit(NamedTuple):
    """How records fall: `purpose` names the random stream."""

    purpose: int
    distinct: bool
    same_hour: float
    steadiness: float  # share of the variance of the weekly number that belongs to the person
    wander: float  # probability that a record is served by a neighbouring site


def draw_visits(
    people: People, ground: Ground, rhythm: Rhythm, habit: Habit, count_table, weeks: int, seed: int
):
    """(user id, seconds since the local start, site) of every record of a block of users, unordered."""
    counts = _counts(people, habit, count_table, weeks, seed)
    begin = np.concatenate([[0], np.cumsum(counts.ravel())])
    user = np.empty(begin[-1], np.int64)
    second = np.full(begin[-1], -1, np.int64)
    site = np.empty(begin[-1], np.int32)
    _fill(people, ground, rhythm, habit, counts, begin, seed, user, second, site)
    placed = second >= 0
    if placed.all():
        return user, second, site
    return user[placed], second[placed], site[placed]


def _counts(people: People, habit: Habit, count_table, weeks: int, seed: int) -> np.ndarray:
    """Records per user and week: each week has the table's distribution, weeks of a person go together."""
    own = np.empty((len(people.index), weeks))
    _weekly_normals(people.index, seed, habit.purpose, own)
    rank = ndtr(np.sqrt(habit.steadiness) * people.activity[:, None] + np.sqrt(1 - habit.steadiness) * own)
    return np.searchsorted(count_table, rank, side="right") + 1


@njit(cache=True, nogil=True)
def _weekly_normals(index, seed, purpose, out):
    state = np.empty(1, np.uint64)
    for i in range(out.shape[0]):
        for week in range(out.shape[1]):
            open_stream(state, seed, index[i], week, purpose + 16)
            out[i, week] = normal(state)


@njit(cache=True, nogil=True)
def _fill(people, ground, rhythm, habit, counts, begin, seed, user, second, site):
    state = np.empty(1, np.uint64)
    stays = empty_week()
    seen = np.empty((168, HOUR_SITES), np.int32)
    seen_size = np.empty(168, np.int64)
    weeks = counts.shape[1]
    for i in range(counts.shape[0]):
        name = user_id(people.index[i], seed)
        for week in range(weeks):
            plan_week(stays, state, ground, people, i, seed, week)
            open_stream(state, seed, people.index[i], week, habit.purpose)
            seen_size[:] = 0
            first = begin[i * weeks + week]
            for k in range(counts[i, week]):
                user[first + k] = name
                when = -1
                if k > 0 and uniform(state) < habit.same_hour:
                    earlier = second[first + below(state, k)]
                    if earlier >= 0:
                        when = (earlier % 604800) // 3600 * 3600 + below(state, 3600)
                        place = _place(stays, ground, when)[0]
                        place = _free_site(state, ground, place, when // 3600, seen, seen_size, habit)
                        when = when if place >= 0 else -1
                if when < 0:
                    when, place = _new_moment(stays, state, ground, rhythm, habit, week, seen, seen_size)
                if when >= 0:
                    second[first + k] = week * 604800 + when
                    site[first + k] = place


@njit(cache=True)
def _new_moment(stays, state, ground, rhythm, habit, week, seen, seen_size):
    """A second of the week and a site, by rejection: rate of the place times the site's own factor."""
    for attempt in range(400):
        hour = pick(state, rhythm.hour_running)
        when = hour * 3600 + below(state, 3600)
        place, kind = _place(stays, ground, when)
        if attempt < 60:
            probability = rhythm.accept[kind, hour] * rhythm.factor[place, week * 168 + hour]
            if uniform(state) >= probability:
                continue
        place = _free_site(state, ground, place, hour, seen, seen_size, habit)
        if place >= 0:
            return when, place
    return -1, 0


@njit(cache=True)
def _place(stays, ground, when):
    """Nearest site and kind of place at a second of the week; on a journey, along two straight streets."""
    minute = when / 60.0
    k = stay_at(stays, minute)
    if minute <= stays.leave[k] or k + 1 >= stays.size[0]:
        return stays.site[k], stays.kind[k]
    a, b = stays.site[k], stays.site[k + 1]
    share = (minute - stays.leave[k]) / (stays.arrive[k + 1] - stays.leave[k])
    dx, dy = ground.xy[b, 0] - ground.xy[a, 0], ground.xy[b, 1] - ground.xy[a, 1]
    gone = share * (abs(dx) + abs(dy))
    x = ground.xy[a, 0] + np.sign(dx) * min(gone, abs(dx))
    y = ground.xy[a, 1] + np.sign(dy) * max(gone - abs(dx), 0.0)
    return site_at(ground, x, y), ROAD


@njit(cache=True)
def _free_site(state, ground, place, hour, seen, seen_size, habit):
    """The site that serves a place, mostly the nearest; if distinct, one not yet used in this hour, or -1."""
    rank = 0
    if uniform(state) < habit.wander:
        rank = 1 + below(state, 3)
    if not habit.distinct:
        return ground.near[place, rank]
    if seen_size[hour] == HOUR_SITES:
        return -1
    for step in range(ground.near.shape[1]):
        site = ground.near[place, (rank + step) % ground.near.shape[1]]
        used = False
        for k in range(seen_size[hour]):
            used = used or seen[hour, k] == site
        if not used:
            seen[hour, seen_size[hour]] = site
            seen_size[hour] += 1
            return site
    return -1


WALKED_M = 700.0  # shorter journeys are walked


def draw_transit(people: People, ground: Ground, weeks: int, seed: int):
    """user, start second and station, end second and station of every ride; seconds since the local start."""
    size = np.zeros(len(people.index), np.int64)
    _rides(people, ground, weeks, seed, size, *_columns(0))
    begin = np.concatenate([[0], np.cumsum(size)])
    columns = _columns(begin[-1])
    _rides(people, ground, weeks, seed, begin[:-1].copy(), *columns)
    return columns


def _columns(n: int):
    return (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
    )


@njit(cache=True, nogil=True)
def _rides(people, ground, weeks, seed, at, user, start, start_site, end, end_site):
    """Rides of every user from row at[i] on; at[i] grows by their number. Without rows it only counts."""
    state = np.empty(1, np.uint64)
    stays = empty_week()
    writing = user.shape[0] > 0
    for i in range(people.index.shape[0]):
        for week in range(weeks):
            plan_week(stays, state, ground, people, i, seed, week)
            open_stream(state, seed, people.index[i], week, TRANSIT)
            for k in range(stays.size[0] - 1):
                a, b = stays.site[k], stays.site[k + 1]
                walk_in, walk_out = uniform(state), uniform(state)
                dx, dy = ground.xy[a, 0] - ground.xy[b, 0], ground.xy[a, 1] - ground.xy[b, 1]
                if abs(dx) + abs(dy) < WALKED_M:
                    continue
                if writing:
                    row = at[i]
                    length = stays.arrive[k + 1] - stays.leave[k]
                    user[row] = user_id(people.index[i], seed)
                    start[row] = week * 604800 + int(60 * (stays.leave[k] + 0.2 * length * walk_in))
                    end[row] = week * 604800 + int(60 * (stays.arrive[k + 1] - 0.2 * length * walk_out))
                    start_site[row], end_site[row] = a, b
                at[i] += 1


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
    _count_points(people, ground, weeks, seed, size)
    trips, points = size[:, :, 0].sum(), size[:, :, 1].sum()
    user, trip = np.empty(trips, np.int64), np.empty(trips, np.int64)
    first = np.empty(trips + 1, np.int64)
    second, x, y = np.empty(points, np.int64), np.empty(points), np.empty(points)
    first[trips] = points
    _fill_trips(people, ground, weeks, seed, user, trip, first, second, x, y)
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
def _count_points(people, ground, weeks, seed, size):
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
def _fill_trips(people, ground, weeks, seed, user, trip, first, second, x, y):
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
