"""Daily fragments linked to whole trajectories: the same home, alike days.

How alike a fragment is to the days before it, in slots of a day:

    same time     mean number of slots spent at the same place at the same time of day
    both away     half a slot for each in which both are away from home, wherever they are
    same places   overlap of the visit frequencies (Bhattacharyya coefficient), times the slots of a day

Fragments that begin at the same place are matched so that their likeness adds up to the most. Where places do
not hold as many people on both mornings, those left over are carried to the nearest place with room.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from numba import njit
from scipy.optimize import linear_sum_assignment

from shoal.attacks.transport import carried

AWAY = 0.5


def chain_days(fragments: Sequence[np.ndarray], place_xy_m: np.ndarray) -> np.ndarray:
    """int32 [users, slots]: fragments [users, slots of a day], one array per day, joined person by person.

    Days may differ in length: they are compared from their last slot back.

    >>> monday, tuesday = np.array([[0, 1, 0], [0, 2, 0]]), np.array([[0, 2, 0], [0, 1, 0]])
    >>> chain_days([monday, tuesday], np.zeros((3, 2))).tolist()
    [[0, 1, 0, 0, 1, 0], [0, 2, 0, 0, 2, 0]]
    """
    done = [np.ascontiguousarray(fragments[0], np.int32)]
    for fragment in fragments[1:]:
        order = _link(done, np.ascontiguousarray(fragment, np.int32), place_xy_m)
        done.append(np.ascontiguousarray(fragment[order], np.int32))
    return np.concatenate(done, axis=1)


def _link(done: list[np.ndarray], fragment: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """int64 [users]: the row of `fragment` that goes on from each person."""
    home, start = done[-1][:, 0], fragment[:, 0]
    habit = _root_frequencies(np.concatenate(done, axis=1), len(xy))
    new = _root_frequencies(fragment, len(xy))
    linked = np.full(len(home), -1, np.int64)
    by_home, by_start = _members(home, len(xy)), _members(start, len(xy))
    for place in range(len(xy)):
        people, rows = by_home[place], by_start[place]
        if not len(people) or not len(rows):
            continue
        alike = _likeness(done, fragment, people, rows, place)
        alike += fragment.shape[1] * (habit[people] @ new[rows].T).toarray()
        person, row = linear_sum_assignment(alike, maximize=True)
        linked[people[person]] = rows[row]
    _link_left_over(linked, home, start, xy)
    return linked


def _link_left_over(linked: np.ndarray, home: np.ndarray, start: np.ndarray, xy: np.ndarray) -> None:
    """Those whose place holds fewer people the next day, to the nearest room; fills `linked`."""
    people = np.flatnonzero(linked < 0)
    if not len(people):
        return
    rows = np.setdiff1d(np.arange(len(linked)), linked)
    people, rows = (
        people[np.argsort(home[people], kind="stable")],
        rows[np.argsort(start[rows], kind="stable")],
    )
    a, supply = np.unique(home[people], return_counts=True)
    b, demand = np.unique(start[rows], return_counts=True)
    metres = np.hypot(*(xy[a][:, None, :] - xy[b][None, :, :]).transpose(2, 0, 1))
    flow = carried(supply, demand, metres)
    room = np.cumsum(demand) - demand
    person = 0
    for i, j in zip(*np.nonzero(flow), strict=True):
        count = flow[i, j]
        linked[people[person : person + count]] = rows[room[j] : room[j] + count]
        person += count
        room[j] += count


def _likeness(
    done: list[np.ndarray], fragment: np.ndarray, people: np.ndarray, rows: np.ndarray, home: int
) -> np.ndarray:
    alike = np.zeros((len(people), len(rows)))
    for day in done:
        shared = min(day.shape[1], fragment.shape[1])
        _add_likeness(alike, day[people, -shared:], fragment[rows, -shared:], home)
    return alike / len(done)


@njit(cache=True)
def _add_likeness(alike, day, fragment, home):
    for i in range(day.shape[0]):
        for j in range(fragment.shape[0]):
            total = 0.0
            for slot in range(day.shape[1]):
                if day[i, slot] == fragment[j, slot]:
                    total += 1.0
                if day[i, slot] != home and fragment[j, slot] != home:
                    total += AWAY
            alike[i, j] += total


def _root_frequencies(positions: np.ndarray, places: int) -> scipy.sparse.csr_array:
    """Roots of the share of time at each place, [rows, places]."""
    rows = np.repeat(np.arange(len(positions)), positions.shape[1])
    ones = np.ones(positions.size)
    found = scipy.sparse.csr_array((ones, (rows, positions.ravel())), shape=(len(positions), places))
    found.sum_duplicates()
    found.data = np.sqrt(found.data / positions.shape[1])
    return found


def _members(place: np.ndarray, places: int) -> list[np.ndarray]:
    """Who is at each place."""
    order = np.argsort(place, kind="stable")
    return np.split(order, np.searchsorted(place[order], np.arange(1, places)))
