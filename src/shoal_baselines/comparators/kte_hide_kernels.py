"""Compiled parts of kte-hide: merge costs of pairs, cycles through subsets, the records at the end."""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.anonymise.kmerge import merge_sorted

SEARCH = 2_000  # steps of a search for a cycle, and as many more per 100 users


@njit(cache=True, nogil=True)
def mean_samples(t, x, y, begin, end):
    """float64 [users, 3]: mean t, x, y of the samples begin .. end of each user."""
    mean = np.empty((len(begin), 3))
    for user in range(len(begin)):
        rows = slice(begin[user], end[user])
        mean[user, 0], mean[user, 1], mean[user, 2] = t[rows].mean(), x[rows].mean(), y[rows].mean()
    return mean


@njit(cache=True, nogil=True)
def pair_costs(t, x, y, begin, end, first, second):
    """float64: cost of the best merge of users first[p] and second[p], whose samples are begin .. end."""
    cost = np.empty(len(first))
    most = 0
    for user in range(len(begin)):
        most = max(most, end[user] - begin[user])
    work = _scratch(2 * most)
    for p in range(len(first)):
        a, b = first[p], second[p]
        cost[p] = _pair_cost(t, x, y, begin[a], end[a], begin[b], end[b], work)
    return cost


@njit(cache=True, nogil=True)
def choose_hiding_sets(t, x, y, begin, retained, users, start, window, newest, parent):
    """Algorithm 2, lines 9 to 16, for all subsets users[start[s]:start[s + 1]] of one window.

    Fills parent[:, window]; where there are no cycles, switches `retained` off over the window. Returns for
    each of `users` whether it was removed.
    """
    removed = np.zeros(len(users), np.bool_)
    cycles = parent.shape[2]
    for s in range(len(start) - 1):
        members = users[start[s] : start[s + 1]]
        found = len(members) > cycles
        if found:
            free = _allowed(members, parent, window)
            cost = _window_costs(t, x, y, begin, retained, members, window, newest)
            order = np.empty((len(members), len(members)), np.int64)
            for a in range(len(members)):
                order[a] = np.argsort(cost[a], kind="mergesort")
            for cycle in range(cycles):
                before = _greedy_cycle(order, free)
                if before[0] < 0:
                    found = False
                    break
                for b in range(len(members)):
                    parent[members[b], window, cycle] = members[before[b]]
                    free[before[b], b] = False
        if not found:
            removed[start[s] : start[s + 1]] = True
            for user in members:
                parent[user, window, :] = -1
                retained[user, window : newest + 1] = False
    return removed


@njit(cache=True, nogil=True)
def _allowed(members, parent, window):
    """free[a, b]: a may hide b, having been in no earlier hiding set of b (the reuse constraint)."""
    size = len(members)
    free = np.ones((size, size), np.bool_)
    for b in range(size):
        free[b, b] = False
        for m in range(window):
            for each in parent[members[b], m]:
                if each >= 0:
                    at = np.searchsorted(members, each)  # subsets are in order of users
                    if at < size and members[at] == each:
                        free[at, b] = False
    return free


@njit(cache=True, nogil=True)
def _window_costs(t, x, y, begin, retained, members, window, newest):
    """float64 [size, size]: cost of the merge of two members, summed over epochs where both have samples."""
    size, epochs = len(members), retained.shape[1]
    cost = np.zeros((size, size))
    for epoch in range(window, newest + 1):
        most = 0
        for user in members:
            most = max(most, begin[user * epochs + epoch + 1] - begin[user * epochs + epoch])
        work = _scratch(2 * most)
        for a in range(size):
            if not retained[members[a], epoch]:
                continue
            at = members[a] * epochs + epoch
            for b in range(a):
                if retained[members[b], epoch]:
                    to = members[b] * epochs + epoch
                    each = _pair_cost(t, x, y, begin[at], begin[at + 1], begin[to], begin[to + 1], work)
                    cost[a, b] += each
                    cost[b, a] += each
    return cost


