"""Simulated records at sites: each user's diary observed at the moments of a phone's activity.

Events are visits in the sense of Acs and Castelluccia 2014: distinct in (user, site, hour). Samples are not.
Transit trips are the longer journeys of a diary, touched in at one station and out at another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import ndtr

from shoal.events.simulate.people import (
    ROAD,
    TRANSIT,
    Ground,
    People,
    below,
    normal,
    open_stream,
    pick,
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
