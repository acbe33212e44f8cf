"""Transit trips: the longer journeys of a diary, touched in at one station and out at another."""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.events.simulate.diary import empty_week, plan_week
from shoal.events.simulate.people import Ground, People
from shoal.events.simulate.rng import TRANSIT, open_stream, uniform, user_id

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