@njit(cache=True, nogil=True)
def _greedy_cycle(order, free):
    """int64: for each member the one before it in a directed cycle through all; -1 if none was found.

    From the last member of the path to the cheapest free one that is not on it, back by one at a dead end.
    """
    size = len(order)
    path = np.zeros(size, np.int64)
    tried = np.zeros(size, np.int64)  # at each place of the path, how many of the next were looked at
    on_path = np.zeros(size, np.bool_)
    on_path[0] = True
    before = np.full(size, -1, np.int64)
    depth, left = 0, SEARCH + SEARCH * size // 100
    while left > 0:
        if depth == size - 1 and free[path[depth], path[0]]:
            for place in range(size):
                before[path[(place + 1) % size]] = path[place]
            return before
        following = -1
        while depth < size - 1 and tried[depth] < size and following < 0:
            each = order[path[depth], tried[depth]]
            tried[depth] += 1
            if not on_path[each] and free[path[depth], each]:
                following = each
        if following >= 0:
            depth += 1
            path[depth] = following
            tried[depth] = 0
            on_path[following] = True
        else:
            if depth == 0:
                return before
            on_path[path[depth]] = False
            depth -= 1
        left -= 1
    return before


@njit(cache=True, nogil=True)
def merge_records(t, x, y, begin, retained, parent, behind, out):
    """Algorithm 2, lines 17 to 20: boxes record, t0, t1, x0, x1, y0, y1 into `out`; returns their number.

    In each epoch a user is merged with whoever of its hiding sets still has samples there.
    """
    users, epochs = retained.shape
    windows, cycles = parent.shape[1], parent.shape[2]
    members = np.empty(1 + (behind + 1) * cycles, np.int64)
    count = 0
    for user in range(users):
        for epoch in range(epochs):
            if not retained[user, epoch]:
                continue
            members[0] = user
            k = 1
            for window in range(max(0, epoch - behind), min(windows, epoch + 1)):
                for cycle in range(cycles):
                    each = parent[user, window, cycle]
                    if each >= 0 and retained[each, epoch]:
                        members[k] = each
                        k += 1
            count += _merge_members(t, x, y, begin, epochs, epoch, members[:k], out[count:])
    return count


@njit(cache=True, nogil=True)
def _merge_members(t, x, y, begin, epochs, epoch, members, out):
    """Boxes of the best merge of all members' samples in an epoch; returns their number."""
    at, stop = begin[members * epochs + epoch], begin[members * epochs + epoch + 1]
    total = (stop - at).sum()
    columns = np.empty((4, total), np.int64)
    for row in range(total):
        first = -1  # of the members, the one with the earliest sample left
        for owner in range(len(members)):
            if at[owner] < stop[owner] and (first < 0 or t[at[owner]] < t[at[first]]):
                first = owner
        columns[0, row], columns[1, row], columns[2, row] = t[at[first]], x[at[first]], y[at[first]]
        columns[3, row] = first
        at[first] += 1
    boxes = np.empty((total, 6), np.int64)
    count = merge_sorted(columns[0], columns[1], columns[2], columns[3], total, len(members), boxes)[1]
    for each in range(count):
        out[each, 0] = members[0]
        for column in range(6):
            out[each, column + 1] = boxes[each, column]
    return count


@njit(cache=True, nogil=True)
def _scratch(rows):
    """Room for the merge of a pair: t, x, y, owner and boxes."""
    return np.empty((4, rows), np.int64), np.empty((rows, 6), np.int64)


@njit(cache=True, nogil=True)
def _pair_cost(t, x, y, a, a_end, b, b_end, work):
    """Cost of the best merge of samples a .. a_end with b .. b_end, each in order of time."""
    columns, boxes = work
    count = 0
    while a < a_end or b < b_end:
        owner = 0 if b == b_end or (a < a_end and t[a] <= t[b]) else 1
        row = b if owner else a
        columns[0, count], columns[1, count], columns[2, count] = t[row], x[row], y[row]
        columns[3, count] = owner
        count += 1
        a, b = a + 1 - owner, b + owner
    return merge_sorted(columns[0], columns[1], columns[2], columns[3], count, 2, boxes)[0]
