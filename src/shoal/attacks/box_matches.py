"""Which records have boxes that meet known places and times: the compiled part of the attacks on boxes.

`samples` are start, t, x, y and `boxes` start, t0, t1, x0, x1, y0, y1, both sorted by owner and time, int64.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _last_before(begin, end, t0, t):
    """The last of boxes begin .. end - 1 with t0 <= t; begin - 1 if there is none."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if t0[middle] <= t:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(cache=True, nogil=True)
def _meets(boxes, record, t_low, t_high, x_low, x_high, y_low, y_high):
    """The last box of the record that meets the block, or -1."""
    start, t0, t1, x0, x1, y0, y1 = boxes
    at = _last_before(start[record], start[record + 1], t0, t_high)
    while at >= start[record] and t1[at] >= t_low:
        if x0[at] <= x_high and x_low <= x1[at] and y0[at] <= y_high and y_low <= y1[at]:
            return at
        at -= 1
    return -1


@njit(cache=True, nogil=True)
def count_candidates(samples, boxes, who, drawn, steps, cells):
    """[people, points]: records that meet the first p blocks, and whether the own one does."""
    _, t, x, y = samples
    records = len(boxes[0]) - 1
    candidates = np.zeros(drawn.shape, np.int64)
    own = np.zeros(drawn.shape, np.bool_)
    alive = np.empty(records, np.int64)
    for person in range(len(who)):
        count = records
        for record in range(records):
            alive[record] = record
        for p in range(drawn.shape[1]):
            row = drawn[person, p]
            if row < 0:
                break
            t_low, x_low, y_low = t[row] // steps * steps, x[row] // cells * cells, y[row] // cells * cells
            kept = 0
            for place in range(count):
                record = alive[place]
                met = _meets(
                    boxes,
                    record,
                    t_low,
                    t_low + steps - 1,
                    x_low,
                    x_low + cells - 1,
                    y_low,
                    y_low + cells - 1,
                )
                if met >= 0:
                    alive[kept] = record
                    kept += 1
                    own[person, p] |= record == who[person]
            count = kept
            candidates[person, p] = count
    return candidates, own


@njit(cache=True, nogil=True)
def pick(samples, boxes, who, begins, tau, chance):
    """The record an adversary picks for each person; -1 where none holds any known sample."""
    start, t, x, y = samples
    _, t0, t1, x0, x1, y0, y1 = boxes
    records = len(boxes[0]) - 1
    picks = np.full(len(who), -1, np.int64)
    ties = np.empty(records, np.int64)
    for person in range(len(who)):
        first = _last_before(start[who[person]], start[who[person] + 1], t, begins[person] - 1) + 1
        stop = _last_before(start[who[person]], start[who[person] + 1], t, begins[person] + tau - 1) + 1
        most, least, tied = 0, np.inf, 0
        for record in range(records):
            holds, size, before = 0, 0.0, -1
            for row in range(first, stop):
                if holds + stop - row < most:
                    break
                at = _meets(boxes, record, t[row], t[row], x[row], x[row], y[row], y[row])
                if at >= 0:
                    holds += 1
                    if at != before:
                        across = x1[at] - x0[at] + y1[at] - y0[at] + 2
                        size += float(t1[at] - t0[at] + 1) * across
                    before = at
            if holds == 0 or holds < most or (holds == most and size > least):
                continue
            if holds > most or size < least:
                tied = 0
            most, least = holds, size
            ties[tied] = record
            tied += 1
        if tied:
            picks[person] = ties[min(int(chance[person] * tied), tied - 1)]
    return picks


@njit(cache=True, nogil=True)
def given_away(samples, boxes, who, begins, tau, picks, small_steps, small_cells):
    """[people, 3]: samples outside the window, those in a box of the pick, those in a small one."""
    start, t, x, y = samples
    _, t0, t1, x0, x1, y0, y1 = boxes
    out = np.zeros((len(who), 3))
    for person in range(len(who)):
        for row in range(start[who[person]], start[who[person] + 1]):
            if begins[person] <= t[row] < begins[person] + tau:
                continue
            out[person, 0] += 1
            if picks[person] < 0:
                continue
            at = _meets(boxes, picks[person], t[row], t[row], x[row], x[row], y[row], y[row])
            if at >= 0:
                out[person, 1] += 1
                small = x1[at] - x0[at] + y1[at] - y0[at] + 2 <= small_cells
                if small and t1[at] - t0[at] + 1 <= small_steps:
                    out[person, 2] += 1
    return out
